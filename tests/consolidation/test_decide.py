"""Confirm, reject and undo: what the next build makes of them."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.decide import confirm, reject, undo
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.request.types import Scope
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest_eval.runs.judge_build import verify_home
from tests.command import last_json, run
from tests.small_corpus import build_home, built_notes, copy_built, write_chats

NOTES = {
    "a.md": "The bridge is 40 metres long.\n",
    "b.md": "The bridge is 55 metres long.\n",
    "c.md": "---\ndate: 2026-01-02\n---\nThe harbour cafe in Quern opens at nine.\n",
    "d.md": "---\ndate: 2026-02-02\n---\nThe harbour cafe in Quern opens at nine.\n",
    "e.md": "---\nvalid_until: 2024-05-01\n---\nThe summer fair takes place on the meadow.\n",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("decided")
    consolidate(built_notes(base, None, NOTES, user_id="u0")[0])
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> tuple[Home, Path]:
    return copy_built(built, tmp_path)


def build_again(home: Home, corpus: Path) -> None:
    build_home(home, corpus)
    assert not verify_home(home).violations


def command(home: Home, verb: str, *args: object):
    return run("consolidate", verb, *args, "--home", home.path)


def proposal(home: Home, kind: str):
    return next(p for p in read_proposals(home.path).values() if p.kind == kind)


def served(home: Home, text: str, **filters) -> set[str]:
    with open_home(home.path) as reader:
        return {m.text.split("\n")[-1] for m in reader.search(text, Scope("notes", "u0"), **filters).memories}


def latest(home: Home) -> dict[str, bool]:
    return dict(published(home).tables(["versions"])["versions"].select("memory_id", "is_latest").iter_rows())


def test_a_confirmed_contradiction_retires_the_memory_that_is_not_kept_and_undo_restores_it(made):
    home, corpus = made
    p = proposal(home, "contradiction")
    unsaid = command(home, "confirm", p.proposal_id)
    assert unsaid.returncode == 2 and "--keep" in unsaid.stderr
    keep = p.memory_ids[0]
    command(home, "confirm", p.proposal_id, "--keep", keep)
    build_again(home, corpus)
    versions = published(home).tables(["versions"])["versions"]
    retired = versions.filter(pl.col("memory_id") == p.memory_ids[1]).row(0, named=True)
    assert not retired["is_latest"] and retired["superseded_by"] == keep
    (listed,) = last_json(command(home, "review", "--state", "applied", "--json"))["proposals"]
    assert listed["proposal_id"] == p.proposal_id and listed["keep"] == keep
    command(home, "undo", p.proposal_id)
    build_again(home, corpus)
    assert latest(home)[p.memory_ids[1]] and proposal(home, "contradiction").state == "open"


def test_a_confirmed_prune_is_served_no_more_and_a_confirmed_confidence_is_what_readers_see(made):
    home, corpus = made
    assert make_plan(home, [corpus]).nothing_to_do
    p, confidence = proposal(home, "prune"), proposal(home, "confidence")
    assert served(home, "summer fair on the meadow") >= {"The summer fair takes place on the meadow."}
    command(home, "confirm", p.proposal_id)
    assert not make_plan(home, [corpus]).nothing_to_do
    command(home, "confirm", confidence.proposal_id)
    build_again(home, corpus)
    assert not any("summer fair" in t for t in served(home, "summer fair on the meadow", history=True))
    assert p.drop in latest(home), "it is still in the tables"
    with open_home(home.path) as reader:
        found = {m.memory_id: m.confidence for m in reader.search("bridge", Scope("notes", "u0")).memories}
    assert found[confidence.memory_ids[0]] == confidence.value == 0.9
    command(home, "undo", p.proposal_id)
    build_again(home, corpus)
    assert any("summer fair" in t for t in served(home, "summer fair on the meadow"))


def test_a_confirmed_duplicate_keeps_the_newer_one_and_goes_back_when_that_is_deleted(made):
    home, corpus = made
    p = proposal(home, "duplicate")
    command(home, "confirm", p.proposal_id)
    build_again(home, corpus)
    assert latest(home)[p.keep] and not latest(home)[p.drop]
    delete(home, memories=[p.keep])
    build_again(home, corpus)
    assert latest(home)[p.drop] and p.keep not in home.decisions.read_text()


def test_a_rejected_proposal_is_not_proposed_again_until_undone(made):
    home, _ = made
    p = proposal(home, "duplicate")
    command(home, "reject", p.proposal_id)
    assert p.proposal_id not in {q.proposal_id for q in consolidate(home, everything=True).proposals}
    again = command(home, "confirm", p.proposal_id)
    assert again.returncode == 2 and "it is rejected" in again.stderr
    unknown = command(home, "confirm", "0" * 16)
    assert unknown.returncode == 2 and "no such proposal" in unknown.stderr
    command(home, "undo", p.proposal_id)
    assert p.proposal_id in {q.proposal_id for q in consolidate(home, everything=True).proposals}


def test_what_a_person_rejected_is_disputed_no_more_until_undone(tmp_path):
    older, newer = "Our queue runs on Redis.", "The queue went over to Kafka on Friday, no regrets so far."
    dated = {"a.md": f"---\ndate: 2026-01-05\n---\n{older}\n", "b.md": f"---\ndate: 2026-03-10\n---\n{newer}\n"}
    home, corpus = built_notes(tmp_path, None, dated, user_id="u0")

    def disputed() -> bool:
        found = published(home).tables(["relations"])["relations"]
        return bool((found["consequence"] == "disputed").any())

    assert disputed()
    consolidate(home)
    p = proposal(home, "contradiction")
    reject(home, [p.proposal_id])
    build_again(home, corpus)
    assert not disputed()
    undo(home, [p.proposal_id])
    build_again(home, corpus)
    assert disputed()


TURNS = [
    ("s1", "ann", "Ann", "Mira Quandt plays the cello at the harbour festival.", "2026-01-01T09:00:00Z"),
    ("s2", "ann", "Ann", "The landlord of the workshop is Mira Quandt.", "2026-02-01T09:00:00Z"),
    ("s1", "ann", "Ann", "The parcels for Ostrava Metals wait in the hall.", "2026-01-01T09:01:00Z"),
    ("s2", "ann", "Ann", "Ostrawa Metals paid the second invoice.", "2026-02-01T09:01:00Z"),
    ("s1", "ann", "Ann", "I love rare stamps.", "2026-01-01T09:02:00Z"),
    ("s2", "ann", "Ann", "I love old maps.", "2026-02-01T09:02:00Z"),
    ("s3", "ann", "Ann", "I love tin toys.", "2026-03-01T09:02:00Z"),
]


def test_sessions_share_a_name_names_may_be_one_and_values_repeat(tmp_path, shared_vectors):
    home, corpus = Home(tmp_path / "home", shared_vectors), write_chats(tmp_path / "corpus", TURNS)
    build_home(home, corpus)
    texts = dict(published(home).tables(["memories"])["memories"].select("memory_id", "text").iter_rows())
    found = {(p.kind, p.why): p for p in consolidate(home).proposals}
    shared = found["connection", "shared name"]
    assert "Mira Quandt" in shared.description and all("Mira Quandt" in texts[i] for i in shared.memory_ids)
    note = found["note", "repeated slot"]
    assert {texts[i] for i in note.memory_ids} == {t[3] for t in TURNS if "I love" in t[3]}
    assert all(value in note.description for value in ("stamps", "old maps", "tin toys"))
    names = found["connection", "similar names"]
    confirm(home, [names.proposal_id])
    assert len(read_decisions(home.decisions).same) == 1
    build_home(home, corpus)
    entities = published(home).tables(["entities"])["entities"]
    assert entities["name"].str.contains("Metals").sum() == 1
    undo(home, [names.proposal_id])
    assert not read_decisions(home.decisions).same
