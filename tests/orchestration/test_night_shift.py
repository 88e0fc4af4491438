"""When the night shift runs, and what its asset says."""

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


def test_the_assets_write_proposals_apply_what_settings_name_and_keep_house(built, tmp_path):
    from palimpsest.orchestration.published_assets import applied_proposals, housekeeping, proposals

    resource, _ = built
    home = with_own_vectors(resource.home())
    left = home.log / ".left.tmp"
    left.write_text("x")
    os.utime(left, (0, 0))
    assets, own = [proposals, applied_proposals, housekeeping], HomeResource(path=str(home.path))
    with dg.instance_for_test() as instance:
        done = dg.materialize(assets, instance=instance, resources={"home": own}, selection=assets)
    found, applied, kept = (done.asset_materializations_for_node(a.key.to_user_string())[0].metadata for a in assets)
    assert found["open"].value == len(read_proposals(home.path)) and found["contradiction"].value == 1
    assert (applied["confirmed"].value, applied["trials"].value) == (0, 0), "no setting names a kind"
    assert kept["leftovers_removed"].value == 1 and not left.exists()


def test_a_night_without_a_rebuild_consolidates_and_one_with_a_rebuild_waits_for_it(built):
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
    for batch, kind in (("nightly-1", dg.RunRequest), ("folders-1", dg.SkipReason)):
        run = SimpleNamespace(tags={"palimpsest/batch": batch})
        assert isinstance(body(SimpleNamespace(dagster_run=run)), kind)
