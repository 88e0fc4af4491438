"""SIGKILL before each durable step of a build: the next one ends as one that was never killed."""

import multiprocessing
import shutil
from pathlib import Path

import pytest

from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import find_violations
from tests.chaos import child
from tests.small_corpus import TURNS, write_chats, write_notes
from tests.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow
PARTS = 12
"""The steps are spread over so many tests."""

ADDED = ("s4", "ann", "Ann", "The deadline of project Heron is now 2 May.", "2026-04-01T09:00:00Z")
SETTINGS = "name: chats\ndescription: small talk\nunit: turn\nform: [turn, reflection]\nuser_id: ann\n"


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published build of two collections, then an edit, an addition and a removal that no build has seen."""
    folder = tmp_path_factory.mktemp("changed")
    corpus = write_notes(
        write_chats(folder / "corpus"), {"a.md": "# Heron\n\nHeron is a project.\n", "b.md": "Cats.\n"}
    )
    (corpus / "chats/collection.yaml").write_text(SETTINGS)
    context = multiprocessing.get_context("spawn")
    first = context.Process(target=child.build, args=(folder / "home", corpus))
    first.start()
    first.join()
    assert first.exitcode == 0
    write_chats(corpus, [*TURNS[1:], ADDED])
    (corpus / "chats/collection.yaml").write_text(SETTINGS)
    (corpus / "notes/a.md").write_text("# Heron\n\nHeron is a large project.\n")
    (corpus / "notes/b.md").unlink()
    return folder


def run_until(processes: multiprocessing.context.ForkServerContext, step: int, folder: Path) -> int | None:
    """Runs a build until a step; returns the exit code of its process."""
    arguments = (step, folder / "home", folder / "corpus", folder / "steps")
    process = processes.Process(target=child.build_until, args=arguments)
    process.start()
    process.join(120)
    assert not process.is_alive(), step
    return process.exitcode


@pytest.fixture(scope="module")
def whole(
    changed: Path, tmp_path_factory: pytest.TempPathFactory, processes: multiprocessing.context.ForkServerContext
) -> tuple[str, int]:
    """Digest of the build that nothing stops, and how many steps it has."""
    folder = shutil.copytree(changed, tmp_path_factory.mktemp("whole"), dirs_exist_ok=True)
    assert run_until(processes, child.NEVER, folder) == 0
    build = published(Home(folder / "home"))
    assert build is not None
    return build.manifest.digest, int((folder / "steps").read_text())


@pytest.mark.parametrize("part", range(PARTS))
def test_a_build_killed_at_any_step_is_finished_by_the_next(changed, whole, processes, part, tmp_path):
    digest, steps = whole
    before = published(Home(changed / "home"))
    for step in range(part, steps, PARTS):
        folder = shutil.copytree(changed, tmp_path / str(step))
        assert run_until(processes, step, folder) == -9, step
        home = Home(folder / "home")
        seen = published(home)
        assert seen is not None and seen.manifest.digest in (before.manifest.digest, digest), step
        child.build(home.path, folder / "corpus")
        after = published(home)
        assert after is not None and after.manifest.digest == digest, step
        assert find_violations(home, after) == [], step
        shutil.rmtree(folder)


def test_there_are_steps_in_every_stage(whole):
    assert whole[1] > 60
