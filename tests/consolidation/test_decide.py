"""Confirm, reject and undo: what the next build makes of them."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.decide import reject, undo
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.request.types import Scope
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest_eval.runs.judge_build import verify_home
from tests.command import last_json, run
from tests.small_corpus import build_home, copy_built, write_notes

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
    corpus = write_notes(base / "corpus", NOTES, user_id="u0")
    build_home(Home(base / "home"), corpus)
    consolidate(Home(base / "home"))
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> tuple[Home, Path]:
    return copy_built(built, tmp_path)


def build_again(home: Home, corpus: Path) -> None:
    build_home(home, corpus)
    assert not verify_home(home).violations


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
    unsaid = run("consolidate", "confirm", p.proposal_id, "--home", home.path)
    assert unsaid.returncode == 2 and "--keep" in unsaid.stderr
    keep = p.memory_ids[0]
    run("consolidate", "confirm", p.proposal_id, "--keep", keep, "--home", home.path)
    build_again(home, corpus)
    versions = published(home).tables(["versions"])["versions"]
    retired = versions.filter(pl.col("memory_id") == p.memory_ids[1]).row(0, named=True)
    assert not retired["is_latest"] and retired["superseded_by"] == keep
    (listed,) = last_json(run("consolidate", "review", "--state", "applied", "--home", home.path, "--json"))[
        "proposals"
    ]
    assert listed["proposal_id"] == p.proposal_id and listed["keep"] == keep
    run("consolidate", "undo", p.proposal_id, "--home", home.path)
    build_again(home, corpus)
    assert latest(home)[p.memory_ids[1]] and proposal(home, "contradiction").state == "open"


def test_a_confirmed_prune_is_served_no_more_and_is_still_in_the_tables(made):
    home, corpus = made
    p = proposal(home, "prune")
    assert served(home, "summer fair on the meadow") >= {"The summer fair takes place on the meadow."}
    run("consolidate", "confirm", p.proposal_id, "--home", home.path)
    build_again(home, corpus)
    assert not any("summer fair" in t for t in served(home, "summer fair on the meadow", history=True))
    assert p.drop in latest(home)
    run("consolidate", "undo", p.proposal_id, "--home", home.path)
    build_again(home, corpus)
    assert any("summer fair" in t for t in served(home, "summer fair on the meadow"))


def test_a_confirmed_duplicate_keeps_the_newer_one_and_goes_back_when_that_is_deleted(made):
    home, corpus = made
    p = proposal(home, "duplicate")
    run("consolidate", "confirm", p.proposal_id, "--home", home.path)
    build_again(home, corpus)
    assert latest(home)[p.keep] and not latest(home)[p.drop]
    delete(home, memories=[p.keep])
    build_again(home, corpus)
    assert latest(home)[p.drop] and p.keep not in home.decisions.read_text()


def test_a_confirmed_confidence_is_what_readers_see(made):
    home, corpus = made
    p = proposal(home, "confidence")
    run("consolidate", "confirm", p.proposal_id, "--home", home.path)
    build_again(home, corpus)
    with open_home(home.path) as reader:
        found = {m.memory_id: m.confidence for m in reader.search("bridge", Scope("notes", "u0")).memories}
    assert found[p.memory_ids[0]] == p.value == 0.9


def test_a_rejected_proposal_is_not_proposed_again_until_undone(made):
    home, _ = made
    p = proposal(home, "duplicate")
    run("consolidate", "reject", p.proposal_id, "--home", home.path)
    assert p.proposal_id not in {q.proposal_id for q in consolidate(home, everything=True).proposals}
    again = run("consolidate", "confirm", p.proposal_id, "--home", home.path)
    assert again.returncode == 2 and "it is rejected" in again.stderr
    run("consolidate", "undo", p.proposal_id, "--home", home.path)
    assert p.proposal_id in {q.proposal_id for q in consolidate(home, everything=True).proposals}


def test_a_build_after_nothing_was_decided_does_no_work(made):
    home, corpus = made
    assert make_plan(home, [corpus]).nothing_to_do
    run("consolidate", "confirm", proposal(home, "prune").proposal_id, "--home", home.path)
    assert not make_plan(home, [corpus]).nothing_to_do


def test_an_unknown_proposal_is_one_line(made):
    done = run("consolidate", "confirm", "0000000000000000", "--home", made[0].path)
    assert done.returncode == 2 and "no such proposal" in done.stderr


def test_what_a_person_rejected_is_disputed_no_more_until_undone(tmp_path):
    older, newer = "Our queue runs on Redis.", "We moved the queue over to Kafka on Friday, no regrets so far."
    dated = {"a.md": f"---\ndate: 2026-01-05\n---\n{older}\n", "b.md": f"---\ndate: 2026-03-10\n---\n{newer}\n"}
    corpus, home = write_notes(tmp_path / "corpus", dated, user_id="u0"), Home(tmp_path / "home")
    build_home(home, corpus)

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
