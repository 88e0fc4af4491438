"""A small home for the notebooks, and each of them run on it once, in its own folder, as nbmake runs them."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palimpsest.pipeline.finish import publish_build, stage_build
from palimpsest.pipeline.plan import make_plan
from palimpsest.relations.labelers.pairs_file import golden_pairs
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import judge_staged
from palimpsest_eval.testing.fake_judge import judge_reply
from palimpsest_eval.testing.fake_lm_server import FakeLMServer
from palimpsest_eval.testing.fake_programs import extraction_reply, reflection_reply
from tests.small_corpus import TURNS, write_chats

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
TURN = {
    "session_id": "mira-2026-07-01",
    "user_id": "mira",
    "speaker": "Mira",
    "timestamp": "2026-07-01T09:00:00Z",
    "text": "The bakery opens at seven in July.",
}
# What a person would set in the cell of parameters.
PARAMETERS: dict[str, dict[str, object]] = {
    "1_explore_build": {"NODES": 12},
    "2_tune_relation_labels": {"PAIRS": 48, "HELD_OUT": 16},
    "6_try_ragas_prompts": {"QUESTIONS": 3},
    "7_tune_facts": {"MEMORIES": 6},
    "9_tune_reflection": {"SESSIONS": 4},
    "5_memory_health": {"LIMITS": {"undated_share": 0.5}},
}


# What answers over HTTP where a notebook needs a language model.
SERVERS: dict[str, Callable[[], FakeLMServer]] = {
    "2_tune_relation_labels": lambda: FakeLMServer(
        {(r["older"], r["newer"]): r["label"] for r in golden_pairs("train")}, accuracy=0.9
    ),
    "6_try_ragas_prompts": lambda: FakeLMServer({}, reply=judge_reply),
    "7_tune_facts": lambda: FakeLMServer({}, reply=extraction_reply),
    "9_tune_reflection": lambda: FakeLMServer({}, reply=reflection_reply),
}


def build_and_judge(home: Home, corpus: Path) -> None:
    """What `palimpsest build` does, without Dagster and without asking the gate's leave."""
    stage_build(home, make_plan(home, [corpus]))
    judge_staged(home)
    publish_build(home)


@pytest.fixture(scope="session")
def home(tmp_path_factory, shared_vectors) -> Home:
    """The demo's diary, built twice: the second time one of its users wrote one thing more."""
    base = tmp_path_factory.mktemp("notebooks")
    corpus = base / "corpus"
    shutil.copytree(ROOT / "data/corpora/diary", corpus / "diary")
    home = Home(base / "home", shared_vectors)
    build_and_judge(home, corpus)
    with (corpus / "diary/mira/2026-06.jsonl").open("a", encoding="utf-8") as f:
        f.write(json.dumps(TURN) + "\n")
    build_and_judge(home, corpus)
    return home


@pytest.fixture(scope="session")
def bare_home(tmp_path_factory, shared_vectors) -> Home:
    """A collection without golden questions, built twice."""
    base = tmp_path_factory.mktemp("bare")
    corpus, home = write_chats(base / "corpus", TURNS[:3]), Home(base / "home", shared_vectors)
    build_and_judge(home, corpus)
    build_and_judge(home, write_chats(base / "corpus"))
    return home


@pytest.fixture
def copied(home, tmp_path) -> Home:
    """A home of its own, without answers of models."""
    shutil.copytree(home.path, tmp_path / "home", ignore=shutil.ignore_patterns(home.lm_ledger.name + "*", "programs"))
    return replace(home, path=tmp_path / "home")


@pytest.fixture(scope="session")
def ran(home, tmp_path_factory) -> Callable[[str], "NotebookNode"]:
    """Returns a notebook after its run; most of a run is the start of a kernel, so no test asks for a second one."""
    done: dict[str, NotebookNode] = {}

    def run(name: str, **more: object) -> "NotebookNode":
        if name not in done:
            parameters = PARAMETERS.get(name, {}) | more
            with SERVERS[name]() if name in SERVERS else nullcontext() as server:
                named = {"LM": f"stand-in@{server.url}"} if server else {}
                done[name] = run_notebook(name, home, parameters | named)
        return done[name]

    return run


def run_notebook(name: str, home: Home, parameters: dict[str, object]) -> "NotebookNode":
    import nbformat
    from nbmake.nb_run import NotebookRun

    path = ROOT / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
    cell.source += "\n" + "\n".join(f"{k} = {v!r}" for k, v in parameters.items())
    aside = path.with_name(f".{name}.tmp.ipynb")
    nbformat.write(notebook, aside)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PALIMPSEST_HOME", str(home.path))
            patch.setenv("PALIMPSEST_CONFIG", "off")
            patch.delenv("PALIMPSEST_LM", raising=False)
            run = NotebookRun(aside, default_timeout=120).execute()
    finally:
        aside.unlink()
    assert run.error is None, run.error
    return run.nb
