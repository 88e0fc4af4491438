"""Markdown pages: an edit is a new version, a page that is removed retires its memories, and nothing else changes."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.export.export_user import export_user
from palimpsest.export.import_export import import_export
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from tests.export.made import CANARY, build, texts, with_own_vectors
from tests.small_corpus import write_chats

TALK = "markdown/chats/turns.jsonl/s1.md"
LEDGER = "markdown/papers/ledger.md"


def edit(out: Path, page: str, old: str, new: str) -> None:
    text = (out / page).read_text()
    assert old in text, text
    (out / page).write_text(text.replace(old, new))


def test_a_page_says_what_it_is_and_line_ends_of_another_editor_are_no_edit(copy):
    _, _, out = copy
    talk, ledger = (out / TALK).read_text(), (out / LEDGER).read_text()
    parts = ("session_id: s1", "uri: turns.jsonl", "importance: 0.", "episodic", "time: '2026-02-01T09:00:00+00:00'")
    assert [part for part in parts if part not in talk] == []
    assert "### 1. Ann · 2026-02-01 09:00 · " in talk and "replaced" in talk
    assert "I prefer tea in the morning." in talk and CANARY not in talk
    assert ledger.startswith("---\ndate: '2026-02-04'\n") and "# Ledger\n\nThe ledger runs on Oracle." in ledger
    assert "user_visible: false" in ledger and "- money" in ledger
    home, _, out = copy
    for page in (TALK, LEDGER):
        (out / page).write_bytes((out / page).read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    done = import_export(home, out)
    assert not done.edited and not done.problems and done.unchanged == 5


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_edited_turn_is_a_new_version_and_all_others_carry_on(copy, elsewhere, tmp_path, shared_vectors):
    home, corpus, out = copy
    if elsewhere:
        home = Home(tmp_path / "elsewhere", shared_vectors)
        import_export(home, out)
        build(home)
    before = set(published(home).table("chats", "memories")["memory_id"])
    edit(out, TALK, "I prefer tea in the morning.", "I prefer cocoa in the morning.")
    done = import_export(home, out)
    assert done.edited == [TALK] and not done.removed and not done.problems and done.unchanged == 4
    assert make_plan(home, None).changed == ("chats",)
    build(home)
    after = published(home)
    memories = after.table("chats", "memories")
    assert before < set(memories["memory_id"]) and memories.height == len(before) + 1
    assert "I prefer cocoa in the morning." in texts(home, "chats")
    assert "I prefer tea in the morning." not in texts(home, "chats")
    assert "I prefer tea in the morning." in texts(home, "chats", latest=False)
    assert elsewhere or f"My locker code is {CANARY}." in texts(home, "chats", "bob")
    assert make_plan(home, None).nothing_to_do and (elsewhere or make_plan(home, [corpus]).nothing_to_do)
    again = import_export(home, out)
    assert not again.edited and again.unchanged == 5 and make_plan(home, None).nothing_to_do


@pytest.mark.slow
def test_a_page_can_be_edited_again(copy):
    home, _, out = copy
    edit(out, TALK, "I prefer tea", "I prefer cocoa")
    import_export(home, out)
    build(home)
    edit(out, TALK, "I prefer cocoa", "I prefer water")
    assert import_export(home, out).edited == [TALK]
    build(home)
    assert [t for t in texts(home, "chats") if "prefer" in t] == ["I prefer water in the morning."]


def test_a_change_of_the_file_wins_over_the_edit(copy):
    home, corpus, out = copy
    edit(out, LEDGER, "runs on Oracle", "runs on SQLite")
    import_export(home, out)
    build(home, [corpus])
    assert "The ledger runs on SQLite." in texts(home, "papers")
    ledger = corpus / "papers" / "ledger.md"
    ledger.write_text(ledger.read_text().replace("runs on Oracle", "runs on DuckDB"))
    build(home, [corpus])
    assert "The ledger runs on DuckDB." in texts(home, "papers")
    assert not [t for t in texts(home, "papers") if "SQLite" in t or "Oracle" in t]
    edit(out, LEDGER, "runs on SQLite", "runs on MariaDB")
    ((file, reason),) = import_export(home, out).problems
    assert file == LEDGER and "changed in this home" in reason and make_plan(home, None).nothing_to_do


def test_a_removed_page_retires_its_document_and_no_other_of_the_source(copy):
    home, corpus, out = copy
    (out / TALK).unlink()
    done = import_export(home, out)
    assert done.removed == [TALK]
    build(home, [corpus])
    left = texts(home, "chats")
    assert left and not [t for t in left if "prefer" in t] and texts(home, "chats", "bob")
    assert [t for t in texts(home, "chats", latest=False) if "prefer" in t]
    assert make_plan(home, [corpus]).nothing_to_do
    assert import_export(home, out).removed == [] and make_plan(home, None).nothing_to_do


@pytest.mark.slow
def test_a_removed_page_is_deleted_for_good_where_the_collection_says_so(copy, tmp_path, shared_vectors):
    home, corpus, out = copy
    home = with_own_vectors(home)
    settings = corpus / "chats" / "collection.yaml"
    settings.write_text(settings.read_text() + "on_removed: delete\n")
    build(home, [corpus])
    out = export_user(home, "ann", tmp_path / "deleted", "chats").out
    (out / TALK).unlink()
    assert import_export(home, out).removed == [TALK]
    build(home, [corpus])
    assert not [t for t in texts(home, "chats", latest=False) if "prefer" in t]
    other = Home(tmp_path / "other", shared_vectors)
    import_export(other, out)
    build(other)
    assert texts(other, "chats") and not [t for t in texts(other, "chats", latest=False) if "prefer" in t]


def test_too_many_removed_pages_need_a_word(copy, tmp_path, shared_vectors):
    home, _, out = copy
    for page in (out / "markdown" / "papers").glob("*"):
        page.unlink()
    edit(out, TALK, "I prefer tea", "I prefer cocoa")
    with pytest.raises(PalimpsestError, match=r"papers: 3 of 3 pages are gone.*--allow-removals"):
        import_export(home, out)
    assert make_plan(home, None).nothing_to_do
    assert len(import_export(home, out, allow_removals=True).removed) == 3


def test_fields_of_a_page_can_be_edited_but_not_whose_it_is(copy):
    home, _, out = copy
    edit(out, LEDGER, "tags:\n- money", "tags:\n- money\n- urgent")
    edit(out, LEDGER, "title: Ledger\n---", "title: Ledger\nimportance: 0.9\ntype: task\n---")
    edit(out, LEDGER, "user_visible: false", "user_visible: true")
    edit(out, TALK, "---\npalimpsest", "---\nuser_id: bob\npalimpsest")
    done = import_export(home, out)
    assert done.edited == [LEDGER] and done.problems[0][0] == TALK and "user_id" in done.problems[0][1]
    build(home)
    latest = published(home).table("papers", "versions").filter("is_latest").select("memory_id")
    rows = published(home).table("papers", "memories").join(latest, on="memory_id", how="semi")
    row = rows.filter(pl.col("text").str.contains("Oracle")).row(0, named=True)
    assert row["tags"] == ["money", "urgent"] and (row["importance"], row["type"]) == (0.9, "task")
    assert row["user_visible"] is True


def test_a_secret_that_is_written_into_a_page_is_redacted(copy):
    home, _, out = copy
    edit(out, TALK, "I prefer tea", "The key is AKIAIOSFODNN7EXAMPLE and I prefer tea")
    edit(out, LEDGER, "Backups of the ledger", "All backups of the ledger")
    assert len(import_export(home, out).edited) == 2
    build(home)
    assert any("[redacted: " in t and "prefer tea" in t for t in texts(home, "chats"))
    data = b"".join(p.read_bytes() for p in home.path.rglob("*") if p.is_file())
    assert b"AKIAIOSFODNN7EXAMPLE" not in data
    redactions, documents, texts_ = (
        published(home).table("papers", name) for name in ("redactions", "documents", "document_texts")
    )
    row = redactions.join(documents.filter("is_current"), on="document_id", how="semi")
    text = texts_.join(row, on="document_id", how="semi")["text"][0]
    assert text[row["char_start"][0] :].startswith("[redacted: ")


UNREADABLE = [
    ("---\npalimpsest", "palimpsest", "front matter"),
    ("### 2.", "### 1.", "twice"),
    ("### 2.", "### 7.", "no turn 7"),
    ("session_id: s1", "session_id: [", "YAML"),
    ("document_id: ", "document_id: x", "another document"),
    ("### 1.", "Hello\n\n### 1.", "before its first turn"),
]


def test_a_page_that_cannot_be_read_is_listed_and_changes_nothing(copy):
    home, _, out = copy
    sound = (out / TALK).read_text()
    for old, new, reason in UNREADABLE:
        edit(out, TALK, old, new)
        done = import_export(home, out)
        ((file, why),) = done.problems
        assert file == TALK and reason in why and "\n" not in why and not done.edited
        assert make_plan(home, None).nothing_to_do
        (out / TALK).write_text(sound)


def test_a_page_that_is_a_link_or_not_utf8_stops_the_import(copy, tmp_path):
    home, _, out = copy
    (out / TALK).rename(tmp_path / "away.md")
    (out / TALK).symlink_to(tmp_path / "away.md")
    with pytest.raises(PalimpsestError, match="is a link"):
        import_export(home, out)
    (out / TALK).unlink()
    (out / TALK).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PalimpsestError, match="UTF-8"):
        import_export(home, out)


def test_a_removed_turn_is_retired_and_only_edited_pages_are_written_with_the_paragraphs_that_changed(copy):
    home, _, out = copy
    before = published(home).table("papers", "memories")
    logged = {c: IngestLog(home.log / c).versions() for c in ("chats", "papers")}
    edit(out, LEDGER, "Ann keeps the ledger.", "Ben keeps the ledger.")
    import_export(home, out)
    assert IngestLog(home.log / "chats").versions().equals(logged["chats"])
    assert IngestLog(home.log / "papers").versions().height == logged["papers"].height + 1
    text = (out / TALK).read_text()
    (out / TALK).write_text(text[: text.index("### 2.")])
    edit(out, "markdown/papers/new.txt.md", "The annex opens at ten.", "The annex opens at ten.\n\nIt has two doors.")
    assert sorted(import_export(home, out).edited) == [TALK, "markdown/papers/new.txt.md"]
    build(home)
    new = published(home).table("papers", "memories").join(before, on="memory_id", how="anti")
    assert sorted(new["text"]) == ["Ben keeps the ledger.", "It has two doors."]
    assert sum(r.work.embeddings for r in published(home).manifest.stages["papers"].values()) <= 3
    assert not [t for t in texts(home, "chats") if "prefer" in t]
    assert [t for t in texts(home, "chats", latest=False) if "prefer" in t]


def test_a_turn_that_looks_like_a_heading_survives(tmp_path, shared_vectors):
    said = "First line\n### 2. not a turn\n\\### 3. nor this"
    home = Home(tmp_path / "home", shared_vectors)
    corpus = write_chats(tmp_path / "corpus", [("s1", "ann", "Ann", said, "2026-02-01T09:00:00Z")])
    build(home, [corpus])
    out = export_user(home, "ann", tmp_path / "out").out
    assert import_export(home, out).unchanged == 1
    edit(out, TALK, "First line", "Line one")
    import_export(home, out)
    build(home)
    assert texts(home, "chats") == [said.replace("First line", "Line one")]
