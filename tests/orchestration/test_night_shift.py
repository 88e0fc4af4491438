"""When the night shift runs, and what its job does."""

import datetime as dt
import os
from types import SimpleNamespace

import dagster as dg
import pytest

from palimpsest.orchestration.resources import HomeResource
from palimpsest.store.proposals import read_proposals
from tests.export.made import with_own_vectors
from tests.small_corpus import built_notes, write_notes

NIGHT = dt.datetime(2026, 6, 1, 3, tzinfo=dt.UTC)


@pytest.fixture
def built(tmp_path, shared_vectors):
    notes = {"a.md": "The bridge is 40 metres long.\n", "b.md": "The bridge is 55 metres long.\n"}
    home, corpus = built_notes(tmp_path, shared_vectors, notes)
    return HomeResource(path=str(home.path), embeddings_path=str(shared_vectors)), corpus


def test_the_ops_write_proposals_apply_what_settings_name_and_keep_house(built, tmp_path):
    from palimpsest.orchestration.code_location import defs

    resource, _ = built
    home = with_own_vectors(resource.home())
    left = home.log / ".left.tmp"
    left.write_text("x")
    os.utime(left, (0, 0))
    own = {"home": HomeResource(path=str(home.path))}
    with dg.instance_for_test() as instance:
        done = defs.resolve_job_def("consolidate_home").execute_in_process(instance=instance, resources=own)
        said = [log.user_message for log in instance.all_logs(done.run_id)]
    (found,) = (e.step_materialization_data.materialization for e in done.all_events if e.is_step_materialization)
    assert found.asset_key == dg.AssetKey("proposals") and "| contradiction | 1 |" in found.metadata["kinds"].value
    assert found.metadata["open"].value == len(read_proposals(home.path))
    assert "0 proposals confirmed, 0 refused, 0 trials" in said, "no setting names a kind"
    assert any("leftovers: 1" in line for line in said) and not left.exists()
    assert any("no backup" in line for line in said)


def test_a_night_without_a_rebuild_consolidates_and_one_with_a_rebuild_waits_for_it(built, monkeypatch):
    from palimpsest.orchestration.publishing import consolidate_after_publishing, nightly_consolidation

    resource, corpus = built
    with dg.instance_for_test() as instance:

        def tick():
            with dg.build_schedule_context(instance, NIGHT, {"home": resource}) as context:
                return nightly_consolidation(context)

        assert isinstance(tick(), dg.RunRequest) and nightly_consolidation.cron_schedule == "0 3 * * *"
        write_notes(corpus, {"c.md": "The harbour has two cranes.\n"})
        assert isinstance(tick(), dg.SkipReason)
    body = consolidate_after_publishing._run_status_sensor_fn
    for batch, by, usual, always in (
        ("nightly-1", "nightly", dg.RunRequest, dg.RunRequest),
        ("folders-1", "folders", dg.SkipReason, dg.RunRequest),
        ("hand-1", "cli", dg.SkipReason, dg.SkipReason),  # `palimpsest build` consolidates by itself
    ):
        tags = {"palimpsest/batch": batch, "palimpsest/by": by}
        run = SimpleNamespace(tags=tags, run_id="1", asset_selection=None)
        for setting, kind in (("nightly", usual), ("always", always)):
            monkeypatch.setenv("PALIMPSEST_CONSOLIDATE", setting)
            assert isinstance(body(SimpleNamespace(dagster_run=run)), kind)
