"""The day of a memory is that of its speaker's own clock: what is shown, cited and filtered by."""

import datetime as dt

import duckdb
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.result import results_text
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
LATE = dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=-8)))
"""In UTC it is 2 March."""
MADE = [
    memory("late", "The ferry to the island leaves at nine.", observed_at=LATE, utc_offset=-480),
    memory("next", "The ferry to the island was full.", observed_at=at("2026-03-02T12:00")),
    memory("early", "The ferry to the island is blue.", observed_at=at("2026-02-27")),
    memory("undated", "The ferry to the island has a bar."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("clock") / "i.duckdb"
    write(tables(MADE), path)
    return path


@pytest.fixture(scope="module")
def reader(index):
    with open_index(index) as reader:
        yield reader


def ids(reader, **options):
    found = reader.search("the ferry to the island", ANA, k=10, hops=0, **options)
    return " ".join(sorted(m.memory_id for m in found.memories))


def test_contexts_results_and_messages_show_the_day_of_the_speaker_and_json_the_offset(reader):
    found = reader.search("When does the ferry leave?", ANA, k=1)
    assert "(2026-03-01)" in found.context and "2026-03-02" not in found.context
    assert "(2026-03-01)" in results_text(found) and "2026-03-01" in found.message()["content"]
    shown = found.to_json()["memories"][0]
    assert shown["observed_at"] == shown["valid_from"] == "2026-03-01T23:30:00-08:00"
    assert found.memories[0].observed_at == at("2026-03-02T07:30")


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
def test_a_day_is_one_of_the_speakers_clock_and_a_time_is_an_instant(reader, options, passing):
    assert ids(reader, **options) == passing


def test_a_day_in_a_question_is_one_of_the_speakers_clock(reader):
    found = reader.search("What was said of the ferry on 1 March 2026?", ANA, k=4, strategy="dated", explain=True)
    scores = {m.memory_id: m.time_score for m in found.memories}
    assert scores["late"] == 1.0 > scores["next"]
    asked = reader.search("the ferry yesterday", ANA, now="2026-03-02T20:00:00-08:00").times[ANA]
    assert asked.first == dt.date(2026, 3, 1)


def test_an_index_of_an_earlier_version_is_read_as_if_all_clocks_were_utc(index, tmp_path):
    path = tmp_path / "i.duckdb"
    path.write_bytes(index.read_bytes())
    with duckdb.connect(str(path)) as db:
        for (name,) in db.execute("SELECT index_name FROM duckdb_indexes() WHERE table_name = 'memories'").fetchall():
            db.execute(f"DROP INDEX {name}")
        db.execute("ALTER TABLE memories DROP COLUMN utc_offset")
    with open_index(path) as reader:
        found = reader.search("When does the ferry leave?", ANA, k=1)
        assert found.to_json()["memories"][0]["observed_at"] == "2026-03-02T07:30:00+00:00"
        assert ids(reader, since="2026-03-02") == ids(reader, where="observed_at >= 2026-03-02") == "late next"
