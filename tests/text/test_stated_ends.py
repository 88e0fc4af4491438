"""Until when statements hold by their own words: two sets of sentences, and the forms one by one."""

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.text.stated_ends import find_dates_ahead, stated_end

SETS = Path(__file__).parent / "stated_ends"
MONDAY = dt.date(2026, 6, 29)


def measure(name: str) -> tuple[float, float]:
    """Returns precision and recall of a set: a wrong day counts against both."""
    rows = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [stated_end(r["text"], dt.date.fromisoformat(r["said"])) for r in rows]
    right = sum(f is not None and f.isoformat() == r["end"] for f, r in zip(found, rows, strict=True))
    return right / sum(f is not None for f in found), right / sum(r["end"] is not None for r in rows)


def test_ends_of_both_sets_of_sentences_are_right():
    assert measure("development") == (1.0, 1.0)
    precision, recall = measure("apart")
    assert precision >= 0.95 and recall >= 0.8


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("I'm away until Monday.", "2026-07-06"),  # nobody says so of today
        ("I'm away until next Monday.", "2026-07-06"),
        ("I'm away until Sunday.", "2026-07-05"),
        ("I'm away until next Sunday.", "2026-07-12"),
        ("I'm away until 28 June.", "2027-06-28"),
        ("I'm away until 29 June.", "2026-06-29"),
        ("I'm away until the 28th.", "2026-07-28"),
        ("I'm away until the beginning of August.", "2026-08-01"),
        ("I'm away until 31/12/2026.", "2026-12-31"),
        ("I'm away until 03/04/2027.", None),
        ("I'm away until October '26.", None),
        ("I'm in Bern until Friday and in Basel until Sunday.", None),
        ("Hi Bo! I'm in Bern until Friday. I'm in Basel until Sunday.", "2026-07-05"),
        ("# Absence\n\nI'm in Bern until Friday.", "2026-07-03"),
        ("I'm in Bern until today.", None),
        ("Today's meeting is in room 4.", "2026-06-29"),
        ("Today's world is loud.", None),
        ("The discount is only valid today.", "2026-06-29"),
        ("The only approach available today is to wait.", None),
        ("I'm working through this week's letters.", None),
        ("Training is on Thursday.", None),
        ("My flight is on Thursday.", "2026-07-02"),
        ("The festival is in August.", None),
        ("We're visiting the festival in August.", "2026-08-31"),
        ("I am in Bern for a month.", "2026-07-29"),
        ("I am flying to Bern for a month.", None),
        ("The warranty is valid for two years.", None),
    ],
)
def test_a_date_is_counted_from_the_day_of_the_statement_and_what_is_unclear_has_none(text, end):
    assert stated_end(text, MONDAY) == (end and dt.date.fromisoformat(end))


@given(st.dates(dt.date(1950, 1, 1), dt.date(2100, 12, 31)))
def test_an_end_is_never_before_its_statement_and_a_day_without_a_year_within_one(said):
    for text in ("I'm away until 8 July.", "I'm away until Friday.", "I'm away until the 5th.", "I'm off this week."):
        end = stated_end(text, said)
        assert end is not None and dt.timedelta() <= end - said < dt.timedelta(days=366)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("from 3 to 9 July", [("2026-07-03", "2026-07-09")]),
        ("July 3-9, 2027", [("2027-07-03", "2027-07-09")]),
        ("from 3 to 9 May", [("2027-05-03", "2027-05-09")]),
        ("the next two weeks", [("2026-06-29", "2026-07-13")]),
        ("the rest of the month", [("2026-06-29", "2026-06-30")]),
        ("this weekend, next weekend", [("2026-07-04", "2026-07-05"), ("2026-07-11", "2026-07-12")]),
        ("last week", [("2026-06-22", "2026-06-28")]),
    ],
)
def test_dates_ahead_are_the_next_such_days(text, spans):
    found = [(str(d.first), str(d.last)) for d in find_dates_ahead(text, MONDAY)]
    assert found == spans
