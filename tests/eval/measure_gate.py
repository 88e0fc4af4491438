"""Counts what the gate blocks: harms, which it must, and harmless or better builds, which it must not.

    python -m tests.eval.measure_gate run HOME OUT [--half development|kept|apart] [--collection NAME]...
    python -m tests.eval.measure_gate judge OUT [--half development|kept|apart]

`run` asks the golden questions of a published build after each change of `tests.eval.mutations`; HOME must be a copy.
`judge` decides on each run against the unchanged one. A better build is an unchanged run against the baseline of one
with a fault. What the effects were chosen on is the half `development`; the half `kept` is for the end. `apart` has the
changes of `tests.eval.kept_changes` alone, which were written without a look at the gate.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from palimpsest.index.write_index import write_index
from palimpsest.memories.embedders import embedding_store
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query.reader import open_index
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.gate.baseline import Baseline, accept_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.golden.questions import GoldenSet, load_questions
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.kept_changes import KEPT_HARMLESS, KEPT_HARMS
from tests.eval.mutations import COLLECTIONS, HARMLESS, MUTATIONS, ROOT, Mutation

SOUND = Mutation("unchanged")
DEVELOPMENT, KEPT, APART = "development", "kept", "apart"
HALVES = (DEVELOPMENT, KEPT, APART)
NEW_QUESTIONS = 10  # every so many-th question is new in a harmless change
# Faults that a baseline can be accepted with; a build without them is a better one.
ONCE_BROKEN = {
    DEVELOPMENT: ("embed another question", "drop is_latest in the query", "lose every fifth memory"),
    KEPT: ("read the first five words", "cut the budget", "index another memory's words"),
    APART: (),
}


def changes_of(half: str) -> tuple[tuple[Mutation, ...], tuple[Mutation, ...]]:
    """Returns the harms and the harmless changes of a half."""
    if half == APART:
        return KEPT_HARMS, KEPT_HARMLESS
    is_development = half == DEVELOPMENT
    harms, harmless = (tuple(m for m in of if m.development == is_development) for of in (MUTATIONS, HARMLESS))
    return harms, harmless


def run_file(out: Path, change: Mutation, collection: str) -> Path:
    """Returns where the run of a collection after a change is kept."""
    return out / f"{change.name.replace(' ', '-')}.{collection}.json"


def run_change(home: Home, change: Mutation, collections: Sequence[str], out: Path) -> None:
    """Asks the questions of the collections after a change; runs that are there are kept."""
    waiting = [c for c in collections if not run_file(out, change, c).exists()]
    build = published(home)
    if not waiting or build is None:
        return
    tables, settings = build.tables(indexed_tables()), build.manifest.settings | {"build_id": build.build_id}
    index, judged_by = build.index, tables
    if change.index or change.weights or change.name == "index again":
        index, lookup = out / "index.duckdb", embedding_store(home).vectors
        index.unlink(missing_ok=True)
        changed, lookup = change.index(tables, lookup) if change.index else (tables, lookup)
        weights = {c: dict(change.weights) for c in build.collections}
        write_index(changed, lookup, index, settings | ({"weights": weights} if change.weights else {}))
        # What is added is judged as it is; what a fault takes away is missed.
        judged_by = changed if changed["memories"].height > tables["memories"].height else tables
    for name in waiting:
        own = {
            n: t.filter(pl.col("collection") == name) if "collection" in t.columns else t for n, t in judged_by.items()
        }
        questions = (load_questions(ROOT / "data", name) or [])[: change.few]
        if change.questions:
            questions = list(change.questions(questions))
        golden = GoldenSet(name, tuple(questions), settings["collections"][name]["user_id"])
        started = time.perf_counter()
        with pytest.MonkeyPatch.context() as patch, open_index(index) as reader:
            change.path(patch)
            run = run_golden(reader, golden, own)
        run_file(out, change, name).write_text(json.dumps(run.to_json()))
        print(f"{change.name}: {name} in {time.perf_counter() - started:.0f} s", flush=True)


def read_run(out: Path, change: Mutation, collection: str) -> GoldenRun | None:
    """Returns a run that was kept."""
    path = run_file(out, change, collection)
    return GoldenRun.from_json(json.loads(path.read_text())) if path.exists() else None


def cases(out: Path, collection: str, half: str) -> Iterator[tuple[str, str, GoldenRun, GoldenRun]]:
    """Yields (kind, name, run of the baseline, run that is judged)."""
    sound = read_run(out, SOUND, collection)
    assert sound is not None, "run it first"
    named = {m.name: m for m in MUTATIONS}
    for kind, changes in zip(("harm", "harmless"), changes_of(half), strict=True):
        for change in changes:
            if (run := read_run(out, change, collection)) is not None:
                before = sound
                if change.few:
                    few = {q: sound.per_query[q] for q in run.per_query}
                    before = replace(sound, per_query=few, results={q: sound.results[q] for q in run.results})
                yield kind, change.name, before, run
    for name in ONCE_BROKEN[half]:
        if (before := read_run(out, named[name], collection)) is not None:
            yield "harmless", f"better than: {name}", before, sound
    if half == DEVELOPMENT:
        per_query = {q: v for i, (q, v) in enumerate(sorted(sound.per_query.items())) if i % NEW_QUESTIONS}
        yield "harmless", "new questions", replace(sound, per_query=per_query), sound


def judge(out: Path, half: str) -> None:
    """Prints the verdict on each change, by collection, and how many are as they must be."""
    blocked: dict[tuple[str, str], list[str]] = {}
    for collection in COLLECTIONS:
        if read_run(out, SOUND, collection) is None:
            continue
        for kind, name, before, run in cases(out, collection, half):
            before = replace(before, latency_ms=before.latency_ms or {"p95": 1.0})
            accepted: Baseline = accept_baseline(before, out / "baseline.json", "seeded", who="measure_gate")
            verdict = decide(run, accepted, True)
            found = blocked.setdefault((kind, name), [])
            found += [f"{collection}: {r}" for r in verdict.reasons] or ([] if verdict.publishable else [collection])
    for kind in ("harm", "harmless"):
        of_kind = {name: reasons for (k, name), reasons in blocked.items() if k == kind}
        for name, reasons in of_kind.items():
            print(
                f"{kind:9}{'blocked' if reasons else 'passed':9}{name}"
                + "".join(f"\n    {r[:150]}" for r in reasons[:6])
            )
        print(f"{kind}: {sum(map(bool, of_kind.values()))} of {len(of_kind)} blocked\n")


def main() -> None:
    """Runs or judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "judge"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--half", choices=HALVES, default=DEVELOPMENT)
    parser.add_argument("--collection", action="append")
    given = parser.parse_args()
    *home, out = given.paths
    out.mkdir(parents=True, exist_ok=True)
    if given.what == "judge":
        judge(out, given.half)
        return
    harms, harmless = changes_of(given.half)
    for change in (SOUND, *harmless, *harms):
        run_change(Home(*home), change, given.collection or COLLECTIONS, out)


if __name__ == "__main__":
    main()
