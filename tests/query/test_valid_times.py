"""When memories hold, as they state it: with as_of and now, at the edges, and in any zone."""

import datetime as dt

import polars as pl
import pytest

from palimpsest.query import Scope, open_index
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
MADE = [
    memory("m1", "The gate is open.", valid_from=at("2024-02-01"), valid_until=at("2024-03-01")),
    memory("m2", "The gate is open to staff.", valid_from=at("2024-03-01")),
    memory("m3", "The gate has a lock.", valid_until=at("2024-02-15")),
    memory("m4", "The gate is green."),
    memory("m5", "The gate was moved.", observed_at=at("2024-01-01"), valid_from=at("2024-06-01")),
]
MICROSECOND = dt.timedelta(microseconds=1)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("valid") / "i.duckdb"
    write(tables(MADE), path)
    with open_index(path) as reader:
        yield reader


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
    # What states an end and no beginning held always, but its end is known: as_of and now agree on all of these.
    assert {m.memory_id for m in reader.search("gate", ANA, k=10, **{option: time}).memories} == valid


def test_without_a_time_stated_validity_excludes_nothing(reader):
    assert len(reader.search("gate", ANA, k=10).memories) == 5


def test_now_excludes_nothing_that_was_valid_at_as_of(reader):
    found = reader.search("gate", ANA, k=10, as_of="2024-02-10", now="2024-07-01")
    assert {m.memory_id for m in found.memories} == {"m1", "m3", "m4"}


def test_what_has_no_date_is_known_since_it_was_first_read_and_not_before(tmp_path):
    made = tables(MADE)
    read_at = pl.lit(at("2026-05-01")).cast(pl.Datetime("us", "UTC"))
    made["memories"] = made["memories"].with_columns(created_at=read_at)
    write(made, tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as known:

        def known_at(time):
            return {m.memory_id for m in known.search("gate", ANA, k=10, as_of=time).memories}

        assert known_at("1900-01-01") == set()
        assert known_at("2024-02-10") == {"m1"}
        assert known_at("2026-04-30") == {"m2", "m5"} and known_at("2026-05-01") == {"m2", "m4", "m5"}
        assert len(known.search("gate", ANA, k=10).memories) == 5
