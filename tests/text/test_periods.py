import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.query import Scope, open_index
from palimpsest.text.date_mentions import MemoryPeriods, day_period, stated_periods, to_period
from tests.query.made import at, memory, tables, write


def periods_of(text):
    return stated_periods(text, None)


NOW = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She worked there from Oct 1721 to Mar 1918.", [(1721 + 273 / 365, 1918 + 90 / 365)]),
        ("It opened in 1992", [(1992, 1993)]), ("(1999\u20132001)", [(1999, 2002)]),
        ("the season 2003-05 and 1998/99", [(2003, 2006), (1998, 2000)]),
        ("between May 1990 and May 1991", [(1990 + 120 / 365, 1991 + 151 / 365)]),
        ("in 1990 and 1995", [(1990, 1991), (1995, 1996)]),
        ("since 2001, and until 14 June 2004", [(2001, math.inf), (-math.inf, 2004 + 166 / 366)]),
        (
            "on March 3, 1999 and on 2020-07-04",
            [(1999 + 61 / 365, 1999 + 62 / 365), (2020 + 185 / 366, 2020 + 186 / 366)],
        ),
        ("in the 1960s", [(1960, 1970)]), ("on 31 June 2004", [(2004 + 152 / 366, 2004 + 182 / 366)]),
        ("1,500 people, 12000 cars, RFC-2119, 3.1999, x1999, no date", []),
        ("from 2005 to 2001", [(2005, math.inf), (-math.inf, 2002)]), ("", []),
    ],
)  # fmt: skip
def test_periods_of_a_text(text, expected):
    assert [pytest.approx(p) for p in expected] == periods_of(text)


def test_memories_fit_by_overlap_by_beginning_with_the_period_and_else_by_their_end():
    memories = MemoryPeriods(
        np.array([0, 0, 2, 3]), np.array([1990.0, 2003, 2004, 2001]), np.array([1991.0, 2006, 2005, math.inf])
    )
    fits = memories.fit_scores((2004, 2005), 4)
    assert fits == pytest.approx([0.3 + 0.7 * math.exp(-1), 0, 1, 0.3 + 0.7 * math.exp(-3)])
    assert memories.fit_scores((1993, 1995), 4) == pytest.approx(
        [0.7 * math.exp(-1.5), 0] + [0.7 * math.exp(-k / 2) for k in (11, 8)]
    )
    memories = MemoryPeriods(np.array([0, 1]), np.array([-math.inf, 1999]), np.array([2001.0, math.inf]))
    assert memories.fit_scores((-math.inf, 2000), 2) == pytest.approx([0.3 + 0.7 * math.exp(-1), 0.3])
    assert memories.fit_scores((2000, math.inf), 2) == pytest.approx([0.3, 0.3 + 0.7 * math.exp(-1)])
    first, second = (to_period(d, d) for d in (dt.date(2023, 12, 31), dt.date(2024, 1, 1)))
    assert first[1] == second[0] == 2024
    assert day_period(NOW) == pytest.approx((2024 + 135 / 366, 2024 + 136 / 366))


@given(st.dates(dt.date(1000, 1, 1), dt.date(2099, 12, 31)), st.dates(dt.date(1000, 1, 1), dt.date(2099, 12, 31)))
def test_a_range_of_days_is_read_as_it_was_written(a, b):
    first, last = min(a, b), max(a, b)
    for text in (f"from {first:%-d %B %Y} to {last:%B %-d, %Y}", f"between {first} and {last}"):
        assert periods_of(text) == [to_period(first, last)]


@given(st.text(max_size=200))
def test_any_text_states_ordered_periods(text):
    assert all(start < end for start, end in periods_of(text))


LED = [
    memory("m1", "The club was founded in 1920 and has a green shirt."),
    memory("m2", "From 2003 to 2006 Ada Quist led the club."),
    memory("m3", "Ben Orr led the club from 1990 to 1995."),
    memory("m4", "The club led the league, and its coach was praised."),
    memory("m5", "Members meet on Mondays.", observed_at=at("2004-07-01")),
]


@pytest.fixture
def every_result(monkeypatch):
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "0")
    monkeypatch.setenv("PALIMPSEST_RERANKER", "none")


def search_scores(path, text, **filters):
    with open_index(path) as reader:
        return {m.memory_id: m.score for m in reader.search(text, Scope("notes", "ana"), **filters).memories}


def test_a_question_about_a_time_finds_what_was_true_or_observed_then(tmp_path, every_result):
    write(tables(LED), tmp_path / "i.duckdb", strategies={"notes": "dated"})
    question = "What did the club do in 2005?"
    assert next(iter(search_scores(tmp_path / "i.duckdb", question))) == "m2"
    assert next(iter(search_scores(tmp_path / "i.duckdb", question, strategy="hybrid"))) == "m4"
    undated = "What did the club do?"
    by_default, hybrid = (search_scores(tmp_path / "i.duckdb", undated, **m) for m in ({}, {"strategy": "hybrid"}))
    assert by_default == hybrid
    question = "What did the club do last year?"
    later, found = (search_scores(tmp_path / "i.duckdb", question, now=now) for now in ("2025-03-01", "2005-03-01"))
    assert {i for i in found if found[i] > later[i]} == {"m2", "m5"}
    assert {i for i in found if found[i] > search_scores(tmp_path / "i.duckdb", question)[i]} == {"m2", "m5"}


def test_what_was_stated_of_yesterday_is_found_by_that_day(tmp_path):
    rows = [
        memory("m1", "Yesterday the pump broke.", observed_at=at("2024-03-05")),
        memory("m2", "The pump broke again.", observed_at=at("2024-03-20")),
    ]
    write(tables(rows), tmp_path / "i.duckdb", strategies={"notes": "dated"})
    assert next(iter(search_scores(tmp_path / "i.duckdb", "What broke on 4 March 2024?"))) == "m1"


def test_a_year_and_two_digits_are_a_range_where_that_goes_on_else_a_month():
    april = [to_period(dt.date(2023, 4, 1), dt.date(2023, 4, 30))]
    assert periods_of("in 2023-04") == april == periods_of("in April 2023")
    assert periods_of("2001-04") == [(2001, 2005)] and periods_of("the season 1999/00") == [(1999, 2001)]
    assert periods_of("2023/12") == periods_of("December 2023")
    assert periods_of("2023-00") == periods_of("2023-22") == [(2023, 2024)]
