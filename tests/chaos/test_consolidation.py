"""SIGKILL before each durable step of a consolidation and of what is decided of it: the next run finishes it.

No proposal is lost or doubled, no decision is half done for good, and the next build is that of a home where nothing
was killed.
"""

import multiprocessing
import shutil
from pathlib import Path

import pytest

from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest_eval.runs.judge_build import verify_home
from tests.chaos import child
from tests.consolidation.test_apply import NOTES, SETTINGS, write_golden
from tests.small_corpus import write_notes
from tests.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow
WORK = ("find", "decide", "apply")
STEPS = 12
"""A work with more steps is killed at so many of them, evenly spread, and before its last ones."""


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)


class Folder:
    """A folder with a home, its corpus and its golden questions."""

    def __init__(self, path: Path, processes: multiprocessing.context.ForkServerContext):
        self.path, self.processes = path, processes
        self.home = Home(path / "home")

    def copy(self, to: Path) -> "Folder":
        """Returns a copy, whose home knows its own corpus."""
        copied = Folder(shutil.copytree(self.path, to), self.processes)
        copied.home.remember_sources({"notes": to / "corpus/notes"})
        return copied

    def run(self, work: str, step: int = child.NEVER) -> int | None:
        """Works in a process of its own that is killed at a step; returns its exit code."""
        home, counted, data = self.home.path, self.path / "steps", self.path / "data"
        arguments = {
            "find": (child.find_proposals, home),
            "decide": (child.decide, home),
            "apply": (child.apply_due, home, data),
            "build": (child.build, home, self.path / "corpus", data),
        }[work]
        process = self.processes.Process(target=child.until, args=(step, counted, *arguments))
        process.start()
        process.join(120)
        assert not process.is_alive(), (work, step)
        return process.exitcode

    @property
    def steps(self) -> int:
        """How many steps the last work had."""
        return int((self.path / "steps").read_text())

    @property
    def states(self) -> dict[str, str]:
        """State of each proposal, by its id; each is there once."""
        path = self.home.path / "consolidation/proposals.jsonl"
        found = read_proposals(self.home.path)
        assert not path.exists() or len(path.read_text().splitlines()) == len(found)
        return {i: p.state for i, p in found.items()}

    @property
    def digest(self) -> str:
        """Digest of the published build of a home in which nothing is wrong."""
        build = published(self.home)
        assert build is not None and not verify_home(self.home).violations
        return build.manifest.digest


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, processes: multiprocessing.context.ForkServerContext) -> Folder:
    base = tmp_path_factory.mktemp("consolidated")
    write_golden(base / "data")
    corpus = write_notes(base / "corpus", NOTES, user_id="u0")
    with (corpus / "notes/collection.yaml").open("a") as file:
        file.write(SETTINGS)
    made = Folder(base, processes)
    assert made.run("build") == 0
    return made


def chosen(steps: int) -> list[int]:
    """Returns the steps at which a work is killed."""
    return sorted({*range(0, steps, max(1, steps // STEPS)), *range(max(0, steps - STEPS // 3), steps)})


@pytest.mark.parametrize("work", WORK)
def test_what_is_killed_at_any_step_is_finished_by_the_next_run(built, tmp_path, work):
    whole = built.copy(tmp_path / "whole")
    if work != "find":
        assert whole.run("find") == 0
    before = whole.copy(tmp_path / "before")
    assert whole.run(work) == 0
    steps, ended = whole.steps, whole.states
    assert steps > 1 and len(ended) > 2
    for verb in ("build", "find"):
        assert whole.run(verb) == 0
    for step in chosen(steps):
        killed = before.copy(tmp_path / "killed")
        assert killed.run(work, step) == -9, step
        # What settings confirm is tried on what is built.
        for verb in ("find", "build", work) if work == "apply" else ("find", work):
            assert killed.run(verb) == 0, step
        assert work == "apply" or killed.states == ended, step
        for verb in ("build", "find"):
            assert killed.run(verb) == 0, step
        assert (killed.digest, killed.states) == (whole.digest, whole.states), step
        shutil.rmtree(killed.path)


@pytest.mark.parametrize("work", WORK[1:])
def test_after_a_kill_a_build_has_what_the_proposals_say_and_a_person_can_take_it_back(built, tmp_path, work):
    before = built.copy(tmp_path / "before")
    assert before.run("find") == 0
    whole = before.copy(tmp_path / "whole")
    assert whole.run(work) == 0
    steps = whole.steps
    for verb in ("build", "find"):
        assert whole.run(verb) == 0
    expired = {i for i, state in whole.states.items() if state == "expired"}  # its memories were retired by others
    for step in chosen(steps):
        killed = before.copy(tmp_path / "killed")
        assert killed.run(work, step) == -9, step
        for verb in ("build", "find"):
            assert killed.run(verb) == 0, step
        assert {i for i, state in killed.states.items() if state == "expired"} <= expired, (step, killed.states)
        shutil.rmtree(killed.path)
