"""A stage that is added by one file: it is run, cached, recorded, indexed, deleted from, and an asset."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stage import Stage
from palimpsest.pipeline.stages import STAGES, indexed_tables, last_stages, references, register
from palimpsest.store.builds import ONCE, Build, published
from palimpsest.store.home import Home
from palimpsest.store.tables import SCHEMAS
from palimpsest_eval.gate.invariants import check_invariants
from tests.small_corpus import write_chats

FILE = """
import polars as pl

from palimpsest.pipeline.stage import Digest, Reference, Stage, StageResult, Table
from palimpsest.core.ids import SCOPE


def _run(context, previous):
    lengths = context.table("memories").select("memory_id", *SCOPE, pl.col("text").str.len_chars().alias("length"))
    return StageResult({"memory_lengths": lengths}, numbers={"longest": float(lengths["length"].max() or 0)})


STAGE = Stage(
    name="lengths",
    description="How long each memory is, for a test that adds a stage in one file.",
    group="memories",
    reads=("memories",),
    writes=(
        Table(
            "memory_lengths",
            key=("memory_id",),
            references=(Reference("memory_id", ("memories",)),),
            removed_by={"memory_id": "memory"},
            digest=Digest(),
            schema={"memory_id": pl.String, **dict.fromkeys(SCOPE, pl.String), "length": pl.Int64},
        ),
    ),
    run=_run,
)
"""


@pytest.fixture
def added(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Returns a function that writes the file, imports it and registers its stage, with other values where given."""
    names: list[Stage] = []

    def add(**changes: object) -> Stage:
        path = tmp_path / "added_lengths.py"
        path.write_text(FILE)
        spec = importlib.util.spec_from_file_location("added_lengths", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["added_lengths"] = module
        spec.loader.exec_module(module)
        stage = replace(module.STAGE, **changes)
        register(stage)
        names.append(stage)
        return stage

    yield add
    for stage in names:
        del STAGES[stage.name]
        for table in stage.tables:
            del SCHEMAS[table]
    sys.modules.pop("added_lengths", None)


@pytest.fixture
def home(tmp_path: Path, shared_vectors: Path) -> Home:
    return Home(tmp_path / "home", shared_vectors)


@pytest.fixture
def build(tmp_path: Path, home: Home) -> Callable[[], Build]:
    corpus = write_chats(tmp_path / "corpus")
    return lambda: run_without_dagster(home, make_plan(home, [corpus]))


@pytest.mark.parametrize("on_delete", ["recompute", "remove_rows"])
@pytest.mark.slow
def test_a_stage_added_in_one_file_is_run_cached_recorded_indexed_and_deleted_from(
    added, build, home, tmp_path, on_delete
) -> None:
    before = build()
    stage = added(on_delete=on_delete)
    first = build()
    record = first.manifest.stages["chats"]["lengths"]
    assert record.cache_status == "done" and record.numbers["memory_lengths_rows"] == first.manifest.memories == 5
    assert first.manifest.code["lengths"] == stage.code and first.manifest.digest != before.manifest.digest
    assert "memory_lengths" in indexed_tables() and "lengths" in last_stages()

    settings = tmp_path / "corpus/chats/collection.yaml"
    settings.write_text(settings.read_text() + "weights: {words: 0.5}\n")
    assert build().manifest.stages["chats"]["lengths"].cache_status == "linked"

    assert delete(home, user="bob").memories == 2
    left = published(home)
    tables = left.tables(indexed_tables())
    assert tables["memory_lengths"]["user_id"].unique().to_list() == ["ann"] and tables["memory_lengths"].height == 3
    assert digest(tables) == left.manifest.digest and check_invariants(tables) == []
    broken = tables | {"memories": tables["memories"].clear()}
    assert any("memory_lengths.memory_id" in v.message for v in check_invariants(broken))


def test_a_stage_that_runs_once_reads_every_collection(added, build, tmp_path) -> None:
    write_chats(tmp_path / "corpus", name="talk")
    added(runs="once")
    first = build()
    assert first.collections == ["chats", "talk"] and first.table(ONCE, "memory_lengths").height == 10
    assert first.manifest.stages[ONCE]["lengths"].cache_status == "done"
    settings = tmp_path / "corpus/chats/collection.yaml"
    settings.write_text(settings.read_text() + "weights: {words: 0.5}\n")
    second = build()
    assert second.manifest.stages[ONCE]["lengths"].cache_status == "linked"
    assert second.manifest.digest == first.manifest.digest


def test_the_asset_of_an_added_stage_has_what_the_stage_declares(added) -> None:
    from palimpsest.orchestration.build_assets import stage_asset

    stage = added()
    (spec,) = stage_asset(stage).specs
    assert {d.asset_key.to_user_string() for d in spec.deps} == {"memories"}
    assert (spec.group_name, spec.description, spec.code_version) == ("memories", stage.description, stage.code)
    assert spec.partitions_def.name == "collections"
    (once,) = stage_asset(replace(stage, runs="once")).specs
    assert once.partitions_def is None


def test_a_stage_that_could_not_work_is_refused(added) -> None:
    stage = added()
    assert ("memory_lengths", "memory_id") in {(t.name, r.column) for t, r in references()}
    table = stage.writes[0]
    for changes, problem in (
        ({}, "has the name of another"),
        ({"name": "new", "writes": (), "reads": ("nothing",)}, "no stage before it writes"),
        ({"name": "new", "writes": (replace(table, name="t", schema=None),)}, "has no schema"),
        (
            {"name": "new", "on_delete": "remove_rows", "writes": (replace(table, name="t", removed_by={}),)},
            "does not say which rows a delete removes",
        ),
    ):
        with pytest.raises(ValueError, match=problem):
            register(replace(stage, **changes))
