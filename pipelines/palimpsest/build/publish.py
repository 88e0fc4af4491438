"""Whether a staged build may be published, what its tail recorded, and the switch that readers see."""

import shutil
from dataclasses import replace
from typing import Any

from palimpsest.build.finish import finish_staged
from palimpsest.build.plan import Plan, stage_context
from palimpsest.build.run_stage import run_stage
from palimpsest.build.stages import collection_stages
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.progress import say
from palimpsest.store.builds import Build, publish, published, staged, sweep
from palimpsest.store.event_log import observed
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest
from palimpsest.text.tokenizer import save_tokenizer


def publish_build(home: Home) -> str:
    """Makes the staged build the published one; returns its id.

    Raises:
        PalimpsestError: nothing is staged or the staged build is unfinished.
    """
    say("stage published")
    build = staged(home)
    if not build.is_finished:
        current = published(home)
        raise PalimpsestError(
            f"home {home.path}: no finished build is staged, so there is nothing to publish "
            f"({f'readers see build {current.build_id}' if current else 'nothing was published yet'}); "
            "run palimpsest build, or the jobs build_collection and publish_build"
        )
    with observed(home.path, "publish", build.build_id):
        save_tokenizer(home.path)
        publish(home, build)
    return build.build_id


def refusal(manifest: BuildManifest) -> list[str]:
    """Returns why a staged build may not be published: the invariants it breaks, else the gate's reasons."""
    if manifest.violations:
        return list(manifest.violations)
    return list(manifest.gate.get("reasons", [])) if manifest.gate.get("status") == "failed" else []


def record_tail(build: Build, name: str, seconds: float, **fields: Any) -> None:
    """Adds the wall time of a step after the index, and fields, to the manifest of the build."""
    manifest = build.manifest
    build.write_manifest(replace(manifest, tail_seconds={**manifest.tail_seconds, name: seconds}, **fields))


def drop_unplanned(home: Home, plan: Plan) -> None:
    """Removes from the staged build what the plan does not make again: it was begun from other sources."""
    sweep(home)
    for name in staged(home).collections:
        if name not in plan.changed:
            shutil.rmtree(staged(home).path / name)


def stage_build(home: Home, plan: Plan, max_cost: float | None = None) -> None:
    """Runs every stage of a plan in plain calls and finishes the build; nothing is judged or published.

    `max_cost` is the money that a language model may cost; None means no limit.

    Raises:
        PalimpsestError: a collection cannot be built.
    """
    for error in plan.broken.values():
        raise error
    home.create()
    home.remember_sources(plan.collections)
    drop_unplanned(home, plan)
    for name in plan.changed:
        for stage in collection_stages():
            run_stage(stage_context(home, name, plan.collections[name], max_cost), stage.name)
    finish_staged(home)


def run_without_dagster(home: Home, plan: Plan) -> Build:
    """Builds and publishes in plain calls, without the gate: for throw-away homes of suites, benches and tests."""
    stage_build(home, plan)
    publish_build(home)
    current = published(home)
    assert current is not None
    return current
