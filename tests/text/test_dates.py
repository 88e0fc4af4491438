from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.text.dates import day_of_dateline, parse_stated_time


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2023-05-08", datetime(2023, 5, 8, tzinfo=UTC)),
        ("2023-05-08T13:56:00Z", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("2023-05-08T13:56:00+02:00", datetime(2023, 5, 8, 11, 56, tzinfo=UTC)),
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:09 am on 13 September, 2023", datetime(2023, 9, 13, 0, 9, tzinfo=UTC)),
        ("2023/05/30 (Tue) 21:48", datetime(2023, 5, 30, 21, 48, tzinfo=UTC)),
        ("13-Jun-2000", datetime(2000, 6, 13, tzinfo=UTC)), ("May 2023", datetime(2023, 5, 1, tzinfo=UTC)),
        ("1998", datetime(1998, 1, 1, tzinfo=UTC)), ("2023-05", datetime(2023, 5, 1, tzinfo=UTC)),
        (1998, datetime(1998, 1, 1, tzinfo=UTC)), ("D:20230508135600+02'00'", datetime(2023, 5, 8, 11, 56, tzinfo=UTC)),
        ("D:2023", datetime(2023, 1, 1, tzinfo=UTC)), ("25/12/2023", datetime(2023, 12, 25, tzinfo=UTC)),
        ("04/04/2023", datetime(2023, 4, 4, tzinfo=UTC)), (1_683_554_160, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        (1_683_554_160_000, datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        (date(2023, 5, 8), datetime(2023, 5, 8, tzinfo=UTC)),
        (datetime(2023, 5, 8, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2023, 5, 8, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_dates_as_people_write_them(value: object, expected: datetime) -> None:
    assert parse_stated_time(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "03/04/2023", "8 May", "May", "yesterday", "10:30", "2023-13-45", "soon 2023 maybe", "", None, True, 7, [],
        "99999",
    ],
)  # fmt: skip
def test_what_is_no_certain_date_is_null(value: object) -> None:
    assert parse_stated_time(value) is None


@given(st.one_of(st.text(max_size=40), st.integers(), st.floats(), st.datetimes(), st.dates()))
def test_any_value_gives_a_utc_time_or_null(value: object) -> None:
    when = parse_stated_time(value)
    assert when is None or when.utcoffset() == timedelta(0)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_iso_text_round_trips(time: datetime) -> None:
    assert parse_stated_time(time.isoformat()) == time.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("**07/20/2021 - 08/03/2021**", "2021-08-03"),
        ("11/22/23 - 12/05/23", "2023-12-05"),
        ("5/11/22-5/24/22", "2022-05-24"),
        ("4-24-2024 - 5-07-2024", "2024-05-07"),
        ("Wednesday, March 3, 2021", "2021-03-03"),
        ("3 March 2021 to 17 March 2021", "2021-03-17"),
        ("Date 13/04/2021", "2021-04-13"),
        ("03/04/2021", None),
        ("Due 3 March 2021", None),
        ("2021-03-04 release notes", None),
        ("version 1.2.2024", None),
        ("12", None),
    ],
)
def test_a_line_of_nothing_but_days_has_a_last_day(line: str, day: str | None) -> None:
    assert day_of_dateline(line) == (date.fromisoformat(day) if day else None)
