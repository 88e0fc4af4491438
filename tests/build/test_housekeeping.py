"""Housekeeping on a real home: what goes by policy, what stays, and that a dry run removes nothing."""

import datetime as dt
import os

import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.memories.embedders import embedding_store, embedding_stores
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.housekeeping import home_sizes, keep_house
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.event_log import read_events
from palimpsest.store.home import Home
from tests.command import last_json, process
from tests.small_corpus import write_chats

NOW = dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def home(tmp_path_factory, embed_corpus):
    base = tmp_path_factory.mktemp("housekept")
    corpus = write_chats(base / "corpus")
    home = Home(embed_corpus(base / "home", corpus))
    run_without_dagster(home, make_plan(home, [corpus]))
    keep_house(home)  # other tests of this process may have left vectors in the shared store
    return home


def removed(done):
    return {r.part: r.items for r in done.removed}


def test_orphaned_vectors_go_and_those_of_kept_builds_stay(home):
    (store,) = embedding_stores(home)
    keep_house(home)
    needed = store.known()
    embedding_store(home).append(["gone1", "gone2"], np.zeros((2, 384), np.float32))
    assert removed(keep_house(home, dry_run=True))["vectors"] == 2 and len(store.known()) == len(needed) + 2
    done = keep_house(home)
    assert removed(done)["vectors"] == 2 and store.known() == needed and removed(keep_house(home))["vectors"] == 0
    assert next(r.bytes for r in done.removed if r.part == "vectors") > 1000


def test_old_closed_logs_and_leftovers_go_and_fresh_ones_stay(home):
    old, new = (home.path / "logs" / f"events-{NOW.date() - dt.timedelta(days=d)}-001.jsonl" for d in (31, 2))
    left, fresh = home.builds / "000001" / ".a.tmp", home.log / ".b.tmp"
    for path in (old, new, left, fresh):
        path.write_text("x")
    os.utime(left, (NOW.timestamp() - 2 * 86_400,) * 2)
    found = removed(keep_house(home, dry_run=True))
    assert (found["logs"], found["leftovers"]) == (1, 1) and old.exists() and left.exists()
    keep_house(home)
    assert [p.exists() for p in (old, new, left, fresh)] == [False, True, False, True]
    event = read_events(home.path)[-1]
    assert event.event == "housekeeping_finished" and event.fields["items"] == 2


def test_runs_of_dagster_go_after_their_days(home, monkeypatch):
    import dagster as dg

    from palimpsest.orchestration.dev_server import write_dagster_yaml

    write_dagster_yaml(home)
    job = dg.GraphDefinition(name="nothing").to_job()
    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        run_id = job.execute_in_process(instance=instance).run_id
    assert removed(keep_house(home))["runs"] == 0
    later = NOW + dt.timedelta(days=400)
    assert removed(keep_house(home, True, later))["runs"] == 1
    keep_house(home, now=later)
    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        assert not instance.has_run(run_id)
    monkeypatch.setenv("PALIMPSEST_RUN_DAYS", "0")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_RUN_DAYS"):
        keep_house(home)


def test_sizes_are_of_folders_and_a_linked_file_counts_once(home, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"12345")
    os.link(tmp_path / "a" / "x", tmp_path / "a" / "y")
    (tmp_path / "z").write_bytes(b"1")
    assert home_sizes(Home(tmp_path)) == {".": 1, "a": 5}


def test_the_command_lists_and_the_build_is_still_whole(home):
    done = process("housekeeping", "--home", home.path, "--json")
    assert done.returncode == 0, done.stderr
    assert {r["part"] for r in last_json(done)["removed"]} == {"logs", "leftovers", "runs", "vectors"}
    assert last_json(done)["sizes"]["builds"] > 0 and "left in" in done.stderr
    verified = process("verify", "--home", home.path)
    assert verified.returncode == 0, verified.stderr
