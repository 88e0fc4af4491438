"""Formed memories, their notes and profiles are exported with their evidence, and an import forms the same."""

import json

import pytest

from palimpsest.export.export_user import export_user
from palimpsest.export.import_export import import_export
from palimpsest.query.reader import open_home
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.export.made import build, read_rows
from tests.small_corpus import write_chats

TURNS = [
    ("s1", "ann", "Ann", "I work at Basin as a tester.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "I prefer tea over coffee.", "2026-02-01T09:01:00Z"),
    ("s2", "ann", "Ann", "Remember that the safe code changes on zqfriday.", "2026-02-02T09:01:00Z"),
    ("s3", "bob", "Bob", "I prefer opera over jazz.", "2026-02-03T10:00:00Z"),
    ("s3", "bob", "Bob", "I work at Corvid as a driver.", "2026-02-03T10:01:00Z"),
]
PAGE = "markdown/chats/turns.jsonl/s1.md"
QUESTIONS = """
- {id: drink, question: "What do I prefer to drink?"}
- {id: bobs, question: "Which music?", user: bob}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors):
    """A home of ann and bob with formed memories, an export of ann, and the home of its import, built."""
    base = tmp_path_factory.mktemp("formed")
    corpus = write_chats(base / "corpus", TURNS)
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text().replace("unit: turn", "form: [turns, reflection]"))
    (corpus / "chats/questions.yaml").write_text(QUESTIONS)
    home = Home(base / "home", shared_vectors)
    build(home, [corpus])
    other = Home(base / "other", shared_vectors)
    import_export(other, export_user(home, "ann", base / "out").out)
    build(other)
    return base


def test_formed_memories_are_exported_with_evidence_beside_their_turns_and_nothing_of_others(made):
    out = made / "out"
    memories = read_rows(out, "collections/chats/tables/memories.json")
    formed = {m["text"]: m for m in memories if m["unit"] == "reflection"}
    tea = formed["Ann prefers tea over coffee."]
    assert (tea["kind"], tea["type"]) == ("preference", "preference")
    turns = {m["chunk_ids"][0]: m["text"] for m in memories if m["unit"] == "turn"}
    assert [turns[c] for c in tea["chunk_ids"]] == ["I prefer tea over coffee."]
    notes = read_rows(out, "collections/chats/tables/notes.json")
    assert {n["kind"] for n in notes} >= {"preference", "fact"} and {n["user_id"] for n in notes} == {"ann"}
    page = (out / "markdown/chats/formed.md").read_text()
    (turn_id,) = (m["memory_id"] for m in memories if m["text"] == "I prefer tea over coffee.")
    assert f"(preference, 2026-02-01) [memory:{tea['memory_id']}] from [memory:{turn_id}]" in page
    memories = read_rows(made / "out", "collections/chats/tables/memories.json")
    turns = {m["memory_id"] for m in memories if m["unit"] == "turn" and m["session_id"] == "s1"}
    headings = [line for line in (made / "out" / PAGE).read_text().splitlines() if line.startswith("### ")]
    assert {line.rpartition(" ")[2] for line in headings} == turns and all("episodic" in line for line in headings)
    assert "memories: 2" in (made / "out" / PAGE).read_text()
    out = made / "out"
    with open_home(made / "home") as reader:
        lines = reader.profile(reader.resolve_scopes("chats", "ann")).lines
    assert read_rows(out, "profile.json") == [json.loads(json.dumps(line.to_json())) for line in lines]
    assert all(line.cited in (out / "markdown/profile.md").read_text() for line in lines) and len(lines) >= 3
    assert any("Basin" in json.dumps(n) for n in read_rows(out, "collections/chats/tables/nodes.json"))
    assert read_rows(out, "collections/chats/tables/facts.json")
    (answer,) = read_rows(out, "standing.json")
    assert answer["question_id"] == "drink" and answer["memory_ids"]
    text = "".join(p.read_text() for p in (made / "out").rglob("*") if p.is_file())
    assert not [w for w in ("opera", "jazz", "Corvid", "Bob", "bob", "Which music") if w in text]
    assert "zqfriday" in text


def test_an_import_forms_the_same_memories_notes_and_profile(made):
    homes = (Home(made / "home"), Home(made / "other"))
    for table, columns in (("memories", ["memory_id", "text", "kind"]), ("notes", ["item_id", "quote"])):
        rows = [published(h).table("chats", table) for h in homes]
        first, second = (sorted(r.filter(user_id="ann").select(columns).rows(), key=str) for r in rows)
        assert first == second, table
    profiles = []
    for home in homes:
        with open_home(home.path) as reader:
            profiles.append(reader.profile(reader.resolve_scopes("chats", "ann")).to_json())
    assert profiles[0] == profiles[1]


def test_a_formed_memory_is_retired_when_the_turn_that_it_rests_on_is_edited(made):
    home, out = Home(made / "other"), made / "out"
    page = out / PAGE
    page.write_text(page.read_text().replace("tea over coffee", "water over coffee"))
    import_export(home, out)
    build(home)
    versions = published(home).table("chats", "versions").filter("is_latest")
    latest = set(published(home).table("chats", "memories").join(versions, on="memory_id", how="semi")["text"])
    assert "Ann prefers water over coffee." in latest and "Ann prefers tea over coffee." not in latest
