"""Figures of collections and months, hand-counted on a small corpus."""

import datetime as dt
from dataclasses import replace

import dagster as dg
import pytest

from palimpsest.orchestration.resources import HomeResource
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest_eval.golden.questions import JUDGED_TABLES
from palimpsest_eval.runs.home_metrics import MonthFigures, month_figures
from palimpsest_eval.runs.judge_build import run_collection
from tests.eval.judged import make_home, write_lines

FEBRUARY, MARCH = dt.date(2026, 2, 1), dt.date(2026, 3, 1)


@pytest.fixture
def judged(tmp_path, shared_vectors, monkeypatch):
    """A home whose published build has what the gate measured of its golden questions."""
    monkeypatch.chdir(tmp_path)
    home = make_home(tmp_path, shared_vectors)
    build = published(home)
    run = run_collection(build, "chats", build.tables(JUDGED_TABLES), read_decisions(home.decisions))
    build.write_manifest(replace(build.manifest, golden_runs={"chats": run.to_json()}))
    return home


def test_each_month_has_its_memories_and_the_recall_of_the_questions_about_them(judged, tmp_path):
    build = published(judged)
    wanted = {FEBRUARY: (4, 3, 1, 3, 1.0), MARCH: (1, 1, 0, 1, 1.0)}
    assert month_figures(build, "chats") == {month: MonthFigures(*numbers) for month, numbers in wanted.items()}
    check_asset(judged)
    question = {"id": "q", "question": "Who?", "type": "unanswerable", "evidence": []}
    write_lines(tmp_path / "data/golden/chats.jsonl", [question])
    changed = month_figures(published(judged), "chats")[FEBRUARY]
    assert changed == MonthFigures(4, 3, 1, 0, None), "questions that changed since the build was judged do not count"


def check_asset(judged: Home) -> None:
    """One run has a row for each month that has memories, and no partition."""
    from palimpsest.orchestration.build_assets import month_figures as asset

    resources = {"home": HomeResource(path=str(judged.path), embeddings_path=str(judged.embeddings))}
    with dg.instance_for_test() as instance:
        done = dg.materialize([asset], selection=[asset], instance=instance, resources=resources)
    (event,) = done.asset_materializations_for_node("month_figures")
    rows = event.metadata["months"].value.splitlines()[2:]
    assert rows == ["| chats | 2026-02 | 4 | 3 | 1 | 3 | 1.000 |", "| chats | 2026-03 | 1 | 1 | 0 | 1 | 1.000 |"]
