"""What the pages of runs show: why a gate closed, runs of the command line, and what is skipped."""

import os

import dagster as dg
import pytest

from palimpsest.orchestration.automation import publishes
from palimpsest.orchestration.resources import HomeResource
from palimpsest.store.builds import published, staged
from palimpsest.store.home import Home
from tests.eval.judged import QUESTIONS, write_lines
from tests.small_corpus import TURNS, write_chats


@pytest.fixture(scope="module")
def closed(tmp_path_factory, shared_vectors):
    """A home whose gate closed on its first build, for want of a baseline, and its Dagster instance."""
    from palimpsest.orchestration.run import build

    base = tmp_path_factory.mktemp("closed")
    write_lines(base / "data/golden/chats.jsonl", QUESTIONS)
    home = Home(base / "home", shared_vectors)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        patch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", ""))
        build(home, [write_chats(base / "corpus", TURNS)])
        patch.setenv("DAGSTER_HOME", str(home.dagster))
        with dg.DagsterInstance.get() as instance:
            yield home, instance


def failure_of(events):
    (event,) = (e for e in events if e and e.is_step_failure)
    return event.step_failure_data.user_failure_data


def materialize(home, *names, instance=None):
    from palimpsest.orchestration.code_location import defs

    assets = [a for a in defs.assets if isinstance(a, dg.AssetsDefinition) and a.key.to_user_string() in names]
    resources = {"home": HomeResource(path=str(home.path), embeddings_path=str(home.embeddings))}
    return dg.materialize(assets, resources=resources, instance=instance, raise_on_error=False)


def test_runs_of_the_command_line_appear_on_the_pages_of_their_jobs_with_the_reasons_of_a_failed_gate(closed):
    home, instance = closed
    runs = instance.get_runs()
    assert {r.job_name for r in runs} == {"rebuild"}
    # The UI asks for a job's runs by its repository and location.
    assert {r.tags[".dagster/repository"] for r in runs} == {"__repository__@palimpsest.definitions"}
    (run,) = (r for r in runs if publishes(r))
    failure = failure_of(log.dagster_event for log in instance.all_logs(run.run_id))
    assert failure.description.startswith("build 000001 is staged, not published: chats: no baseline")
    assert failure.metadata["report_file"].value == str(staged(home).path / "report.html")
    shown = instance.get_latest_materialization_event(dg.AssetKey("retrieval_report")).asset_materialization.metadata
    assert next(iter(shown)) == "verdict" and shown["verdict"].value.startswith("failed: chats: no baseline")
    assert shown["details"].value.startswith("## ") and len(shown) <= 8
    key = dg.AssetCheckKey(dg.AssetKey("retrieval_report"), "gate")
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    check = record.event.dagster_event.asset_check_evaluation_data
    assert not check.passed and "no baseline" in check.description
    assert set(check.metadata) == {"verdict", "details", "report_file"}


def test_published_alone_says_why_it_cannot_be_materialized_and_no_graph_is_loaded_without_a_server(closed, tmp_path):
    home, _ = closed
    refused = failure_of(materialize(home, "published").all_events).description
    assert "staged, not published: chats: no baseline" in refused
    assert published(home) is None
    empty = failure_of(materialize(Home(tmp_path / "empty"), "published").all_events).description
    assert "no finished build is staged, so there is nothing to publish (nothing was published yet)" in empty
    done = materialize(home, "neo4j_graph")
    assert done.success
    (skipped,) = done.asset_materializations_for_node("neo4j_graph")
    assert str(skipped.metadata["how"].value).startswith("skipped: neo4j: no server") and len(skipped.metadata) == 1


def test_a_night_without_changes_confirms_the_published_build(tmp_path, monkeypatch):
    from palimpsest.orchestration.automation import _confirm_published

    home = Home(tmp_path)
    with dg.instance_for_test() as instance:
        _confirm_published(instance, home)
        assert instance.get_latest_materialization_event(dg.AssetKey("published")) is None
        (home.builds / "000004").mkdir(parents=True)
        (tmp_path / "published.json").write_text('{"build": "000004"}')
        _confirm_published(instance, home)
        event = instance.get_latest_materialization_event(dg.AssetKey("published"))
        assert event.asset_materialization.metadata["build"].value == "000004"
