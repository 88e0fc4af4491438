import datetime as dt
import math

import numpy as np
import pytest

from pipelines.query import Scope, open_index
from pipelines.query.periods import Periods, asked_period, day, moment, periods
from tests.query.made import at, memory, tables, write

NOW = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She worked there from Oct 1721 to Mar 1918.", [(1721.75, 1918.25)]),
        ("It opened in 1992", [(1992, 1993)]),
        ("(1999\u20132001)", [(1999, 2002)]),
        ("the season 2003-05 and 1998/99", [(2003, 2006), (1998, 2000)]),
        ("between May 1990 and May 1991", [(1990 + 4 / 12, 1991 + 5 / 12)]),
        ("in 1990 and 1995", [(1990, 1991), (1995, 1996)]),
        ("since 2001, and until 14 June 2004", [(2001, math.inf), (-math.inf, 2004.5)]),
        ("on March 3, 1999 and on 2020-07-04", [(1999 + 2 / 12, 1999.25), (2020.5, 2020 + 7 / 12)]),
        ("in the 1960s", [(1960, 1970)]),
        ("1,500 people, 12000 cars, RFC-2119, 3.1999, x1999, no date", []),
        ("from 2005 to 2001", [(2005, math.inf), (-math.inf, 2002)]),
        ("", []),
    ],
)
def test_periods_of_a_text(text, expected):
    assert [pytest.approx(p) for p in expected] == periods(text)


def test_a_question_asks_for_its_first_range_else_its_first_date():
    assert asked_period("In 1950, who led the army from 1960 to 1962?") == (1960, 1963)
    assert asked_period("Who won in 1992, and who in 1996?") == (1992, 1993)
    assert asked_period("Who won?") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did I eat yesterday?", (dt.date(2024, 5, 14), dt.date(2024, 5, 14))),
        ("Who called last week?", (dt.date(2024, 5, 6), dt.date(2024, 5, 12))),
        ("What is planned this month?", (dt.date(2024, 5, 1), dt.date(2024, 5, 31))),
        ("Where did we go last year?", (dt.date(2023, 1, 1), dt.date(2023, 12, 31))),
        ("What broke two weeks ago?", (dt.date(2024, 4, 28), dt.date(2024, 5, 4))),
    ],
)
def test_relative_dates_are_told_from_now(text, expected):
    first, last = (dt.datetime.combine(d, dt.time(12)) for d in expected)
    found = asked_period(text, NOW)
    assert found is not None and found[0] == pytest.approx(day(first)[0], abs=0.006)
    assert found[1] == pytest.approx(day(last)[1], abs=0.006)
    assert asked_period(text) is None


def test_memories_overlap_by_any_of_their_periods():
    held = Periods(
        np.array([0, 0, 2, 3]), np.array([1990.0, 2003, 2005, 2001]), np.array([1991.0, 2006, 2006, math.inf])
    )
    assert held.overlapping((2004, 2005), 4).tolist() == [1, 0, 0, 1]
    assert held.overlapping((1991, 1992), 4).tolist() == [0, 0, 0, 0]
    assert moment(NOW) == pytest.approx(2024 + 135 / 366)


LED = [
    memory("m1", "The club was founded in 1920 and has a green shirt."),
    memory("m2", "From 2003 to 2006 Ada Quist led the club."),
    memory("m3", "Ben Orr led the club from 1990 to 1995."),
    memory("m4", "The club led the league, and its coach was praised."),
    memory("m5", "Members meet on Mondays.", observed_at=at("2004-07-01")),
]


def ask(path, text, **told):
    with open_index(path) as reader:
        return {m.memory_id: m.score for m in reader.search(text, Scope("notes", "ana"), **told).memories}


def test_a_question_about_a_time_finds_what_held_then(tmp_path):
    write(tables(LED), tmp_path / "i.duckdb", strategies={"notes": "dated"})
    question = "What did the club do in 2005?"
    assert next(iter(ask(tmp_path / "i.duckdb", question))) == "m2"
    assert next(iter(ask(tmp_path / "i.duckdb", question, strategy="hybrid"))) == "m4"
    undated = "What did the club do?"
    assert ask(tmp_path / "i.duckdb", undated) == ask(tmp_path / "i.duckdb", undated, strategy="hybrid")


def test_last_year_is_told_from_now_and_what_was_observed_then_counts(tmp_path):
    write(tables(LED), tmp_path / "i.duckdb", strategies={"notes": "dated"})
    question = "What did the club do last year?"
    without, found = (ask(tmp_path / "i.duckdb", question, **told) for told in ({}, {"now": "2005-03-01"}))
    assert [i for i in found if found[i] > without[i]] == ["m2", "m5"]
