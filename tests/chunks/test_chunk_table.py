"""Chunks over the versions of documents: whose they are, their times, and updates from an earlier build."""

import datetime as dt
import json
import random

import polars as pl
import pytest

from palimpsest.memories.chunks import chunk_table
from palimpsest.sources.extracted import Segment
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform

CONFIG = CollectionConfig(name="c", description="d", unit="statement")
AT = {"collection": "c", "user_id": "u", "project_id": ""}


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, 5, 1, tzinfo=dt.UTC) + dt.timedelta(days=n)


def segments(text: str) -> str:
    """Returns a segment for each line, a line with # being the heading of those below."""
    heading, at, out = "", 0, []
    for line in text.splitlines():
        if is_heading := line.startswith("#"):
            heading = line
        out.append(Segment(at, at + len(line), "heading" if is_heading else "prose", heading).to_row())
        at += len(line) + 1
    return json.dumps(out)


def source(versions: list[tuple[int, str]], uri: str = "a.md") -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns documents and document_texts of (seq, text) of each version; it was read on the day of its number."""
    last = max(seq for seq, _ in versions)
    rows = [
        {
            "document_id": f"{uri}-{seq}",
            "uri": uri,
            "seq": seq,
            "is_current": seq == last,
            "ingested_at": day(seq),
            **AT,
        }
        for seq, _ in versions
    ]
    texts = [{"document_id": f"{uri}-{seq}", "text": text, "segments": segments(text)} for seq, text in versions]
    return conform("documents", pl.DataFrame(rows)), conform("document_texts", pl.DataFrame(texts))


def times(chunks: pl.DataFrame) -> dict[str, tuple[dt.datetime, dt.datetime]]:
    return {text: (made, changed) for text, made, changed in chunks["text", "created_at", "updated_at"].iter_rows()}


def test_a_text_is_updated_by_another_heading_and_not_by_a_version_that_leaves_it_alone():
    chunks = chunk_table(*source([(1, "Tea is hot.\nCake is cold."), (2, "Tea is hot.\nCake is gone.")]), CONFIG)
    assert times(chunks) == {
        "Tea is hot.": (day(1), day(1)),
        "Cake is cold.": (day(1), day(1)),
        "Cake is gone.": (day(2), day(2)),
    }
    assert dict(chunks["text", "document_id"].iter_rows())["Tea is hot."] == "a.md-2"
    versions = [(1, "# Old\nTea is hot."), (2, "# New\nTea is hot."), (3, "# New\nTea is hot.\nCake.")]
    assert times(chunk_table(*source(versions), CONFIG))["Tea is hot."] == (day(1), day(2))


@pytest.mark.parametrize("seed", range(12))
def test_chunks_updated_from_an_earlier_build_are_those_of_one_build(seed):
    rng = random.Random(seed)
    versions: list[tuple[int, str]] = []
    previous = None
    for seq in range(1, 9):
        parts = [f"# {rng.choice('AB')}"] + [rng.choice(("Tea is hot.", "It is cold.", "Cake.")) for _ in range(3)]
        versions.append((seq, "\n".join(parts)))
        if rng.random() < 0.3 and len(versions) > 1:
            versions.pop(rng.randrange(len(versions)))  # deleted from the log
        documents, texts = source(versions)
        chunks = chunk_table(documents, texts, CONFIG, previous)
        assert chunks.equals(chunk_table(documents, texts, CONFIG))
        previous = documents, texts, chunks
