"""A small home that was built and judged for real: two users, one fact that changed, questions about both."""

import json
import shutil
from pathlib import Path

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home
from tests.small_corpus import write_chats

QUESTIONS = [
    {
        "id": "q-deadline", "question": "When is the deadline of project Heron?", "type": "updated", "user": "ann",
        "evidence": [{"uri": "turns.jsonl#s2", "quote": "The deadline of project Heron is now 20 April"}],
        "stale": [{"uri": "turns.jsonl#s1", "quote": "The deadline of project Heron is 12 March"}],
    },
    {
        "id": "q-then", "question": "When is the deadline of project Heron?", "type": "temporal", "user": "ann",
        "as_of": "2026-02-10",
        "evidence": [{"uri": "turns.jsonl#s1", "quote": "The deadline of project Heron is 12 March"}],
    },
    {
        "id": "q-tea", "question": "What does Ann drink in the morning?", "type": "single", "user": "ann",
        "evidence": [{"uri": "turns.jsonl#s1", "quote": "I prefer tea in the morning."}],
    },
    {
        "id": "q-locker", "question": "What is my locker code?", "type": "single", "user": "bob",
        "evidence": [{"uri": "turns.jsonl#s3", "quote": "My locker code is quixotic-77."}],
    },
    {"id": "q-none", "question": "Which car do I drive?", "type": "unanswerable", "user": "bob", "evidence": []},
]  # fmt: skip
RELATIONS = [
    {
        "id": "r-1", "collection": "chats", "user": "ann", "label": "UPDATE", "fact": "deadline",
        "newer": {"uri": "turns.jsonl#s2", "quote": "The deadline of project Heron is now 20 April"},
        "older": [{"uri": "turns.jsonl#s1", "quote": "The deadline of project Heron is 12 March"}],
    },
]  # fmt: skip


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def make_home(base: Path, vectors: Path, questions=QUESTIONS, relations=RELATIONS, **corpus) -> Home:
    """Builds the home of `base`; golden set and register lie in `base/data`, for those who work in `base`."""
    write_lines(base / "data/golden/chats.jsonl", questions)
    write_lines(base / "data/golden/relations.jsonl", relations)
    home = Home(base / "home", vectors)
    run_without_dagster(home, make_plan(home, [write_chats(base / "corpus", **corpus)]))
    return home


@pytest.fixture(scope="session")
def made(tmp_path_factory, shared_vectors) -> Home:
    return make_home(tmp_path_factory.mktemp("judged"), shared_vectors)


@pytest.fixture
def judged_home(made, monkeypatch) -> Home:
    """The home, with its folder as the working directory, so that its golden set is the one that is read."""
    monkeypatch.chdir(made.path.parent)
    return made


@pytest.fixture
def copied_home(judged_home, tmp_path) -> Home:
    """A copy of the home with the vectors of all, for a test that changes it."""
    return Home(shutil.copytree(judged_home.path, tmp_path / "home"), judged_home.embeddings)
