"""Builds of small corpora through the same functions as the assets, without Dagster."""

import shutil
from pathlib import Path
from random import Random

import duckdb
import pytest

from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stages import STAGES, indexed_tables
from palimpsest.query.reader import open_home
from palimpsest.relations.labelers import label_pairs
from palimpsest.relations.labelers.offline_labeler import OfflineLabeler
from palimpsest.store.builds import Build, kept, published
from palimpsest.store.decisions import append_decisions
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import verify_home
from tests.small_corpus import TURNS, write_chats, write_notes

MORE_DEADLINES = [
    (f"s{month}", "ann", "Ann", f"The deadline of project Heron is now {month} May.", f"2026-{month:02d}-01T09:00:00Z")
    for month in (4, 5, 6)
]


@pytest.fixture
def build(tmp_path, shared_vectors):
    def run(corpus: Path, name: str = "home") -> tuple[Home, Build]:
        home = Home(tmp_path / name, shared_vectors)
        plan = make_plan(home, [corpus])
        return home, published(home) if plan.nothing_to_do else run_without_dagster(home, plan)

    return run


def how(b: Build) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for stages in b.manifest.stages.values():
        for stage, record in stages.items():
            found.setdefault(record.cache_status, set()).add(stage)
    return found


def test_an_unchanged_corpus_is_nothing_to_do(tmp_path, build):
    corpus = write_chats(tmp_path / "corpus")
    home, _ = build(corpus)
    assert make_plan(home, [corpus]).nothing_to_do
    assert make_plan(home, None).nothing_to_do
    (corpus / "chats/turns.jsonl").touch()
    assert make_plan(home, [corpus]).nothing_to_do


@pytest.mark.parametrize("by", ["build", "delete"])
def test_what_is_decided_takes_effect_in_the_collections_that_are_built_or_rewritten_since(tmp_path, build, by):
    corpus = write_notes(
        write_chats(tmp_path / "corpus"), {"a.md": "# Heron\n\nHeron is a project.\n", "b.md": "Mills.\n"}
    )
    home, first = build(corpus)
    (update,) = first.table("chats", "relations").filter(label="UPDATE")["relation_id"]
    append_decisions(home.decisions, "undo", [update])
    if by == "build":
        (corpus / "notes/a.md").write_text("# Heron\n\nHeron is a large project.\n")
        run_without_dagster(home, make_plan(home, [corpus], ["notes"]))
    else:
        delete(home, document="b.md", collection="notes")
    assert published(home).manifest.undone == [] and not verify_home(home).violations
    _, last = build(corpus)
    assert last.manifest.undone == [update] and not verify_home(home).violations
    assert last.table("chats", "versions")["is_latest"].all()


def test_only_the_collection_that_changed_is_made_again(tmp_path, build):
    corpus = write_notes(write_chats(tmp_path / "corpus"), {"a.md": "# Heron\n\nHeron is a project.\n"})
    build(corpus)
    (corpus / "notes/a.md").write_text("# Heron\n\nHeron is a large project.\n")
    home, second = build(corpus)
    assert second.build_id == "000002"
    assert {r.cache_status for r in second.manifest.stages["chats"].values()} == {"adopted"}
    assert second.table_path("chats", "memories").samefile(kept(home)[0].table_path("chats", "memories"))


def test_other_weights_are_written_to_the_index_and_manifest_and_nothing_is_made_again(tmp_path, build):
    corpus = write_chats(tmp_path / "corpus")
    _, first = build(corpus)
    settings = corpus / "chats/collection.yaml"
    settings.write_text(settings.read_text() + "weights: {recency: 0.5}\n")
    home, second = build(corpus)
    assert second.build_id == "000002" and how(second)["linked"] == set(STAGES) - {"documents"}
    assert second.manifest.digest == first.manifest.digest
    assert (first.manifest.settings["weights"], second.manifest.settings["weights"]) == (
        {"chats": {}},
        {"chats": {"recency": 0.5}},
    )
    with open_home(home.path) as reader:
        assert reader.backend.collections()["chats"].weights == {"recency": 0.5}


@pytest.mark.parametrize(
    "change",
    [
        "edit",
        pytest.param("add", marks=pytest.mark.slow),
        pytest.param("remove", marks=pytest.mark.slow),
        pytest.param("reorder", marks=pytest.mark.slow),
    ],
)
def test_an_incremental_build_equals_one_from_scratch(tmp_path, build, change):
    corpus = write_chats(tmp_path / "corpus")
    home, _ = build(corpus, "grown")
    turns = list(TURNS)
    if change == "edit":
        turns[0] = (*turns[0][:3], "The deadline of project Heron is 13 March.", turns[0][4])
    elif change == "add":
        turns.append(("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z"))
    elif change == "remove":
        del turns[2]
    else:
        turns = turns[3:] + turns[:3]
    write_chats(corpus, turns)
    _, grown = build(corpus, "grown")
    assert_equals_scratch(home, grown, corpus, tmp_path / "fresh")


@pytest.mark.parametrize("seed", [pytest.param(s, marks=pytest.mark.slow) for s in range(1, 10)])
def test_builds_after_random_changes_equal_one_from_scratch(tmp_path, build, seed):
    random = Random(seed)
    corpus, turns = write_chats(tmp_path / "corpus"), list(TURNS)
    home, _ = build(corpus, "grown")
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
        write_chats(corpus, turns)
        _, grown = build(corpus, "grown")
    assert_equals_scratch(home, grown, corpus, tmp_path / "fresh")


def assert_equals_scratch(home, grown, corpus, folder):
    """From scratch means from the log (decision 6): the same log in an empty home."""
    fresh = Home(folder, home.embeddings_path)
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    scratch = run_without_dagster(fresh, make_plan(fresh, [corpus]))
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
    assert index_rows(grown) == index_rows(scratch)


def index_rows(b: Build) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect(str(b.index), read_only=True) as db:
        names = [n for (n,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall() if n != "meta"]
        return {n: db.execute(f"SELECT * FROM {n}").fetchall() for n in names}


@pytest.mark.slow
def test_a_text_that_an_edit_left_alone_keeps_its_id_and_the_old_one_is_history(tmp_path, build):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "The gate opens at eight.\n"}, unit="statement")
    _, first = build(corpus)
    (corpus / "notes/a.md").write_text("The gate opens at nine.\n\nDogs stay outside.\n")
    _, second = build(corpus)
    rows = second.tables(["memories", "versions"])
    latest = rows["memories"].join(rows["versions"], on="memory_id").select("text", "is_latest")
    assert dict(latest.iter_rows()) == {
        "The gate opens at eight.": False,
        "The gate opens at nine.": True,
        "Dogs stay outside.": True,
    }
    (corpus / "notes/a.md").write_text("The gate opens at eight.\n")
    _, third = build(corpus)
    rows = third.tables(["memories", "versions"])
    latest = dict(rows["memories"].join(rows["versions"], on="memory_id").select("text", "is_latest").iter_rows())
    assert latest["The gate opens at eight."] and not latest["The gate opens at nine."]
    old = first.table("notes", "memories")["memory_id"][0]
    assert old in set(third.table("notes", "memories")["memory_id"])


def test_a_vanished_source_retires_its_memories_or_takes_them_along(tmp_path, build):
    for on_removed, left in (("retire", {"Cats sleep.": False, "Dogs bark.": True}), ("delete", {"Dogs bark.": True})):
        corpus = tmp_path / on_removed
        write_notes(corpus, {"a.txt": "Cats sleep.", "b.txt": "Dogs bark."}, unit="statement", on_removed=on_removed)
        build(corpus, f"home-{on_removed}")
        (corpus / "notes/a.txt").unlink()
        _, b = build(corpus, f"home-{on_removed}")
        rows = b.tables(["memories", "versions"])
        joined = rows["memories"].join(rows["versions"], on="memory_id").select("text", "is_latest")
        assert dict(joined.iter_rows()) == left


@pytest.mark.parametrize("stop", [pytest.param(s, marks=() if s == "relations" else pytest.mark.slow) for s in STAGES])
def test_a_build_stopped_after_a_stage_ends_as_one_that_was_not(tmp_path, build, stop):
    corpus = write_chats(tmp_path / "corpus")
    first, whole = build(corpus, "whole")
    home = Home(tmp_path / "stopped", first.embeddings_path)
    home.create()
    plan = make_plan(home, [corpus])
    home.remember_sources(plan.collections)
    for stage in STAGES:
        run_stage(stage_context(home, "chats", plan.collections["chats"]), stage)
        if stage == stop:
            break
    again = run_without_dagster(home, make_plan(home, [corpus]))
    assert again.manifest.digest == whole.manifest.digest


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
