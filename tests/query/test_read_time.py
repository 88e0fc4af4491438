"""Questions that name a time of knowledge in words, and how their interpretation is reported."""

import datetime as dt
import json

import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import results_text
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
MADE = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-10")),
    memory("m2", "The launch is on Friday now.", observed_at=at("2024-03-04")),
    memory("m3", "The launch is paid for by the board.", observed_at=at("2024-05-20")),
    memory("m4", "The van is red."),
    memory("b1", "Ben's launch is on Tuesday.", user_id="ben", observed_at=at("2030-01-01")),
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("read") / "i.duckdb"
    write(tables(MADE, [("m2", "m1")]), path, strategies={"notes": "dated"})
    with open_index(path) as reader:
        yield reader


def ids(results):
    return [m.memory_id for m in results.memories]


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("What did we believe on 3 March about the launch?", "2024-03-03"),
        ("As of February 2024, when is the launch?", "2024-02-29"),
        ("What did we know about the launch in January?", "2024-01-31"),
    ],
)
def test_what_was_believed_is_answered_from_the_latest_memories_of_that_day_and_reported(reader, question, day):
    found = reader.search(question, ANA)
    assert ids(found)[0] == "m1" and not {"m2", "m3"} & set(ids(found))
    time = found.times[ANA]
    assert time.as_of.date() == at(day).date()
    assert results_text(found).startswith(f"as of {time.as_of.date()}: {time.as_of_phrase!r} asks what was known then")
    as_json = found.to_json()["time"]
    assert as_json["as_of"] == time.as_of.isoformat() and as_json["as_of_phrase"] in question and json.dumps(as_json)


def test_an_explicit_time_or_history_overrides_words(reader):
    question = "What did we believe on 3 March about the launch?"
    assert "m2" in ids(reader.search(question, ANA, as_of="2024-04-01"))
    every = reader.search(question, ANA, history=True)
    assert {"m1", "m2", "m3"} <= set(ids(every)) and every.times[ANA].as_of is None


def test_a_time_before_all_observations_is_a_time_that_texts_mention(reader):
    found = reader.search("As of 1998, when was the launch?", ANA)
    assert "m2" in ids(found) and found.times[ANA].as_of is None
    assert "'1998' is read as a time that texts speak of: nothing here was observed by then" in results_text(found)


def test_relative_dates_count_from_now_else_from_as_of_else_not(reader):
    question = "What happened with the launch last month?"
    for options, reference, named, first in [
        ({"as_of": "2024-04-02"}, "2024-04-02", "as_of", "2024-03-01"),
        ({"as_of": "2024-04-02", "now": "2024-06-01"}, "2024-06-01", "now", "2024-05-01"),
    ]:
        found = reader.search(question, ANA, **options)
        time = found.times[ANA]
        assert (str(time.reference), time.reference_is, str(time.first)) == (reference, named, first)
        text = results_text(found)
        assert f"'last month' is {first} to" in text and f"counted from {reference}" in text
    assert ids(reader.search(question, ANA, now="2024-06-01"))[0] == "m3"
    unresolved = reader.search(question, ANA)
    assert (unresolved.times[ANA].unresolved_phrase, unresolved.times[ANA].period) == ("last month", None)
    assert results_text(unresolved).startswith("'last month' is only words to search for: --now sets the time")
    never = reader.search("What did we say last month?", ANA, now="9999-12-31")
    assert results_text(never).startswith(
        "'last month' is only words to search for: no days are counted from 9999-12-31"
    )


def test_dates_without_a_year_count_from_the_newest_memory_of_their_scope(reader):
    time = reader.search("What happened with the launch in July?", ANA).times[ANA]
    assert (str(time.reference), time.reference_is, str(time.first)) == ("2024-05-20", "newest memory", "2024-07-01")
    assert reader.search("What happened in July, was it hot?", ANA).times[ANA].first == dt.date(2023, 7, 1)


def test_knowledge_of_some_time_ago_needs_the_time_of_the_question(reader):
    question = "What did we know about the launch three months ago?"
    assert reader.search(question, ANA).times[ANA].as_of is None
    assert ids(reader.search(question, ANA, now="2024-05-20"))[0] == "m1"


def test_a_question_without_such_words_says_nothing_of_time(reader):
    found = reader.search("When is the launch?", ANA)
    assert found.to_json()["time"] is None and results_text(found).startswith("1.")
    assert reader.backend.observed(Scope("notes", "nobody")) is None


def test_explain_reports_how_well_times_fit(reader):
    found = reader.search("What was said of the launch in March 2024?", ANA, explain=True)
    by_id = {m.memory_id: m for m in found.memories}
    assert by_id["m2"].time_score > 0.9 and by_id["m4"].time_score == 0 and ", time 0.9" in by_id["m2"].why
    plain = reader.search("What was said of the launch?", ANA, explain=True)
    assert all(m.time_score is None and "time" not in m.why for m in plain.memories)
