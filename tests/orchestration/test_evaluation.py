"""Suites as partitions, the sensor on relation programs, and the alert when the gate closes."""

import datetime as dt
import os

import dagster as dg
import pytest

from palimpsest.orchestration.resources import HomeResource
from palimpsest.store.builds import staged
from palimpsest.store.home import Home
from tests.eval.judged import QUESTIONS, make_home, write_lines
from tests.orchestration.test_alerts import Hook
from tests.small_corpus import TURNS, write_chats


@pytest.fixture(scope="module")
def project(tmp_path_factory, shared_vectors):
    """A project's folder: data with corpus and golden set, a home that was built from it."""
    base = tmp_path_factory.mktemp("project")
    (base / "data/corpora").mkdir(parents=True)
    (base / "corpus").symlink_to(base / "data/corpora")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        return base, make_home(base, shared_vectors)


@pytest.fixture
def at(project, monkeypatch):
    monkeypatch.chdir(project[0])
    return project


def test_golden_sets_and_the_suites_of_the_environment_are_partitions(at, tmp_path, monkeypatch):
    from palimpsest.orchestration.published_assets import known_suites

    assert list(known_suites()) == ["golden-chats"]
    (tmp_path / "beir").mkdir()
    (tmp_path / "beir/queries.jsonl").touch()
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv("PALIMPSEST_SUITES", str(tmp_path))
    assert list(known_suites()) == ["golden-chats", "beir"]


@pytest.mark.slow
def test_a_partition_reports_the_same_numbers_in_every_run(at):
    from palimpsest.orchestration.published_assets import suite_metrics

    _, home = at
    resources = {"home": HomeResource(path=str(home.path), embeddings_path=str(home.embeddings))}
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions("suites", ["golden-chats", "gone"])
        options = {"resources": resources, "instance": instance, "raise_on_error": False}
        metadata = []
        for _ in range(2):
            done = dg.materialize([suite_metrics], partition_key="golden-chats", **options)
            (event,) = done.asset_materializations_for_node("suite_metrics")
            metadata.append({k: v.value for k, v in event.metadata.items()})
        gone = dg.materialize([suite_metrics], partition_key="gone", **options)
    assert (metadata[0]["R@5"], metadata[0]["queries"]) == (1.0, 4)
    assert "| updated | 1 | 1.000 | 1.000 |" in metadata[0]["by_type"]
    numbers = [{k for k, v in t.items() if isinstance(v, int | float)} for t in metadata]
    assert numbers[0] == numbers[1] == {"R@5", "nDCG@10", "packed_recall", "p95_ms", "queries", "memories"}
    assert "| citation_validity | 1.000 |" in metadata[0]["metrics"]
    assert not gone.success


def test_the_weekly_schedule_asks_for_every_suite(at):
    from palimpsest.orchestration.automation import weekly_evaluation

    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(instance, dt.datetime(2026, 7, 5, 4, tzinfo=dt.UTC))
        assert [r.partition_key for r in weekly_evaluation(context)] == ["golden-chats"]
        assert instance.get_dynamic_partitions("suites") == ["golden-chats"]


def test_a_new_relation_program_runs_the_gate_once(at):
    from palimpsest.orchestration.automation import new_relation_program

    base, home = at
    resource = HomeResource(path=str(home.path), embeddings_path=str(home.embeddings))
    programs = base / "data/programs/relation"

    def look(cursor, instance):
        with dg.build_sensor_context(instance=instance, cursor=cursor, resources={"home": resource}) as context:
            found = [r for r in new_relation_program(context) if isinstance(r, dg.RunRequest)]
            return [(r.job_name, r.partition_key) for r in found], context.cursor

    with dg.instance_for_test() as instance:
        assert look(None, instance) == ([], None)
        programs.mkdir(parents=True)
        (programs / "abc.json").write_text("{}")
        wanted, cursor = look(None, instance)
        assert wanted == [("evaluate_suite", "golden-chats")] and cursor
        assert look(cursor, instance) == ([], cursor)
        (programs / "abc.json").write_text('{"a": 1}')
        write_chats(base / "data/corpora", [*TURNS, ("s9", "ann", "Ann", "Tea is out.", "2026-05-01T09:00:00Z")])
        wanted, later = look(cursor, instance)
        assert wanted == [("rebuild", "chats")] and later != cursor, "a build of what changed ends in the gate"
        write_chats(base / "data/corpora", TURNS)


def test_the_webhook_hears_of_a_gate_that_closed_and_of_no_other_failure(tmp_path, shared_vectors, monkeypatch):
    from palimpsest.orchestration.run import build

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", str(tmp_path)))
    write_lines(tmp_path / "data/golden/chats.jsonl", QUESTIONS)
    home = Home(tmp_path / "home", shared_vectors)
    with Hook(500, 200) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        done = build(home, [write_chats(tmp_path / "corpus", TURNS)])
    assert not done.published and done.gate["status"] == "failed"
    assert [m["event"] for _, m in hook.got] == ["gate_closed"] * 2
    assert hook.got[0][1]["build"] == "000001" and "no baseline" in hook.got[0][1]["text"]
    assert (staged(home).path / "report.html").stat().st_size > 5000
