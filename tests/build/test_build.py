"""Builds of small corpora through the same functions as the assets, without Dagster."""

import shutil
from pathlib import Path
from random import Random

import duckdb
import pytest

from palimpsest.cli.summary import changes_lines
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import STAGES, indexed_tables
from palimpsest.query.reader import open_home
from palimpsest.relations.labelers import label_pairs
from palimpsest.relations.labelers.offline_labeler import OfflineLabeler
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import append_decisions
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import TURNS, build_home, built_notes, copy_built, write_chats, write_notes

SLOW = pytest.mark.slow
MORE_DEADLINES = [
    (f"s{month}", "ann", "Ann", f"The deadline of project Heron is now {month} May.", f"2026-{month:02d}-01T09:00:00Z")
    for month in (4, 5, 6)
]


@pytest.fixture
def build(tmp_path, shared_vectors):
    def run(corpus: Path, name: str = "home") -> tuple[Home, Build]:
        home = Home(tmp_path / name, shared_vectors)
        return home, published(home) if make_plan(home, [corpus]).nothing_to_do else build_home(home, corpus)

    return run


@pytest.fixture(scope="module")
def first(tmp_path_factory, shared_vectors) -> Path:
    """A home of one collection of conversations, and its corpus."""
    base = tmp_path_factory.mktemp("first")
    build_home(Home(base / "home", shared_vectors), write_chats(base / "corpus"))
    return base


@pytest.fixture
def chats(first, tmp_path, shared_vectors) -> tuple[Home, Path]:
    return copy_built(first, tmp_path, shared_vectors)


def latest_of(b: Build) -> dict[str, bool]:
    """Returns of each text whether it is latest."""
    rows = b.tables(["memories", "versions"])
    return dict(rows["memories"].join(rows["versions"], on="memory_id").select("text", "is_latest").iter_rows())


def test_an_unchanged_corpus_is_nothing_to_do_and_other_weights_make_nothing_again(chats):
    home, corpus = chats
    first = published(home)
    (corpus / "chats/turns.jsonl").touch()
    assert make_plan(home, [corpus]).nothing_to_do and make_plan(home, None).nothing_to_do
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text() + "weights: {recency: 0.5}\n")
    second = build_home(home, corpus)
    linked = {stage for stage, r in second.manifest.stages["chats"].items() if r.cache_status == "linked"}
    assert second.build_id == "000002" and linked == set(STAGES) - {"documents"}
    assert second.manifest.digest == first.manifest.digest
    weights = [b.manifest.settings["weights"] for b in (first, second)]
    assert weights == [{"chats": {}}, {"chats": {"recency": 0.5}}]
    with open_home(home.path) as reader:
        assert reader.backend.collections()["chats"].weights == {"recency": 0.5}


@pytest.mark.parametrize("by", ["build", "delete"])
def test_what_is_decided_takes_effect_in_the_collections_that_are_built_or_rewritten_since(chats, by):
    home, corpus = chats
    write_notes(corpus, {"a.md": "# Heron\n\nHeron is a project.\n", "b.md": "Mills.\n"})
    first = build_home(home, corpus)
    (update,) = first.table("chats", "relations").filter(label="UPDATE")["relation_id"]
    append_decisions(home.decisions, "undo", [update])
    if by == "build":
        (corpus / "notes/a.md").write_text("# Heron\n\nHeron is a large project.\n")
        second = run_without_dagster(home, make_plan(home, [corpus], ["notes"]))
        assert {r.cache_status for r in second.manifest.stages["chats"].values()} == {"adopted"}
        assert second.table_path("chats", "memories").samefile(first.table_path("chats", "memories"))
    else:
        delete(home, document="b.md", collection="notes")
    assert published(home).manifest.undone == [] and not verify_home(home).violations
    last = build_home(home, corpus)
    assert last.manifest.undone == [update] and not verify_home(home).violations
    assert last.table("chats", "versions")["is_latest"].all()


@pytest.mark.parametrize("change", ["edit", *(pytest.param(c, marks=SLOW) for c in ("add", "remove", "reorder"))])
def test_an_incremental_build_equals_one_from_scratch(chats, tmp_path, change):
    home, corpus = chats
    turns = list(TURNS)
    if change == "edit":
        turns[0] = (*turns[0][:3], "The deadline of project Heron is 13 March.", turns[0][4])
    elif change == "add":
        turns.append(("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z"))
    elif change == "remove":
        del turns[2]
    else:
        turns = turns[3:] + turns[:3]
    grown = build_home(home, write_chats(corpus, turns))
    assert_equals_scratch(home, grown, corpus, tmp_path / "fresh")


@pytest.mark.parametrize("seed", [pytest.param(s, marks=SLOW) for s in range(1, 10)])
def test_builds_after_random_changes_equal_one_from_scratch(chats, tmp_path, seed):
    (home, corpus), random, turns = chats, Random(seed), list(TURNS)
    for n in range(3):
        for change in random.sample(["edit", "add", "remove", "reorder"], 2):
            at = random.randrange(len(turns))
            if change == "edit":
                turns[at] = (*turns[at][:3], f"{turns[at][3]} This was corrected {n + 1} times.", turns[at][4])
            elif change == "add":
                turns.insert(at, (*turns[at][:3], f"Heron has {n + 2} open questions.", turns[at][4]))
            elif change == "remove" and len(turns) > 4:
                del turns[at]
            else:
                turns = turns[at:] + turns[:at]
        grown = build_home(home, write_chats(corpus, turns))
    assert_equals_scratch(home, grown, corpus, tmp_path / "fresh")


def assert_equals_scratch(home, grown, corpus, folder):
    """From scratch means from the log (decision 6): the same log in an empty home."""
    fresh = Home(folder, home.embeddings_path)
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    scratch = build_home(fresh, corpus)
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
    assert index_rows(grown) == index_rows(scratch)


def index_rows(b: Build) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect(str(b.index), read_only=True) as db:
        names = [n for (n,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall() if n != "meta"]
        return {n: db.execute(f"SELECT * FROM {n}").fetchall() for n in names}


@pytest.mark.slow
def test_a_text_that_an_edit_left_alone_keeps_its_id_and_the_old_one_is_history(tmp_path, shared_vectors):
    eight, nine, dogs = "The gate opens at eight.", "The gate opens at nine.", "Dogs stay outside."
    home, corpus = built_notes(tmp_path, shared_vectors, {"a.md": f"{eight}\n"}, unit="statement")
    (old,) = published(home).table("notes", "memories")["memory_id"]
    (corpus / "notes/a.md").write_text(f"{nine}\n\n{dogs}\n")
    assert latest_of(build_home(home, corpus)) == {eight: False, nine: True, dogs: True}
    (corpus / "notes/a.md").write_text(f"{eight}\n")
    third = build_home(home, corpus)
    assert latest_of(third)[eight] and not latest_of(third)[nine]
    assert old in set(third.table("notes", "memories")["memory_id"])


@pytest.mark.parametrize(("on_removed", "left"), [("retire", {"Cats sleep.": False}), ("delete", {})])
def test_a_vanished_source_retires_its_memories_or_takes_them_along(tmp_path, shared_vectors, on_removed, left):
    notes = {"a.txt": "Cats sleep.", "b.txt": "Dogs bark."}
    home, corpus = built_notes(tmp_path, shared_vectors, notes, unit="statement", on_removed=on_removed)
    (corpus / "notes/a.txt").unlink()
    assert latest_of(build_home(home, corpus)) == left | {"Dogs bark.": True}


@pytest.mark.parametrize("stop", [pytest.param(s, marks=() if s == "relations" else SLOW) for s in STAGES])
def test_a_build_stopped_after_a_stage_ends_as_one_that_was_not(chats, tmp_path, stop):
    whole, corpus = chats
    home = Home(tmp_path / "stopped", whole.embeddings_path)
    home.create()
    plan = make_plan(home, [corpus])
    home.remember_sources(plan.collections)
    for stage in STAGES:
        run_stage(stage_context(home, "chats", plan.collections["chats"]), stage)
        if stage == stop:
            break
    assert build_home(home, corpus).manifest.digest == published(whole).manifest.digest


def test_a_build_stopped_in_its_labels_goes_on_from_them(tmp_path, build, monkeypatch):
    monkeypatch.setattr(label_pairs, "_FIRST_PART", 1)
    monkeypatch.setattr(label_pairs, "_PART_S", 0.0)
    corpus = write_chats(tmp_path / "corpus", [*TURNS, *MORE_DEADLINES])
    label, calls = OfflineLabeler.label, list[int]()

    def stopped(self, pairs):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(len(pairs))
        return label(self, pairs)

    monkeypatch.setattr(OfflineLabeler, "label", stopped)
    with pytest.raises(KeyboardInterrupt):
        build(corpus)
    monkeypatch.setattr(OfflineLabeler, "label", label)
    _, whole = build(corpus, "whole")
    _, found = build(corpus)
    numbers = [b.manifest.stages["chats"]["relations"].numbers for b in (whole, found)]
    assert numbers[0]["labelled"] == numbers[1]["labelled"] + sum(calls) and numbers[1]["carried"] == sum(calls)
    assert found.manifest.digest == whole.manifest.digest
    assert not list(found.path.glob("_*/*.relations"))


def test_a_corrected_time_of_a_turn_takes_effect_as_if_it_had_been_right_at_once(tmp_path, build):
    corpus = write_chats(tmp_path / "corpus", [(*TURNS[0][:4], ""), *TURNS[1:]])
    build(corpus)
    times = ("2026-02-01T09:00:00Z", "2026-02-03T09:01:00Z", "2026-03-01T09:00:00Z")
    turns = [(*turn[:4], time) for turn, time in zip(TURNS, times, strict=False)] + TURNS[3:]
    write_chats(corpus, turns)
    _, corrected = build(corpus)
    _, whole = build(corpus, "whole")
    memories = corrected.table("chats", "memories").filter(user_id="ann").sort("observed_at")
    assert [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in memories["observed_at"]] == list(times)
    assert corrected.manifest.digest == whole.manifest.digest


def changes_of(home, corpus):
    changes = build_home(home, corpus).manifest.changes
    return changes, changes and {d["uri"]: (d["change"], d["gained"], d["lost"]) for d in changes["documents"]}


@pytest.mark.slow
def test_each_document_is_reported_with_what_became_of_its_memories(tmp_path):
    home, corpus = Home(tmp_path / "home"), tmp_path / "corpus"
    notes = {"edited.md": "Otters swim.\n", "gone.md": "Herons fly.\n", "same.md": "Bats sleep.\n"}
    assert changes_of(home, write_notes(write_chats(corpus, TURNS[:2]), notes))[0] is None
    (corpus / "notes/gone.md").unlink()
    write_notes(corpus, {"edited.md": "Otters dive.\n", "new.md": "Moles dig.\n"})
    changes, by_uri = changes_of(home, write_chats(corpus, TURNS[:3]))
    assert by_uri == {
        "edited.md": ("edited", 1, 1),
        "gone.md": ("removed", 0, 1),
        "new.md": ("added", 1, 0),
        "turns.jsonl": ("edited", 1, 1),
    }
    assert changes["counts"] == {"added": 1, "edited": 2, "removed": 1}
    assert changes_lines(changes)[1] == "    edited   chats/turns.jsonl: latest memories +1 -1"


@pytest.mark.slow
def test_a_document_retired_by_another_is_reported_as_related(tmp_path):
    home, corpus = Home(tmp_path / "home"), tmp_path / "corpus"
    write_notes(corpus, {"old.md": "Leave is 20 days.\n"})
    changes_of(home, corpus)
    write_notes(corpus, {"new.md": "---\nsupersedes: old.md\n---\nLeave is 25 days.\n"})
    assert changes_of(home, corpus)[1] == {"new.md": ("added", 1, 0), "old.md": ("related", 0, 1)}
