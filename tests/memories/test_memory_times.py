"""When the home read a memory first, and when what it says of it changed."""

import datetime as dt

import polars as pl

from palimpsest.index.memory_table import memory_rows
from palimpsest.memories.recency import memory_times, stated_since
from palimpsest.neo4j_graph import node_rows
from palimpsest.store.tables import conform


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, 5, n, tzinfo=dt.UTC)


AT = {"collection": "notes", "user_id": "ana", "project_id": ""}


def frame(table: str, *rows: dict) -> pl.DataFrame:
    return conform(table, pl.DataFrame([row | AT for row in rows], infer_schema_length=None))


def test_a_superseded_memory_is_updated_when_the_newer_one_was_read_as_readers_see():
    memories = [
        {"memory_id": "new", "created_at": day(7), "updated_at": day(7)},
        {"memory_id": "old", "created_at": day(1), "updated_at": day(3), "observed_at": day(1)},
        {"memory_id": "x", "created_at": None, "updated_at": None},
    ]
    memories.append({"memory_id": "gone", "created_at": day(1), "updated_at": day(1)})
    by = {"old": "new", "new": None, "gone": "v2"}
    versions = [{"memory_id": i, "superseded_by": newer} for i, newer in by.items()]
    documents = [{"document_id": "v2", "ingested_at": day(9)}]
    assert memory_times(
        frame("memories", *memories), frame("documents", *documents), frame("versions", *versions)
    ).rows() == [
        ("gone", day(1), day(1), day(9)),
        ("new", day(7), day(7), day(7)),
        ("old", None, day(1), day(7)),
        ("x", None, None, None),
    ]
    old = {"memory_id": "old", "document_id": "d", "text": "x", "created_at": day(1), "updated_at": day(1)}
    memories = frame("memories", old, old | {"memory_id": "new", "created_at": day(7), "updated_at": day(7)})
    versions = frame("versions", {"memory_id": "old", "superseded_by": "new"}, {"memory_id": "new"})
    inputs = pl.DataFrame([{"memory_id": i, "kind": "memory", "ordinal": 0, "text_hash": i} for i in ("old", "new")])
    documents = frame("documents", {"document_id": "d", "uri": "a.md", "ingested_at": day(1)})
    tables = {"memories": memories, "versions": versions, "documents": documents}
    tables["embed_inputs"] = conform("embed_inputs", inputs)
    for rows in (memory_rows(tables), node_rows.memory_rows(tables)):
        assert dict(rows.select("memory_id", "updated_at").iter_rows()) == {"old": day(7), "new": day(7)}


def test_what_a_document_states_is_dated_by_the_version_since_which_it_is_equal():
    versions = [("v1", "Plan", "{}"), ("v2", "Plan 2", "{}"), ("v3", "Plan 2", "{}"), ("v4", "Plan 2", '{"a": 1}')]
    rows = [
        {"document_id": d, "uri": "plan.md", "title": title, "metadata": metadata, "seq": n, "ingested_at": day(n)}
        for n, (d, title, metadata) in enumerate(versions, 1)
    ]
    other = {"document_id": "o", "uri": "o.md", "title": "Plan 2", "metadata": "{}", "seq": 1, "ingested_at": day(9)}
    found = stated_since(frame("documents", *(row | {"is_current": row["seq"] == 4} for row in rows), other))
    assert dict(found.iter_rows()) == {"v1": day(1), "v2": day(2), "v3": day(2), "v4": day(4), "o": day(9)}
