"""What turns and front matter state reaches their memories, from the file to the memories table."""

import json
from datetime import UTC, datetime

import pytest

from palimpsest.memories.chunks import chunk_table
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


def trust_of(rows):
    return dict(rows.select("text", "trust").iter_rows())


def test_trust_is_the_speakers_else_the_kinds_else_the_collections(memories):
    turns = turn("My desk is in room 4.", speaker="Ana") + turn("It is in room 9.", speaker="Bot")
    turns += turn("Room 9 is free.", speaker="Ben", kind="import")
    trust = {"default": 0.6, "kinds": {"import": 0.3}, "speakers": {"ANA": 0.9, "bot": 0.1}}
    assert trust_of(memories({"a.jsonl": turns}, trust=trust)) == {
        "My desk is in room 4.": 0.9,
        "It is in room 9.": 0.1,
        "Room 9 is free.": 0.3,
    }


def test_without_the_setting_all_are_trusted_alike(memories):
    rows = memories({"a.jsonl": turn("Hello there."), "b.md": "A note."})
    assert set(rows["trust"]) == {0.5}


def test_what_a_source_states_can_only_lower_its_trust(memories):
    files = {
        "vouches.md": "---\ntrust: 1\n---\nI am right.",
        "modest.md": "---\ntrust: 0.2\n---\nI may be wrong.",
        "foundation.md": "---\ntrust: Falcon Trust\n---\nA foundation.",
        "scan.md": "A scan.",
        "scan.md.meta.yaml": "trust: 0.1",
        "a.jsonl": turn("Sure.", trust=0.9) + turn("Perhaps.", trust=0.25) + turn("Who knows.", trust="low"),
    }
    assert trust_of(memories(files)) == {
        "I am right.": 0.5,
        "I may be wrong.": 0.2,
        "A foundation.": 0.5,
        "A scan.": 0.1,
        "Sure.": 0.5,
        "Perhaps.": 0.25,
        "Who knows.": 0.5,
    }


def test_a_chunk_of_several_speakers_is_trusted_as_the_least_of_them(memories):
    turns = turn("The gate opens at eight.", speaker="Ana") + turn("It opens at nine.", speaker="Bot")
    rows = memories({"a.jsonl": turns}, unit="chunk", trust={"speakers": {"Ana": 0.9, "Bot": 0.1}})
    assert rows["speaker"].to_list() == [None] and rows["trust"].to_list() == [0.1]


def test_a_validity_that_ends_before_it_starts_is_not_used(memories):
    rows = memories({"a.md": "---\nvalid_from: 2027-01-01\nvalid_until: 2026-01-01\n---\nThe gate opens at nine.\n"})
    assert rows.select("valid_from", "valid_until").rows() == [(None, None)]
