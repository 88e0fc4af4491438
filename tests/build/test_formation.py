"""Memories formed from conversations: their versions and relations, and that they go with their evidence."""

import json
from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.memories.formed import evidence_pairs, formed_memories
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.golden.questions import GoldenSet, Question, Quote
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import copy_built, write_chats

TURNS = [
    ("s1", "ann", "Ann", "I work at Basin as a tester. The rain was loud.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "I prefer tea over coffee.", "2026-02-01T09:01:00Z"),
    ("s1", "ann", "Assistant", "I prefer electricity.", "2026-02-01T09:02:00Z"),
    ("s2", "ann", "Ann", "Our deadline for Heron is 12 March.", "2026-02-02T09:00:00Z"),
    ("s2", "ann", "Ann", "Remember that the safe code changes on zqfriday.", "2026-02-02T09:01:00Z"),
    ("s3", "ann", "Ann", "Our deadline for Heron is now 20 April instead of 12 March.", "2026-03-01T09:00:00Z"),
    ("s4", "bob", "Bob", "My locker is on the second floor.", "2026-02-03T10:00:00Z"),
]


def write(corpus: Path, turns: list[tuple[str, str, str, str, str]] = TURNS, extra: str = "") -> Path:
    write_chats(corpus, turns)
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text().replace("unit: turn", "form: [turns, reflection]") + extra)
    return corpus


def build(home: Home, corpus: Path) -> None:
    run_without_dagster(home, make_plan(home, [corpus]))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("formed")
    build(Home(base / "home"), write(base / "corpus"))
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> tuple[Home, Path]:
    return copy_built(built, tmp_path)


def tables(home: Home) -> dict[str, pl.DataFrame]:
    return published(home).tables(["memories", "versions", "relations", "notes", "chunks"])


def formed_texts(home: Home) -> list[str]:
    return sorted(formed_memories(tables(home)["memories"])["text"])


def test_formed_memories_name_their_evidence_take_its_version_and_retire_nothing(built):
    t = tables(Home(built / "home"))
    formed = formed_memories(t["memories"])
    by_text = {r["text"]: r for r in formed.to_dicts()}
    tea = by_text["Ann prefers tea over coffee."]
    assert (tea["type"], tea["session_id"], tea["unit"]) == ("preference", "s1", "reflection")
    assert by_text["The safe code changes on zqfriday."]["importance"] == 0.9
    assert not any("electricity" in text or "rain" in text for text in by_text)
    versions = {r["memory_id"]: r for r in t["versions"].to_dicts()}
    for formed_id, evidence_id in evidence_pairs(t["memories"]).rows():
        own, evidence = versions[formed_id], versions[evidence_id]
        assert (own["is_latest"], own["superseded_by"]) == (evidence["is_latest"], evidence["superseded_by"])
    assert {by["is_latest"] for i, by in versions.items() if i in set(formed["memory_id"])} == {True, False}
    ends = pl.col("newer_id").is_in(formed["memory_id"].implode()) | pl.col("older_id").is_in(
        formed["memory_id"].implode()
    )
    own = t["relations"].filter(ends)
    assert set(own["label"]) == {"DERIVE"} and set(own["labeler"]) == {"formation"} and own.height == formed.height
    assert verify_home(Home(built / "home")).violations == ()


def test_evidence_and_what_is_formed_of_it_take_one_place(built):
    with open_home(built / "home") as reader:
        found = reader.search("What does Ann like to drink?", reader.resolve_scopes("chats", "ann"), k=5).memories
        assert found[0].text == "I prefer tea over coffee."
        assert not any(m.unit == "reflection" for m in found)
        scopes = reader.resolve_scopes("chats", "ann")
        only = reader.search("What does Ann like to drink?", scopes, k=5, types=["preference"]).memories
        assert [m.text for m in only] == ["Ann prefers tea over coffee."]


def test_what_rests_on_two_turns_is_a_result_itself_and_meets_the_needs_of_both(tmp_path, shared_vectors):
    said = ("The printer jams on every second sheet.", "Cleaning the grey rollers fixed it.", "I live in Ghent.")
    turns = [("s1", "ann", "Ann", text, f"2026-02-01T09:0{n}:00Z") for n, text in enumerate(said)]
    home = Home(tmp_path / "home", shared_vectors)
    build(home, write(tmp_path / "corpus", turns))
    judged_tables = published(home).tables(["documents", "document_texts", "memories", "versions"])
    (uri,) = judged_tables["documents"]["uri"]
    quotes = tuple(Quote(uri=uri, quote=text) for text in ("jams on every second sheet", "grey rollers"))
    question = Question(id="q", question="What helped the printer?", type="single", user="ann", evidence=quotes)
    (judged,) = resolve(GoldenSet("chats", (question,), "ann"), judged_tables)
    with open_home(home.path) as reader:
        found = reader.search(question.question, reader.resolve_scopes("chats", "ann"), k=3, all_results=True).memories
    (formed,) = (m for m in found if m.unit == "reflection")
    assert formed.text == f"Ann says: {said[0]} {said[1]}"
    assert judged.formed == {formed.memory_id} and all(len(need) == 2 for need in judged.needs)
    assert set(judged.rank_needs([formed.memory_id])) == {"need:0", "need:1"}
    assert judged.rank_needs([m.memory_id for m in found if m.unit != "reflection"]).count("need:0") == 1


def test_a_note_lists_what_a_session_says_and_only_what_its_evidence_may_show(built):
    with open_home(built / "home") as reader:
        scopes = reader.resolve_scopes("chats", "ann")
        notes = {note.session_id: note for note in reader.notes(scopes)}
        turns = reader.search("tea coffee", scopes, k=1).memories
        assert reader.notes(scopes, "s1") == [notes["s1"]] and not reader.notes(scopes, "s4")
        with pytest.raises(ArgumentError, match="limit"):
            reader.notes(scopes, limit=0)
    shown = notes["s1"].to_json()
    assert [i["statement"] for i in shown["preferences"]] == ["Ann prefers tea over coffee."]
    assert shown["preferences"][0]["evidence"] == [turns[0].memory_id] and shown["inferences"] == []
    assert shown["confidence_avg"] == pytest.approx(notes["s1"].confidence_avg) and 0 < shown["confidence_avg"] <= 1
    assert "12 March" not in str([n.to_json() for n in notes.values() if n.session_id == "s2"])  # superseded
    assert list(notes) == ["s3", "s2", "s1"]


def test_summaries_and_working_sets_have_what_was_said_and_not_what_was_formed_of_it(built):
    with open_home(built / "home") as reader:
        scopes = reader.resolve_scopes("chats", "ann")
        summed = [s.text for s in reader.summarize_session(scopes, "s1", 50).sentences]
        turns = [t.text for t in reader.working_set(scopes, "s1").turns]
        files = [f.text for f in reader.working_set(scopes, "s9", paths=["turns.jsonl"], budget_tokens=2000).files]
    said = [text for session, user, _, text, _ in TURNS if session == "s1" and user == "ann"]
    assert turns == said and summed and all(any(s in text for text in said) for s in summed)
    assert not any(t.startswith("Ann ") for t in (*summed, *files))


def test_a_turn_that_is_deleted_takes_what_was_formed_of_it(made):
    home, corpus = made
    memories = tables(home)["memories"]
    turn = memories.filter(pl.col("text").str.contains("zqfriday") & (pl.col("unit") == "turn"))["memory_id"][0]
    before = formed_texts(home)
    assert delete(home, memories=frozenset({turn})).memories == 2  # it proves that neither is left
    assert formed_texts(home) == [t for t in before if "zqfriday" not in t]
    assert not any(b"zqfriday" in p.read_bytes() for p in home.path.rglob("*") if p.is_file())
    assert verify_home(home).violations == ()
    build(home, corpus)
    assert not any("zqfriday" in t for t in formed_texts(home))


def test_a_formed_memory_that_is_deleted_takes_its_evidence(made):
    home, corpus = made
    formed = formed_memories(tables(home)["memories"]).filter(pl.col("text").str.contains("zqfriday"))
    assert delete(home, memories=frozenset(formed["memory_id"])).memories == 2
    build(home, corpus)
    assert not tables(home)["memories"]["text"].str.contains("zqfriday").any()


def test_only_a_changed_session_is_read_again_and_the_result_is_that_of_scratch(made, tmp_path):
    home, corpus = made
    path = corpus / "chats/turns.jsonl"
    added = {"session_id": "s1", "user_id": "ann", "speaker": "Ann", "text": "I love cold rooms."}
    path.write_text(path.read_text() + json.dumps({**added, "timestamp": "2026-02-01T10:00:00Z"}) + "\n")
    build(home, corpus)
    record = published(home).manifest.stages["chats"]["notes"]
    assert record.numbers["sessions_read"] == 2  # the new version, and the one that it replaces
    assert "Ann loves cold rooms." in formed_texts(home)
    scratch = Home(tmp_path / "scratch")
    build(scratch, corpus)
    fresh, now = formed_memories(tables(scratch)["memories"]), formed_memories(tables(home)["memories"])
    assert sorted(fresh["memory_id"]) == sorted(now["memory_id"])
    assert make_plan(home, [corpus]).nothing_to_do


def test_notes_are_empty_and_nothing_is_formed_without_reflection(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    build(home, write_chats(tmp_path / "corpus", TURNS))
    assert tables(home)["notes"].is_empty() and formed_texts(home) == []


def test_a_turn_marked_save_is_formed_and_one_marked_off_never_is(tmp_path, shared_vectors):
    corpus = write(tmp_path / "corpus", extra="promote: [fact]\n")
    lines = [
        {"text": "Blue bins go out on Tuesdays.", "memory": "save"},
        {"text": "I live in a secret place.", "memory": "off"},
        {"text": "I prefer tea."},
    ]
    about = {"session_id": "s1", "user_id": "ann", "speaker": "Ann", "timestamp": "2026-02-01T10:00:00Z"}
    (corpus / "chats/turns.jsonl").write_text("".join(json.dumps(about | line) + "\n" for line in lines))
    home = Home(tmp_path / "home", shared_vectors)
    build(home, corpus)
    assert formed_texts(home) == ["Blue bins go out on Tuesdays."]
