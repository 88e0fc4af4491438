"""Proposals that settings confirm: only where a trial build answers no worse, the others stay open."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.decide import confirm, undo
from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.store.builds import kept_builds, published
from palimpsest.store.collection_config import ConsolidationConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, read_proposals
from palimpsest_eval.runs.apply_proposals import AppliedProposals, _due, apply_proposals
from tests.command import last_json, run
from tests.small_corpus import build_home, copy_built, write_notes

NOTES = {
    "a.md": "---\ndate: 2026-01-02\n---\nThe harbour cafe in Quern opens at nine.\n",
    "b.md": "---\ndate: 2026-02-02\n---\nThe harbour cafe in Quern opens at nine.\n",
    "c.md": "---\nvalid_until: 2024-05-01\n---\nThe summer fair takes place on the meadow.\n",
    "d.md": "---\nvalid_until: 2024-06-01\n---\nThe old ferry stops at the mill.\n",
    "e.md": "The bridge is 40 metres long.\n",
}
GOLDEN = [
    ("b.md", "opens at nine", "When does the harbour cafe open?"),
    ("c.md", "on the meadow", "Where did the summer fair take place?"),
]
SETTINGS = "consolidation:\n  apply: [duplicate, prune]\n  grace_days: 3\n"


def write_golden(data: Path, *more: tuple[str, str]) -> Path:
    lines = [
        {"id": f"q{n}", "question": "?" if n > 1 else GOLDEN[n][2], "type": "single_fact"}
        | {"evidence": [{"uri": uri, "quote": quote}]}
        for n, (uri, quote) in enumerate([*(g[:2] for g in GOLDEN), *more])
    ]
    path = data / "golden" / "notes.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return data


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_vectors: Path) -> Path:
    base = tmp_path_factory.mktemp("applied")
    write_golden(base / "data")
    corpus = write_notes(base / "corpus", NOTES, user_id="u0")
    with (corpus / "notes" / "collection.yaml").open("a") as file:
        file.write(SETTINGS)
    home = Home(base / "home", shared_vectors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALIMPSEST_DATA", str(base / "data"))
        build_home(home, corpus)
    consolidate(home)
    return base


@pytest.fixture
def home(built: Path, tmp_path: Path, shared_vectors: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PALIMPSEST_DATA", str(built / "data"))
    return copy_built(built, tmp_path, shared_vectors)[0]


def later(days: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days)


def states(home: Home) -> dict[str, str]:
    return {p.description: p.state for p in read_proposals(home.path).values() if p.kind in ("duplicate", "prune")}


def test_nothing_is_applied_before_its_grace_days_are_over_and_the_command_says_what_waits(home, built):
    assert apply_proposals(home, later(2)).confirmed == [] and set(states(home).values()) == {"open"}
    assert len(apply_proposals(home, later(4), dry_run=True).confirmed) == 3 and set(states(home).values()) == {"open"}
    due = run("consolidate", "apply", "--dry-run", "--home", home.path, "--json")
    assert last_json(due)["proposals"] == [] and "0 due, 0 trial builds" in due.stderr
    done = run("consolidate", "apply", "--home", home.path, "--json")
    assert done.returncode == 0 and last_json(done) == {"proposals": [], "refused": {}, "waiting": "", "trials": 0}


class Applied(NamedTuple):
    """A folder with a home in which all due proposals were tried, what was done, and the budget of each trial build."""

    folder: Path
    done: AppliedProposals
    budgets: list[float]


@pytest.fixture(scope="module")
def applied(built: Path, tmp_path_factory: pytest.TempPathFactory, shared_vectors: Path) -> Applied:
    folder, budgets = tmp_path_factory.mktemp("tried"), []
    home = copy_built(built, folder, shared_vectors)[0]

    def make_context(*args):
        budgets.append(args[3])
        return stage_context(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALIMPSEST_DATA", str(built / "data"))
        patch.setattr("palimpsest.pipeline.finish.stage_context", make_context)
        return Applied(folder, apply_proposals(home, later(4), max_cost=0.5), budgets)


@pytest.fixture
def tried(applied: Applied, built: Path, tmp_path: Path, shared_vectors: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of the home in which all due proposals were tried."""
    monkeypatch.setenv("PALIMPSEST_DATA", str(built / "data"))
    return copy_built(applied.folder, tmp_path, shared_vectors)[0]


def test_what_loses_a_golden_answer_is_refused_and_the_others_are_confirmed(tried, applied):
    home, done = tried, applied.done
    assert done.trials > 0 and set(applied.budgets) == {0.5}, "a language model has the budget of a build"
    assert sorted(p.kind for p in done.confirmed) == ["duplicate", "prune"]
    (refused,) = done.refused
    known = read_proposals(home.path)
    assert known[refused].description.startswith("valid until 2024-05-02") and "R@5" in done.refused[refused]
    assert known[refused].state == "open" and known[refused].refused_at
    assert [b.build_id for b in kept_builds(home)] == ["000001"] and published(home).build_id == "000001"
    build_home(home)
    again = apply_proposals(home, later(5))
    assert (again.confirmed, again.refused, again.trials) == ([], {}, 0)
    consolidate(home, everything=True)
    assert read_proposals(home.path)[refused].refused_at, "a later run of consolidate forgets the refusal"
    (confirmed,) = confirm(home, [refused])
    assert confirmed.state == "confirmed", "a person may still confirm it"


def test_changed_sources_wait_for_a_build_and_a_collection_whose_folder_is_gone_has_nothing_confirmed(home, tmp_path):
    changed = tmp_path / "corpus" / "notes" / "f.md"
    changed.write_text("The mill turns at night.\n")
    done = apply_proposals(home, later(4))
    assert not done.confirmed and "palimpsest build" in done.waiting and not kept_builds(home)[1:]
    changed.unlink()
    other = write_notes(tmp_path / "other", {"x.md": "The mill turns at night.\n"}, "mill")
    build_home(home, tmp_path / "corpus", other)
    (tmp_path / "corpus" / "notes").rename(tmp_path / "away")
    done = apply_proposals(home, later(4))
    assert not done.confirmed and done.waiting and set(states(home).values()) == {"open"}


def test_an_interrupted_trial_leaves_nothing_confirmed(home, monkeypatch):
    monkeypatch.setattr("palimpsest_eval.runs.apply_proposals.find_violations", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        apply_proposals(home, later(4))
    assert set(states(home).values()) == {"open"} and not kept_builds(home)[1:] and make_plan(home, None).nothing_to_do


@pytest.mark.parametrize(
    ("questions", "waits_for"), [((("a.md", "not in it"),), "cannot be judged"), (None, "golden questions")]
)
def test_without_golden_questions_or_with_some_that_cannot_be_judged_nothing_is_confirmed(
    home, tmp_path, monkeypatch, questions, waits_for
):
    data = tmp_path / "data" if questions is None else write_golden(tmp_path / "data", *questions)
    monkeypatch.setenv("PALIMPSEST_DATA", str(data))
    build_home(home)
    done = apply_proposals(home, later(4))
    assert (done.confirmed, done.refused, done.trials) == ([], {}, 0) and waits_for in done.waiting
    assert set(states(home).values()) == {"open"}


def test_what_a_person_took_back_is_not_confirmed_again(tried, applied):
    home = tried
    undo(home, {p.proposal_id for p in applied.done.confirmed})
    build_home(home)
    assert apply_proposals(home, later(5)).trials == 0 and "confirmed" not in states(home).values()


def test_names_that_a_person_set_apart_stay_apart(home, monkeypatch):
    names, build = ("b" * 16, "c" * 16), published(home)
    due = Proposal("connection", "similar names", ("notes", "u0", ""), ("a" * 16,), "", 0.6, names=names)
    due = replace(due, created_at=later(-9).isoformat())
    applying = {"consolidation": ConsolidationConfig(apply=["connection"])}
    config = build.config_of("notes").model_copy(update=applying)
    monkeypatch.setattr("palimpsest.store.builds.Build.config_of", lambda *_: config)
    assert _due(build, [due], later(0), Decisions()) == [due]
    assert _due(build, [due], later(0), Decisions(apart=frozenset({names}))) == []
