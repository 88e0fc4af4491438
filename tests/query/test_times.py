"""When memories hold, what times a question names, and whose clock a day is of."""

import datetime as dt
import json

import duckdb
import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import results_text
from tests.query.made import at, index_fixture, memory, read_index, reader_fixture, tables

ANA = Scope("notes", "ana")
MADE = [
    memory("m1", "The gate is open.", valid_from=at("2024-02-01"), valid_until=at("2024-03-01")),
    memory("m2", "The gate is open to staff.", valid_from=at("2024-03-01")),
    memory("m3", "The gate has a lock.", valid_until=at("2024-02-15")),
    memory("m4", "The gate is green."),
    memory("m5", "The gate was moved.", observed_at=at("2024-01-01"), valid_from=at("2024-06-01")),
]
MICROSECOND = dt.timedelta(microseconds=1)


reader = reader_fixture(MADE)


@pytest.mark.parametrize("option", ["as_of", "now"])
@pytest.mark.parametrize(
    ("time", "valid"),
    [
        ("2024-01-31", {"m3", "m4"}),
        (at("2024-02-01") - MICROSECOND, {"m3", "m4"}),
        (at("2024-02-01"), {"m1", "m3", "m4"}),
        ("2024-02-14", {"m1", "m3", "m4"}),
        (at("2024-02-15"), {"m1", "m4"}),
        (at("2024-03-01") - MICROSECOND, {"m1", "m4"}),
        (at("2024-03-01"), {"m2", "m4"}),
        ("2024-03-01T00:30:00+01:00", {"m1", "m4"}),
        ("2024-02-29T23:30:00-01:00", {"m2", "m4"}),
        ("2024-05-31", {"m2", "m4"}),
        (dt.date(2024, 6, 1), {"m2", "m4", "m5"}),
    ],
)
def test_a_memory_holds_from_its_beginning_until_before_its_end(reader, option, time, valid):
    # What states an end and no beginning was so always, but its end is known: as_of and now agree on all of these.
    assert {m.memory_id for m in reader.search("gate", ANA, k=10, **{option: time}).memories} == valid


def test_without_a_time_nothing_is_excluded_nor_by_now_what_was_valid_at_as_of(reader):
    assert len(reader.search("gate", ANA, k=10).memories) == 5
    found = reader.search("gate", ANA, k=10, as_of="2024-02-10", now="2024-07-01")
    assert {m.memory_id for m in found.memories} == {"m1", "m3", "m4"}


def test_what_has_no_date_is_known_since_it_was_first_read_and_not_before(tmp_path):
    made = tables(MADE)
    read_at = pl.lit(at("2026-05-01")).cast(pl.Datetime("us", "UTC"))
    made["memories"] = made["memories"].with_columns(created_at=read_at)
    with read_index(tmp_path, made) as known:

        def known_at(time):
            return {m.memory_id for m in known.search("gate", ANA, k=10, as_of=time).memories}

        assert known_at("1900-01-01") == set()
        assert known_at("2024-02-10") == {"m1"}
        assert known_at("2026-04-30") == {"m2", "m5"} and known_at("2026-05-01") == {"m2", "m4", "m5"}
        assert len(known.search("gate", ANA, k=10).memories) == 5


MADE_read = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-10")),
    memory("m2", "The launch is on Friday now.", observed_at=at("2024-03-04")),
    memory("m3", "The launch is paid for by the board.", observed_at=at("2024-05-20")),
    memory("m4", "The van is red."),
    memory("b1", "Ben's launch is on Tuesday.", user_id="ben", observed_at=at("2030-01-01")),
]


reader_read = reader_fixture(lambda: tables(MADE_read, [("m2", "m1")]), strategies={"notes": "dated"})


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
def test_what_was_believed_is_answered_from_the_latest_memories_of_that_day_and_reported(reader_read, question, day):
    found = reader_read.search(question, ANA)
    assert ids(found)[0] == "m1" and not {"m2", "m3"} & set(ids(found))
    time = found.times[ANA]
    assert time.as_of.date() == at(day).date()
    assert results_text(found).startswith(f"as of {time.as_of.date()}: {time.as_of_phrase!r} asks what was known then")
    as_json = found.to_json()["time"]
    assert as_json["as_of"] == time.as_of.isoformat() and as_json["as_of_phrase"] in question and json.dumps(as_json)


def test_times_that_questions_name_are_counted_from_a_reference_and_explained(reader_read):
    question = "What happened with the launch last month?"
    for options, reference, named, first in [
        ({"as_of": "2024-04-02"}, "2024-04-02", "as_of", "2024-03-01"),
        ({"as_of": "2024-04-02", "now": "2024-06-01"}, "2024-06-01", "now", "2024-05-01"),
    ]:
        found = reader_read.search(question, ANA, **options)
        time = found.times[ANA]
        assert (str(time.reference), time.reference_is, str(time.first)) == (reference, named, first)
        text = results_text(found)
        assert f"'last month' is {first} to" in text and f"counted from {reference}" in text
    assert ids(reader_read.search(question, ANA, now="2024-06-01"))[0] == "m3"
    unresolved = reader_read.search(question, ANA)
    assert (unresolved.times[ANA].unresolved_phrase, unresolved.times[ANA].period) == ("last month", None)
    assert results_text(unresolved).startswith("'last month' is only words to search for: --now sets the time")
    never = reader_read.search("What did we say last month?", ANA, now="9999-12-31")
    assert "only words to search for: no days are counted from 9999-12-31" in results_text(never)
    found = reader_read.search("When is the launch?", ANA)
    assert found.to_json()["time"] is None and results_text(found).startswith("1.")
    assert reader_read.backend.observed(Scope("notes", "nobody")) is None
    found = reader_read.search("What was said of the launch in March 2024?", ANA, explain=True)
    by_id = {m.memory_id: m for m in found.memories}
    assert by_id["m2"].time_score > 0.9 and by_id["m4"].time_score == 0 and ", time 0.9" in by_id["m2"].why
    plain = reader_read.search("What was said of the launch?", ANA, explain=True)
    assert all(m.time_score is None and "time" not in m.why for m in plain.memories)
    time = reader_read.search("What happened with the launch in July?", ANA).times[ANA]
    assert (str(time.reference), time.reference_is, str(time.first)) == ("2024-05-20", "newest memory", "2024-07-01")
    assert reader_read.search("What happened in July, was it hot?", ANA).times[ANA].first == dt.date(2023, 7, 1)
    question = "What did we believe on 3 March about the launch?"
    assert "m2" in ids(reader_read.search(question, ANA, as_of="2024-04-01"))
    every = reader_read.search(question, ANA, history=True)
    assert {"m1", "m2", "m3"} <= set(ids(every)) and every.times[ANA].as_of is None
    found = reader_read.search("As of 1998, when was the launch?", ANA)
    assert "m2" in ids(found) and found.times[ANA].as_of is None
    assert "'1998' is read as a time that texts speak of: nothing here was observed by then" in results_text(found)
    question = "What did we know about the launch three months ago?"
    assert reader_read.search(question, ANA).times[ANA].as_of is None
    assert ids(reader_read.search(question, ANA, now="2024-05-20"))[0] == "m1"


LATE = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-8)))
"""In UTC it is 2 March."""
MADE_clock = [
    memory("late", "The ferry to the island leaves at nine.", observed_at=LATE, utc_offset=-480),
    memory("next", "The ferry to the island was full.", observed_at=at("2026-03-02T12:00")),
    memory("early", "The ferry to the island is blue.", observed_at=at("2026-02-27")),
    memory("undated", "The ferry to the island has a bar."),
]


index, reader_clock = index_fixture(MADE_clock), reader_fixture(MADE_clock)


def ids_clock(reader_clock, **options):
    found = reader_clock.search("the ferry to the island", ANA, k=10, hops=0, **options)
    return " ".join(sorted(m.memory_id for m in found.memories))


def test_answers_show_the_day_of_the_speaker_and_a_question_means_it(reader_clock):
    found = reader_clock.search("When does the ferry leave?", ANA, k=1)
    assert "(2026-03-01)" in found.context and "2026-03-02" not in found.context
    assert "(2026-03-01)" in results_text(found) and "2026-03-01" in found.message()["content"]
    shown = found.to_json()["memories"][0]
    assert shown["observed_at"] == shown["valid_from"] == "2026-03-01T23:30:00-08:00"
    assert found.memories[0].observed_at == at("2026-03-02T07:30")
    found = reader_clock.search("What was said of the ferry on 1 March 2026?", ANA, k=4, strategy="dated", explain=True)
    scores = {m.memory_id: m.time_score for m in found.memories}
    assert scores["late"] == 1.0 > scores["next"]
    found = reader_clock.search("the ferry yesterday", ANA, now="2026-03-02T20:00:00-08:00").times[ANA]
    assert found.first == dt.date(2026, 3, 1)


@pytest.mark.parametrize(
    ("options", "passing"),
    [
        ({"since": "2026-03-01", "until": "2026-03-01"}, "late"),
        ({"since": "2026-03-02"}, "next"),
        ({"until": dt.date(2026, 3, 1)}, "early late"),
        ({"since": "2026-03-02T07:30:00Z"}, "late next"),
        ({"until": "2026-03-01T23:29:59-08:00"}, "early"),
        ({"where": "observed_at = 2026-03-01"}, "late"),
        ({"where": "observed_at >= 2026-03-02"}, "next"),
        ({"where": 'observed_at >= "2026-03-02T07:30:00Z"'}, "late next"),
        ({"as_of": "2026-03-02T07:00:00Z"}, "early undated"),
    ],
)
def test_a_day_is_one_of_the_speakers_clock_and_a_time_is_an_instant(reader_clock, options, passing):
    assert ids_clock(reader_clock, **options) == passing


def test_an_index_of_an_earlier_version_is_read_as_if_all_clocks_were_utc(index, tmp_path):
    path = tmp_path / "i.duckdb"
    path.write_bytes(index.read_bytes())
    with duckdb.connect(str(path)) as db:
        for (name,) in db.execute("SELECT index_name FROM duckdb_indexes() WHERE table_name = 'memories'").fetchall():
            db.execute(f"DROP INDEX {name}")
        db.execute("ALTER TABLE memories DROP COLUMN utc_offset")
    with open_index(path) as reader_clock:
        found = reader_clock.search("When does the ferry leave?", ANA, k=1)
        assert found.to_json()["memories"][0]["observed_at"] == "2026-03-02T07:30:00+00:00"
        assert (
            ids_clock(reader_clock, since="2026-03-02")
            == ids_clock(reader_clock, where="observed_at >= 2026-03-02")
            == "late next"
        )
