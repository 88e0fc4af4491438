"""Rows and turns that say when they hold are memories that hold then."""

import datetime as dt
import io
from pathlib import Path

import openpyxl
import polars as pl
import pytest

from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.readers.text_builder import parse_validity
from palimpsest.store.collection_config import CollectionConfig
from tests.chunks.one_document import chunk_document
from tests.small_corpus import write_notes
from tests.sources.test_ingest import documents_stage

CSV = """item,price,valid_from,Valid to
otter,20,2026-03-02,
heron,30,2026-03-02,
otter,25,2026-05-01,31.12.2026
pike,9,,
"""


def xlsx() -> bytes:
    book = openpyxl.Workbook()
    for row in CSV.splitlines():
        book.active.append([dt.date.fromisoformat(c) if c.startswith("2026-") else c or None for c in row.split(",")])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.parametrize(("name", "data"), [("prices.csv", CSV.encode()), ("prices.xlsx", xlsx())])
def test_rows_that_hold_at_other_times_are_chunks_of_their_own_under_their_header(tmp_path, name, data) -> None:
    (tmp_path / name).write_bytes(data)
    (document,) = read_source(tmp_path / name, name).documents
    periods = [(s.stated.valid_from, s.stated.valid_until) if s.stated else None for s in document.segments]
    dates = [("2026-03-02T00:00:00+00:00", None), ("2026-05-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"), None]
    assert [t for t, s in zip(periods, document.segments, strict=True) if s.kind == "table"] == dates
    chunks = [c.text.split("\n") for c in chunk_document(document, "chunk")]
    assert [[line.split(" | ")[0] for line in lines if line.startswith("|")] for lines in chunks] == [
        ["| item", "| otter", "| heron"],
        ["| item", "| otter"],
        ["| item", "| pike"],
    ]


def test_a_cell_with_an_invalid_date_is_reported(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("item,valid_from\notter,soon\nheron,03/04/2026\n")
    problems = read_source(tmp_path / "a.csv", "a.csv").problems
    assert problems[0] == "row 2: valid_from 'soon' is not a date" and "dates: day_first" in problems[1]
    assert parse_validity("03/04/2026", None, "day_first")[0].valid_from == "2026-04-03T00:00:00+00:00"


def test_memories_of_rows_and_turns_hold_from_the_day_that_they_state(tmp_path: Path) -> None:
    from palimpsest.memories.chunks import chunk_table
    from palimpsest.memories.form import form_memories
    from palimpsest.store.home import Home

    turn = '{"session_id": "s", "speaker": "Ann", "text": "The pike costs 9.", "valid_from": "2026-04-01"}\n'
    corpus = write_notes(tmp_path / "corpus", {"prices.csv": CSV, "s.jsonl": turn})
    tables = documents_stage(Home(tmp_path / "home"), corpus)
    config = CollectionConfig(name="notes", description="notes")
    chunks = chunk_table(tables["documents"], tables["document_texts"], config)
    memories, _ = form_memories(tables["documents"], chunks, config)
    periods = memories.sort("provenance", "ordinal").select(pl.col("valid_from", "valid_until").dt.date()).rows()
    assert periods == [
        (dt.date(2026, 3, 2), None),
        (dt.date(2026, 5, 1), dt.date(2027, 1, 1)),
        (None, None),
        (dt.date(2026, 4, 1), None),
    ]
