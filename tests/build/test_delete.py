"""Deletes by every selector: what goes, what stays, and what the next build makes of it."""

import datetime as dt
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.deletion.proof import Probes, find_probe, split_probes
from palimpsest.pipeline.deletion.target import delete_due
from palimpsest.pipeline.finish import digest
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query import open_home
from palimpsest.sources.deletions import ErasedTexts, place_key, utterance_of
from palimpsest.store.builds import kept_builds, published
from palimpsest.store.decisions import ErasedText
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import TURNS, build_home, built_notes, copy_built, write_chats, write_notes

LOCKER = "My locker code is quixotic-77."
NOTES = {"gate.md": "The gate is green zqgate. The roof is red zqroof.\n"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home and its corpus. It is copied: a delete drops the vectors that its own home does not need."""
    base = tmp_path_factory.mktemp("built")
    write_chats(base / "corpus")
    built_notes(base, None, NOTES, unit="statement")
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> tuple[Home, Path]:
    return copy_built(built, tmp_path)


def texts(home: Home) -> set[str]:
    return set(published(home).tables(["memories"])["memories"]["text"])


def holding(home: Home, needle: str) -> list[str]:
    """Files of a home that hold a string, in bytes or in a Parquet table."""
    found = [p for p in home.path.rglob("*") if p.is_file() and needle.encode() in p.read_bytes()]
    for path in home.path.rglob("*.parquet"):
        strings = pl.read_parquet(path).select(pl.col(pl.String))
        if any(strings[c].str.contains(needle, literal=True).any() for c in strings.columns):
            found.append(path)
    return [p.name for p in found]


def test_one_memory_goes_from_log_and_builds_and_the_rest_of_its_document_keeps_its_spans(made):
    home, corpus = made
    memories = published(home).tables(["memories"])["memories"]
    (gate,) = memories.filter(pl.col("text").str.contains("zqgate"))["memory_id"]
    done = delete(home, memories=[gate])
    assert (done.memories, done.to_json()["residue"]) == (1, []) and holding(home, "zqgate") == []
    build_home(home, corpus)
    assert holding(home, "zqgate") == [] and "The roof is red zqroof." in texts(home)
    tables = published(home).tables(["memories", "document_texts"])
    rows = tables["memories"].join(tables["document_texts"], on="document_id", suffix="_document")
    for row in rows.to_dicts():
        assert row["text_document"][row["char_start"] : row["char_end"]] == row["text"]


def test_a_version_that_is_deleted_whole_leaves_no_gap_between_those_around_it(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    for text in ("The gate is green.\n", "The roof is zqroof.\n", "The door is blue.\n"):
        build_home(home, write_notes(tmp_path / "corpus", {"a.md": text}))
    memories = published(home).tables(["memories"])["memories"]
    ids = dict(memories.select("text", "memory_id").iter_rows())
    assert delete(home, memories=[ids["The roof is zqroof."]]).to_json()["residue"] == []
    tables = published(home).tables(["documents", "memories"])
    document_of = dict(tables["memories"].select("text", "document_id").iter_rows())
    later = dict(tables["documents"].select("document_id", "superseded_by").iter_rows())
    assert later == {document_of["The gate is green."]: (now := document_of["The door is blue."]), now: None}


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("我住在北京。我喜欢喝茶。", "我喜欢喝茶。", "我住在北京。"),
        ("أنا هنا؟ أحب الشاي.", "أحب الشاي.", "أنا هنا؟ "),
        ("• Buy milk\n☐ Feed cat\n", "Feed cat", "• Buy milk\n☐ \n"),
        ("She moved, Rome.", "Rome.", "She moved, Rome."),
    ],
)
def test_a_short_text_is_removed_only_at_the_start_of_a_sentence_in_any_script(text, gone, left):
    place = place_key("c", "ann", "a.txt", None)
    erased = ErasedTexts(frozenset({ErasedText.of(place, utterance_of(None, None), gone)}))
    row = {"user_id": "ann", "uri": "a.txt", "session_id": None, "text": text, "segments": "[]"}
    assert erased.remove_from("c", row).text == left


@pytest.mark.parametrize(
    ("by_memory", "killed", "on_removed"),
    [
        (False, True, "retire"),
        (True, False, "delete"),
        pytest.param(True, True, "retire", marks=pytest.mark.slow),
        pytest.param(False, False, "delete", marks=pytest.mark.slow),
    ],
)
def test_a_renamed_document_is_deleted_under_its_former_names_too(
    tmp_path, shared_vectors, monkeypatch, by_memory, killed, on_removed
):
    monkeypatch.setattr("palimpsest.sources.ingest.check_removals", lambda *_: None)
    home, corpus = Home(tmp_path / "home", shared_vectors), tmp_path / "corpus"
    text = "# Boats\n\nThe boathouse Zqrenamed is red.\n\nThe pier is long and has a light.\n"
    other, settings = "# Mills\n\nThe mill is old.\n", {"on_removed": on_removed, "unit": "statement"}
    for name in ("first.md", "second.md", "third.md") if killed else ("first.md", "third.md"):
        shutil.rmtree(corpus, ignore_errors=True)
        write_notes(corpus, {name: text, "mill.md": other}, **settings)
        build_home(home, corpus)
    memories = published(home).tables(["memories"])["memories"].filter(pl.col("text").str.contains("Zqrenamed"))
    documents = published(home).table("notes", "documents")
    newest = memories.join(documents.filter(uri="third.md"), on="document_id", how="semi")["memory_id"][0]
    selectors = {"memories": [newest]} if by_memory else {"document": "third.md", "collection": "notes"}
    if killed:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("palimpsest.pipeline.deletion.erase_home.rewrite_build", Mock(side_effect=KeyboardInterrupt))
            delete(home, **selectors)
    delete(home, **selectors)
    write_notes(corpus, {"first.md": "# Barns\n\nThe barn is green.\n"}, **settings)
    build_home(home, corpus)
    tables = [t for b in kept_builds(home) for t in b.tables(["memories", "document_texts"]).values()]
    found = [text for table in tables for text in table["text"]]
    assert any("The mill is old." in t for t in found), "the rest stays"
    assert any("The pier is long" in t for t in found) == by_memory
    assert not any("Zqrenamed" in t for t in found)
    assert any("The barn is green." in t for t in found), "another document may have a former name"


def test_a_deleted_turn_whose_time_is_corrected_stays_deleted_and_what_others_said_stays():
    text, (noon, one, two) = "We sold the boathouse.", (f"2026-03-01T1{h}:00:00+00:00" for h in (2, 3, 4))
    erased = ErasedTexts(frozenset({ErasedText.of(place_key("c", "ann", "s", "1"), utterance_of("Ann", noon), text)}))

    def left(*turns: tuple[str, str]) -> str:
        rows = [
            [i * 23, i * 23 + 22, None, None, None, speaker, at, *([None] * 12)]
            for i, (speaker, at) in enumerate(turns)
        ]
        row = {"user_id": "ann", "uri": "s", "session_id": "1", "text": "\n".join([text] * len(turns))}
        removal = erased.remove_from("c", row | {"segments": json.dumps(rows)})
        return "" if removal is None else removal.text.strip()

    assert left(("Ann", noon)) == left(("Ann", one)) == "", "the time was corrected"
    assert left(("Ann", noon), ("Ann", two)) == left(("Bob", two), ("Ann", one)) == text


@pytest.mark.slow
def test_neighbors_of_a_deleted_memory_are_chunked_again_by_the_next_build(tmp_path, shared_vectors):
    sentences = [f"Sentence {i} says that object {i * 7} stands near wall {i + 3}." for i in range(120)]
    long = "\n\n".join(" ".join(sentences[i : i + 10]) for i in range(0, 120, 10))
    home, corpus = built_notes(tmp_path, shared_vectors, {"long.md": long + "\n"}, unit="chunk")
    second = published(home).tables(["memories"])["memories"].sort("char_start")["memory_id"][1]
    delete(home, memories=[second])
    build_home(home, corpus)
    (text,) = published(home).tables(["document_texts"])["document_texts"]["text"]
    left = [s for s in sentences if s in text]
    assert 0 < len(left) < len(sentences) and all(any(s in t for t in texts(home)) for s in left)


@pytest.mark.slow
def test_the_referent_of_a_pronoun_is_deleted_with_its_memory(tmp_path, shared_vectors):
    notes = {"gate.md": "The boathouse Zqboat is red. It was sold last week.\n"}
    home, corpus = built_notes(tmp_path, shared_vectors, notes, unit="statement")
    memories = published(home).tables(["memories"])["memories"]
    assert memories["refers_to"].drop_nulls().to_list() == ["The boathouse Zqboat"]
    (boat,) = memories.filter(pl.col("text").str.contains("Zqboat"))["memory_id"]
    delete(home, memories=[boat])
    assert holding(home, "Zqboat") == []
    build_home(home, corpus)
    assert holding(home, "Zqboat") == [] and "It was sold last week." in texts(home)


def test_what_is_left_after_a_delete_equals_a_build_that_never_had_it(made, tmp_path):
    """The delete is stopped first by what is left outside; a run history whose writer was killed goes with it."""
    home, corpus = made
    (folder := home.dagster / "history").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE events (run_id TEXT, event TEXT)")
        db.execute("INSERT INTO events VALUES ('r1', 'bob wrote quixotic-77')")
        db.commit()
        for path in tmp_path.glob("runs.db*"):
            shutil.copy(path, folder)
    assert (folder / "runs.db-wal").stat().st_size and (folder / "runs.db-shm").exists()
    stray = home.path / "stray.txt"
    stray.write_text(LOCKER)
    for _ in range(2):
        with pytest.raises(Refused, match=r"still found in stray\.txt"):
            delete(home, user="bob")
        (pending,) = home.path.glob("pending-delete-*.json")
    (unfinished,) = [v for v in verify_home(home).violations if v.name == "finished_deletes"]
    assert unfinished.examples == (pending.name,)
    assert "quixotic" not in pending.read_text() and pending.stat().st_mode & 0o077 == 0
    stray.unlink()
    assert delete(home, user="bob").memories == 2 and not pending.exists() and holding(home, "quixotic-77") == []
    assert make_plan(home, [corpus]).changed
    build_home(home, corpus)
    without = write_chats(tmp_path / "without/corpus", [t for t in TURNS if t[1] != "bob"]).parent
    never, _ = built_notes(without, home.embeddings_path, NOTES, unit="statement")
    assert digest(published(home).tables(indexed_tables())) == digest(published(never).tables(indexed_tables()))


def test_memories_before_a_day_go_and_a_session_is_deleted_for_one_user_only(made):
    home, _ = made
    march = dt.datetime(2026, 2, 15, tzinfo=dt.UTC)
    planned = delete(home, user="ann", before=march, dry_run=True)
    assert planned.memories == 2 and "I prefer tea in the morning." in texts(home)
    assert delete(home, user="ann", before=march).memories == 2
    left = texts(home)
    assert "I prefer tea in the morning." not in left and "My locker code is quixotic-77." in left
    with pytest.raises(PalimpsestError, match="no session 's9'"):
        delete(home, session="s9", user="bob")
    assert delete(home, session="s3", user="bob").documents == 1
    assert holding(home, "quixotic-77") == []


@pytest.mark.parametrize("stage", [pytest.param("embeddings", marks=pytest.mark.slow), "relations"])
@pytest.mark.parametrize("again", [pytest.param("delete", marks=pytest.mark.slow), "build"])
def test_a_delete_killed_while_it_rewrites_a_build_is_finished_by_the_next(made, monkeypatch, stage, again):
    home, corpus = made

    def killed(part: object, name: str) -> None:
        if name == stage:
            raise KeyboardInterrupt
        run_stage(part, name)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("palimpsest.pipeline.deletion.erase_home.run_stage", killed)
        delete(home, user="bob")
    if again == "build":
        build_home(home, corpus)
    assert delete(home, user="bob").to_json()["residue"] == [] == holding(home, "quixotic-77")
    build_home(home, corpus)
    assert holding(home, "quixotic-77") == [] and LOCKER not in texts(home)


@pytest.mark.parametrize("target", [{"user": "bob"}, {"collection": "chats"}])
def test_a_delete_killed_before_it_writes_the_manifest_leaves_no_build_that_looks_damaged(made, monkeypatch, target):
    home, corpus = made
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("palimpsest.pipeline.deletion.erase_home.finish_build", Mock(side_effect=KeyboardInterrupt))
        delete(home, **target)
    assert delete(home, **target).to_json()["residue"] == [] == holding(home, "quixotic-77")
    assert published(home).damaged_files() == []
    if "user" in target:
        build_home(home, corpus)
        assert holding(home, "quixotic-77") == []


@pytest.mark.parametrize("name", ["document", "user", "session", "project", "tag", "collection"])
def test_an_empty_selector_is_refused_and_does_not_widen_the_delete(tmp_path, name):
    for selectors in ({name: ""}, {"memories": ["00"], name: " "}):
        with pytest.raises(PalimpsestError, match=f"--{name} is empty"):
            delete(Home(tmp_path), **selectors)


def test_what_is_past_its_retention_enters_no_log_and_goes_before_the_next_build(tmp_path, shared_vectors):
    today = dt.datetime.now(dt.UTC)
    notes = {
        "old.md": "---\ndate: 2020-01-01\n---\nThe door code is zqexpired.\n",
        "new.md": f"---\ndate: {today.date()}\n---\nThe door is blue zqkept.\n",
    }
    home, _ = built_notes(tmp_path, shared_vectors, notes, unit="statement", retention_days="30")
    assert texts(home) == {"The door is blue zqkept."} and holding(home, "zqexpired") == []
    assert delete_due(home, today + dt.timedelta(days=20)) == 0
    assert delete_due(home, today + dt.timedelta(days=40)) == 1
    assert holding(home, "zqkept") == []


@pytest.mark.slow
def test_a_user_who_is_denied_goes_from_kept_builds_and_may_come_back(tmp_path, shared_vectors):
    turns = [("bob", "My boat is called zqboat."), ("ines", "My cat is called zqcat.")]
    lines = [json.dumps({"session_id": f"s-{u}", "user_id": u, "speaker": u, "text": text}) for u, text in turns]
    corpus = write_notes(tmp_path / "corpus", {"chat.jsonl": "\n".join(lines)}, unit="turn")
    settings = corpus / "notes" / "collection.yaml"
    allowed = settings.read_text()
    home = Home(tmp_path / "home", shared_vectors)
    build_home(home, corpus)
    assert delete_due(home) == 0
    settings.write_text(allowed + "users: {deny: [bob]}\n")
    assert delete_due(home) == 1 and delete_due(home) == 0
    assert holding(home, "zqboat") == [] and texts(home) == {"My cat is called zqcat."}
    build_home(home, corpus)
    assert holding(home, "zqboat") == []
    settings.write_text(allowed)
    build_home(home, corpus)
    assert texts(home) == {"My boat is called zqboat.", "My cat is called zqcat."}


def test_a_source_that_cannot_be_read_keeps_its_memories_and_an_emptied_folder_stops_the_build(
    tmp_path, shared_vectors
):
    home, corpus = built_notes(tmp_path, shared_vectors, {f"{i}.md": f"Tower {i} is tall zq{i}." for i in range(8)})
    before = texts(home)
    (corpus / "notes/3.md").write_bytes(bytes(range(256)) * 8)
    build_home(home, corpus)
    rejects = published(home).tables(["rejects"])["rejects"]
    assert texts(home) == before and rejects["uri"].to_list() == ["3.md"]
    assert make_plan(home, [corpus]).nothing_to_do
    (corpus / "notes/3.md").write_text("Tower 3 is tall zq3.")
    build_home(home, corpus)
    assert texts(home) == before and published(home).tables(["rejects"])["rejects"].is_empty()
    for path in (corpus / "notes").glob("*.md"):
        path.unlink()
    with pytest.raises(PalimpsestError, match=r"8 of 8 sources .* --allow-removals"):
        build_home(home, corpus)
    assert texts(home) == before


def test_a_first_build_in_which_nothing_can_be_read_publishes_nothing(tmp_path, shared_vectors):
    corpus, home = write_notes(tmp_path / "corpus", {}), Home(tmp_path / "home", shared_vectors)
    (corpus / "notes/a.md").write_bytes(bytes(range(256)) * 8)
    with pytest.raises(PalimpsestError, match=r"none of the sources could be read.*a\.md"):
        build_home(home, corpus)
    assert published(home) is None


def test_a_delete_removes_the_reads_of_what_it_deletes_and_of_memories_that_no_build_has(made):
    home, _ = made
    with open_home(home.path) as reader:
        scopes = reader.scopes()
        read = {s: {m.memory_id for m in reader.search("the gate is", s, k=50).memories} for s in scopes}
    gone = next(s.user_id for s in scopes if read[s])
    reads = home.path / "usage" / "reads.jsonl"
    assert all(i in reads.read_text() for ids in read.values() for i in ids)
    deleted = {i for s in scopes if s.user_id == gone for i in read[s]}
    result = delete(home, user=gone)
    assert result.to_json()["reads"] == len(deleted) and result.to_json()["residue"] == []
    left = {i for s in scopes if s.user_id != gone for i in read[s]}
    assert not [i for i in deleted if i in reads.read_text()] and all(i in reads.read_text() for i in left)


def test_a_home_builds_on_after_a_delete_that_leaves_a_collection_without_documents(made):
    home, corpus = made
    delete(home, collection="notes", document="gate.md")
    for _ in range(2):
        build_home(home)
        assert not verify_home(home).violations
    assert published(home).table("notes", "memories").is_empty() and texts(home)
    write_notes(corpus, {**NOTES, "new.md": "The floor is blue zqfloor.\n"}, unit="statement")
    build_home(home, corpus)
    assert published(home).table("notes", "documents")["uri"].to_list() == ["new.md"]


def test_documents_and_users_named_like_words_of_the_product_are_deleted_to_the_end(tmp_path, shared_vectors):
    names, users = ("index", "monitoring", "schema"), ("will", "page")
    rows = [(f"s{n}", user, "Zoe", f"I am zq{user}.", f"2026-02-0{n}T09:00:00Z") for n, user in enumerate(users, 1)]
    write_chats(tmp_path / "corpus", rows)
    home, _ = built_notes(tmp_path, shared_vectors, {f"{name}.md": f"The {name} zq{name}.\n" for name in names})
    for name in (*names, *users):
        delete(home, **({"user": name} if name in users else {"collection": "notes", "document": f"{name}.md"}))
        assert holding(home, f"zq{name}") == []
    build_home(home)
    assert not texts(home)


def test_a_word_of_the_product_is_searched_for_in_columns_of_names_and_the_find_is_named(tmp_path):
    everywhere, in_columns = split_probes(Probes(frozenset(("index", "zqboat")), frozenset(("index", "zqboat"))))
    assert everywhere.strings == {"zqboat"} and in_columns.strings == {"index"}
    path = tmp_path / "made.parquet"
    pl.DataFrame({"kind": ["index"], "title": ["other"]}).write_parquet(path)
    assert find_probe(path, everywhere, in_columns) is None
    pl.DataFrame({"kind": ["other"], "title": ["index"]}).write_parquet(path)
    assert find_probe(path, everywhere, in_columns) == 'the name "index"'
