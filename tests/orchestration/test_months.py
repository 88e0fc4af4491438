"""Figures of collections and months: hand-counted on a small corpus, and the partitions that they have."""

import datetime as dt
from dataclasses import replace

import dagster as dg
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.build_assets import collection_months, months
from palimpsest.orchestration.resources import HomeResource
from palimpsest.orchestration.schedule import first_month
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest_eval.golden.questions import JUDGED_TABLES
from palimpsest_eval.runs.home_metrics import MonthFigures, month_figures
from palimpsest_eval.runs.judge_build import run_collection
from tests.eval.judged import make_home, write_lines
from tests.small_corpus import TURNS

FEBRUARY, MARCH, APRIL = (dt.date(2026, month, 1) for month in (2, 3, 4))


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
    figures = [month_figures(build, "chats", month) for month in (FEBRUARY, MARCH, APRIL)]
    wanted = [(4, 3, 1, 3, 1.0), (1, 1, 0, 1, 1.0), (0, 0, 0, 0, None)]
    assert figures == [MonthFigures(*numbers) for numbers in wanted]
    check_partitions(judged)
    question = {"id": "q", "question": "Who?", "type": "unanswerable", "evidence": []}
    write_lines(tmp_path / "data/golden/chats.jsonl", [question])
    changed = month_figures(published(judged), "chats", FEBRUARY)
    assert changed == MonthFigures(4, 3, 1, 0, None), "questions that changed since the build was judged do not count"


def check_partitions(judged: Home) -> None:
    """A partition is a row of figures, and an unknown collection is named."""
    from palimpsest.orchestration.build_assets import month_figures as asset

    resources = {"home": HomeResource(path=str(judged.path), embeddings_path=str(judged.embeddings))}
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("collections", ["chats", "gone"])

        def run(collection: str) -> dg.ExecuteInProcessResult:
            key = dg.MultiPartitionKey({"collection": collection, "month": "2026-02"})
            options = {"instance": instance, "resources": resources, "raise_on_error": False}
            return dg.materialize([asset], partition_key=key, selection=[asset], **options)

        done, gone = run("chats"), run("gone")
        tags = instance.get_run_by_id(done.run_id).tags
    (event,) = done.asset_materializations_for_node("month_figures")
    figures = {name: value.value for name, value in event.metadata.items()}
    assert figures["dagster/row_count"] == len([t for t in TURNS if t[4].startswith("2026-02")])
    assert (figures["latest"], figures["superseded"], figures["questions"], figures["R@5"]) == (3, 1, 3, 1.0)
    assert (tags["palimpsest/collection"], tags["palimpsest/build"]) == ("chats", figures["build"])
    (failure,) = (e for e in gone.all_events if e.is_step_failure)
    assert "collection gone: nothing is published of it" in failure.step_failure_data.error.cause.message


def test_partitions_are_each_collection_and_each_month_up_to_this_one(monkeypatch):
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("collections", ["chats", "notes"])
        keys = collection_months.get_partition_keys(dynamic_partitions_store=instance)
    known = months.get_partition_keys()
    assert known[0] == "2015-01" and known[-1] == f"{dt.datetime.now(dt.UTC):%Y-%m}"
    assert len(keys) == 2 * len(known) and "notes|2020-05" in keys
    for wrong in ("soon", "2999-01", "2020-13"):
        monkeypatch.setenv("PALIMPSEST_FIRST_MONTH", wrong)
        with pytest.raises(PalimpsestError, match=f"PALIMPSEST_FIRST_MONTH={wrong}: write a past month"):
            first_month()
