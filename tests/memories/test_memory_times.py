"""When the home read a memory first, and when what it says of it changed."""

import datetime as dt

import polars as pl

from palimpsest.memories.memory_times import memory_times
from palimpsest.store.tables import conform


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, 5, n, tzinfo=dt.UTC)


def test_a_memory_is_created_when_its_document_is_first_read_and_updated_when_that_or_its_version_changes():
    at = {"collection": "notes", "user_id": "ana", "project_id": ""}
    read = [("plan-1", "plan.md", day(1)), ("plan-2", "plan.md", day(3)), ("news-1", "news.md", day(7))]
    documents = [{"document_id": d, "uri": uri, "ingested_at": when, **at} for d, uri, when in read]
    memories = [{"memory_id": m, "document_id": d, **at} for m, d in (("old", "plan-2"), ("new", "news-1"), ("x", "?"))]
    versions = [{"memory_id": "old", "superseded_by": "new", **at}, {"memory_id": "new", "superseded_by": None, **at}]
    tables = {"memories": memories, "documents": documents, "versions": versions}
    frames = (conform(name, pl.DataFrame(rows, infer_schema_length=None)) for name, rows in tables.items())
    assert memory_times(*frames).rows() == [
        ("new", day(7), day(7), day(7)),
        ("old", day(1), day(1), day(7)),
        ("x", None, None, None),
    ]
