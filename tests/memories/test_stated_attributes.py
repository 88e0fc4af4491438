"""What turns and front matter state reaches their memories, from the file to the memories table."""

import json
from datetime import UTC, datetime

import pytest

from palimpsest.chunks.chunk_table import chunk_table
from palimpsest.memories.documents import document_tables
from palimpsest.memories.form import form_memories
from palimpsest.sources.discovery import scan_sources
from palimpsest.sources.ingest import IngestRules, ingest
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.ingest_log import IngestLog

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SHOWN = ("text", "type", "tags", "importance", "importance_source", "kind", "pii", "user_visible")


@pytest.fixture
def memories(tmp_path):
    """Builds the memories of some files, in the order of their texts."""

    def made(files, **settings):
        config = CollectionConfig(name="c", description="d", **{"unit": "turn"} | settings)
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        for name, text in files.items():
            (source / name).write_text(text, encoding="utf-8")
        log = IngestLog(tmp_path / "log")
        ingest(log, scan_sources(source, config, Decisions()), IngestRules(config, Decisions(), NOW))
        tables, _ = document_tables(log, config, source)
        chunks = chunk_table(tables["documents"], tables["document_texts"], config)
        return form_memories(tables["documents"], chunks, config)[0].sort("text")

    return made


def turn(text, **fields):
    return json.dumps({"session_id": "s", "speaker": "ana", "text": text, **fields}) + "\n"


def test_each_turn_has_its_own_fields(memories):
    private = {"pii": True, "retention_days": 10}
    rows = turn("A one.", importance=0.9, tags=["x"], privacy=private, timestamp="2026-04-28") + turn("B two.")
    found = memories({"chat.jsonl": rows})
    assert found.select(SHOWN).rows() == [
        ("A one.", "episodic", ["x"], 0.9, "turn", "message", True, True),
        ("B two.", "episodic", [], 0.5, "default", "message", False, True),
    ]
    assert found["retention_until"].to_list() == [datetime(2026, 5, 8, tzinfo=UTC), None]


def test_front_matter_describes_every_memory_of_its_document(memories):
    front = "---\ntype: preference\nprivacy: {user_visible: false, retention_days: 5}\n---\nTea, not coffee.\n"
    found = memories({"a.md": front}, retention_days=30)
    assert found.select(SHOWN).rows() == [
        ("Tea, not coffee.", "preference", [], 0.7, "type", "file", False, False),
    ]
    assert found["retention_until"].to_list() == [datetime(2026, 5, 6, tzinfo=UTC)]  # undated: since it was read


def test_a_change_of_privacy_alone_is_a_new_version_of_the_document(memories):
    first = memories({"chat.jsonl": turn("A one.")})
    second = memories({"chat.jsonl": turn("A one.", privacy={"pii": True})})
    assert first["pii"].to_list() == [False] and second["pii"].to_list() == [True]
    assert first["memory_id"].to_list() == second["memory_id"].to_list()
