"""Ways the spine was broken in review, and is not any more."""

import json
import os
import shutil
from contextlib import suppress

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import STAGES, indexed_tables
from palimpsest.query.reader import open_home
from palimpsest.query.request.types import Scope
from palimpsest.store.builds import published, staged
from palimpsest.store.collection_config import load_collection
from palimpsest.store.home import Home
from tests.small_corpus import TURNS, write_chats, write_notes
from tests.word_embedder import WordEmbedder

SECRET = "quixotic-77"


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)


def build(home, corpus):
    plan = make_plan(home, [corpus])
    return published(home) if plan.nothing_to_do else run_without_dagster(home, plan)


def stop_after(home, corpus, name, stage):
    """What a kill after a stage of a collection leaves."""
    plan = make_plan(home, [corpus])
    home.create()
    home.remember_sources(plan.collections)
    for s in STAGES:
        run_stage(stage_context(home, name, plan.collections[name]), s)
        if s == stage:
            return


def memories(b):
    return {c: b.table(c, "memories").height for c in b.collections}


def files_with(home, text):
    found = []
    for path in home.path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".parquet":
                data += json.dumps(pl.read_parquet(path).drop("vector", strict=False).to_dicts(), default=str).encode()
            if text.encode() in data:
                found.append(path.relative_to(home.path).as_posix())
    return found


def delete_bob(home):
    for _ in range(2):
        with suppress(Refused):
            delete(home, document=None, user="bob", collection=None)
    assert files_with(home, SECRET) == []


@pytest.mark.slow
def test_a_kill_while_an_unchanged_collection_is_taken_over_does_not_empty_it(tmp_path):
    corpus = write_notes(write_chats(tmp_path / "corpus"), {"a.md": "Heron is a project.\n"})
    home = Home(tmp_path / "home")
    build(home, corpus)
    (corpus / "notes/a.md").write_text("Heron is a large project.\n")
    stop_after(home, corpus, "notes", "versions")
    (staged(home).path / "chats").mkdir()
    assert memories(build(home, corpus))["chats"] == len(TURNS)


@pytest.mark.slow
def test_a_change_that_was_stopped_and_taken_back_leaves_nothing_in_the_next_build(tmp_path):
    corpus = write_notes(write_chats(tmp_path / "corpus"), {"a.md": "Heron is a project.\n"})
    home = Home(tmp_path / "home")
    build(home, corpus)
    (corpus / "notes/a.md").write_text("Heron is a large project.\n")
    stop_after(home, corpus, "notes", "documents")
    (corpus / "notes/a.md").write_text("Heron is a project.\n")
    write_chats(corpus, TURNS[:-1])
    # The edit was read, so it is history; what is served is what is there.
    rows = build(home, corpus).tables(["memories", "versions"])
    latest = rows["memories"].join(rows["versions"].filter("is_latest"), on="memory_id", how="semi")
    assert latest.filter(pl.col("collection") == "notes")["text"].to_list() == ["Heron is a project."]


def test_a_kill_while_the_index_is_written_does_not_stop_the_next_build(tmp_path):
    corpus = write_chats(tmp_path / "corpus")
    home = Home(tmp_path / "home")
    stop_after(home, corpus, "chats", "versions")
    scratch = staged(home).path / ".index.duckdb.killed"
    scratch.mkdir()
    pl.DataFrame({"row": [0], "memory_id": ["x"]}).write_parquet(scratch / "memories.parquet")
    assert build(home, corpus).collections == ["chats"]


@pytest.mark.slow
def test_a_user_is_deleted_from_extractions_that_no_version_names_any_more(tmp_path):
    corpus = write_chats(tmp_path / "corpus")
    home = Home(tmp_path / "home")
    build(home, corpus)
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text() + "project_id: p\n")
    build(home, corpus)
    delete_bob(home)


@pytest.mark.slow
def test_a_user_is_deleted_from_a_build_that_a_kill_left_unfinished(tmp_path):
    corpus = write_chats(tmp_path / "corpus")
    home = Home(tmp_path / "home")
    build(home, corpus)
    write_chats(corpus, [*TURNS, ("s5", "ann", "Ann", "The tram was late.", "2026-05-01T00:00:00Z")])
    stop_after(home, corpus, "chats", "memories")
    staged(home).remove_record("chats", "memories")
    delete_bob(home)


def test_a_row_a_user_named_in_the_path_and_a_document_whose_folder_is_gone_are_deleted(tmp_path):
    turns = [("s1", "alexandra", "Ann", f"The code is {SECRET}.", ""), ("s2", "bob", "Bob", "Rain today.", "")]
    rows = "\n".join(json.dumps({"_id": f"r{i}", "title": "T", "text": f"Row {i} is here."}) for i in range(2))
    corpus, home = write_chats(tmp_path / "alexandra" / "corpus", turns), Home(tmp_path / "home")
    build(home, write_notes(corpus, {"corpus.jsonl": rows, "a.md": "The other code is zanzibar-88.\n"}))
    assert delete(home, document=None, user="alexandra", collection=None).to_json()["residue"] == []
    assert files_with(home, SECRET) == []
    delete(home, document="corpus.jsonl#r1", user=None, collection="notes")
    assert memories(published(home)) == {"chats": 1, "notes": 2}
    shutil.rmtree(corpus)
    delete(home, document="a.md", user=None, collection="notes")
    assert files_with(home, "zanzibar-88") == []


@pytest.mark.slow
def test_a_version_that_came_and_went_between_two_builds_leaves_them_equal_to_one_from_scratch(tmp_path):
    def turns(session, *texts):
        return [(session, "ann", "Ann", text, "") for text in texts]

    other = turns("z", "Zebras stand alone.")
    corpus, home = tmp_path / "corpus", Home(tmp_path / "home")
    for texts in (("Alpha is one.", "Beta is two."), ("Gamma is three.", "Alpha is one.")):
        build(home, write_chats(corpus, turns("s1", *texts) + other))
    stop_after(home, write_chats(corpus, turns("s1", "Alpha is one.", "Beta is two.") + other), "chats", "documents")
    grown = build(home, write_chats(corpus, other))
    fresh = Home(tmp_path / "fresh")
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    assert digest(build(fresh, corpus).tables(indexed_tables())) == digest(grown.tables(indexed_tables()))


def test_a_replaced_document_retires_nothing_of_the_document_that_replaces_it(tmp_path):
    notes = {
        "a.md": "---\nsupersedes: b.md\ndate: 2020-01-01\n---\nThe deadline of project Heron is 12 March.\n",
        "b.md": "---\ndate: 2026-01-01\n---\nThe deadline of project Heron is now 20 April instead of 12 March.\n",
    }
    b = build(Home(tmp_path / "home"), write_notes(tmp_path / "corpus", notes, unit="statement"))
    rows = b.tables(["memories", "versions"])
    latest = rows["memories"].join(rows["versions"], on="memory_id").filter("is_latest")
    assert latest["provenance"].to_list() == ["a.md"]


def test_as_of_a_late_date_returns_no_retired_memory(tmp_path):
    corpus, home = tmp_path / "corpus", Home(tmp_path / "home")
    for text in ("The gate opens at eight.\n", "The gate opens at nine.\n"):
        build(home, write_notes(corpus, {"a.md": text}, unit="statement"))
    with open_home(home.path) as reader:
        found = reader.search("gate", Scope("notes", "shared"), as_of="2100-01-01")
    assert [m.text for m in found.memories] == ["The gate opens at nine."]


def test_a_loop_of_links_is_a_reject(tmp_path):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "Heron is a project.\n"})
    (corpus / "notes/l.md").symlink_to("m.md")
    (corpus / "notes/m.md").symlink_to("l.md")
    assert build(Home(tmp_path / "home"), corpus).tables(["rejects"])["rejects"].height == 2


def test_a_folder_that_cannot_be_listed_for_once_does_not_erase_its_sources(tmp_path, monkeypatch):
    notes = {"sub/a.md": "Heron is a project.\n", "b.md": "B.\n"}
    corpus = write_notes(tmp_path / "corpus", notes, on_removed="delete")
    home, listing = Home(tmp_path / "home"), os.scandir

    def refuse(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    build(home, corpus)
    monkeypatch.setattr(os, "scandir", refuse)
    try:
        b = build(home, corpus)
    except PalimpsestError:
        b = published(home)
    assert memories(b) == {"notes": 2}


@pytest.mark.parametrize("text", ["1: x\n", "retention_days: 2024-13-45\n", None])
def test_settings_that_yaml_takes_but_nobody_means_are_bad_input(tmp_path, text):
    path = tmp_path / "collection.yaml"
    path.mkdir() if text is None else path.write_text("name: n\ndescription: d\n" + text)
    with pytest.raises(PalimpsestError, match=r"collection\.yaml"):
        load_collection(tmp_path)
