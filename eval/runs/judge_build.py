"""Judges a finished build: its invariants, then every collection's golden questions against its baseline."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.build.delete.target import unfinished_deletes
from palimpsest.build.plan import INDEXED, digest, record
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.progress import say
from palimpsest.eval.gate.baseline import Baseline, accept_baseline, baseline_path, current_commit, load_baseline
from palimpsest.eval.gate.build_settings import build_settings
from palimpsest.eval.gate.comparable import counted, named
from palimpsest.eval.gate.compare import compare, compare_text
from palimpsest.eval.gate.health import TABLES, memory_health, over_limits
from palimpsest.eval.gate.invariants import check_invariants
from palimpsest.eval.gate.verdict import Decision, GateSummary, combine, decide
from palimpsest.eval.gate.violations import Violation, report
from palimpsest.eval.golden.golden_run import GateRun, run_golden
from palimpsest.eval.golden.questions import golden_path, load_golden
from palimpsest.eval.report.notes import health_limits
from palimpsest.memories.vector_store import embedding_store
from palimpsest.query.reader import open_index
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home, data_folder, home_option

REPORT, PICTURE = "report.html", "report.svg"
_WORDS = 120  # characters of a result that the verdict shows
JUDGED = ("documents", "document_texts", "memories", "versions")
_UNFINISHED = "{n} deletes were begun and not finished; run the same palimpsest delete again"


def build_to_judge(home: Home) -> Build:
    """Returns the staged build where one is finished, else the published one.

    Raises:
        PalimpsestError: the home has neither.
    """
    waiting, current = staged(home), published(home)
    if waiting.manifest:
        return waiting
    if current is None:
        raise PalimpsestError(f"home {home.path}: no build there; run palimpsest build --home {home.path}")
    return current


def find_violations(home: Home, build: Build) -> list[Violation]:
    """Returns the invariants that a finished build breaks, its digest included: its tables are those it was made of."""
    known, tables = embedding_store(home).known(), build.tables(INDEXED)
    decisions = read_decisions(home.decisions)
    if (undone := build.manifest.get("undone")) is not None:  # what was undone since then holds from the next build on
        decisions = replace(decisions, undone=frozenset(undone))
    found = check_invariants(tables, build.index, known_vectors=known, decisions=decisions)
    if (now := digest(tables)) != build.manifest["digest"]:
        found += report(1, "digest", "the tables are not those that the build was made with", [now])
    return found


def run_build(build: Build, collection: str, tables: dict[str, pl.DataFrame]) -> tuple[GateRun, bool]:
    """Asks one collection's golden questions of a build; tells whether it has any."""
    questions = load_golden(golden_path(data_folder(), collection))
    if questions is None:
        return GateRun(collection, build_id=build.build_id), False
    settings = build.manifest["settings"]
    own = {
        n: t.filter(pl.col("collection") == collection) if "collection" in t.columns else t for n, t in tables.items()
    }
    with open_index(build.index) as reader:
        run = run_golden(
            reader,
            questions,
            own,
            collection,
            settings["collections"][collection]["user_id"],
            build_id=build.build_id,
            model=settings["model_id"],
            commit=current_commit(),
            build_settings=build_settings(build.manifest, collection),
        )
    return run, True


def judge_build(
    home: Home, build: Build, baseline_file: Path | None = None, violations: list[Violation] | None = None
) -> GateSummary:
    """Returns the gate's answer for every collection of a build.

    Raises:
        PalimpsestError: the baseline file is not there, is none, or is of a collection that the build does not have.
    """
    named = _named_baseline(baseline_file, build)
    found = find_violations(home, build) if violations is None else violations
    tables = build.tables(JUDGED)
    decisions = []
    for name in build.collections:
        run, has_golden = run_build(build, name, tables)
        committed = baseline_path(data_folder(), name)
        baseline = (named.get(name) or load_baseline(committed)) if has_golden else None
        decision = _with_texts(decide(run, baseline, has_golden, found), tables["memories"])
        decisions.append(_with_health(home, build, decision))
    return combine(decisions)


def _with_texts(decision: Decision, memories: pl.DataFrame) -> Decision:
    """Adds the first words of what broken questions got, before and now: a place alone tells a reader little."""
    wanted = {h.memory_id for b in decision.broken for h in (*b.old_results, *b.new_results)}
    rows = memories.filter(pl.col("memory_id").is_in(sorted(wanted))).select("memory_id", "text").sort("memory_id")
    return replace(decision, texts={i: _short(text) for i, text in rows.iter_rows()})


def _short(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= _WORDS else folded[: _WORDS - 1] + "…"


def _named_baseline(path: Path | None, build: Build) -> dict[str, Baseline]:
    """Returns the baseline of a file by its collection; other collections are judged by the committed ones."""
    if path is None:
        return {}
    if (baseline := load_baseline(path)) is None:
        raise PalimpsestError(f"--baseline {path}: no such file; name one that `palimpsest baseline accept` wrote")
    if baseline.collection not in build.collections:
        has = ", ".join(build.collections)
        raise PalimpsestError(f"--baseline {path}: of collection {baseline.collection!r}, the build has {has}")
    return {baseline.collection: baseline}


def _with_health(home: Home, build: Build, decision: Decision) -> Decision:
    """Adds a warning for each limit of memory health that people set and this collection is over."""
    if not (limits := health_limits(home)):
        return decision
    health = memory_health({t: build.table(decision.collection, t) for t in TABLES})
    return replace(decision, warnings=(*decision.warnings, *over_limits(health, limits)))


def write_report(home: Home, build: Build, summary: GateSummary, path: Path | None = None) -> Path:
    """Writes the page of a judged build, and with no other path its picture beside it; returns the page's path.

    Raises:
        PalimpsestError: the path cannot be written.
    """
    from palimpsest.eval.report import gather, picture_html, report_html

    page = gather(home, build, summary)
    target = path or build.path / REPORT
    try:
        write_bytes(target, report_html(page).encode())
        if path is None:
            write_bytes(build.path / PICTURE, picture_html(page).encode())
    except OSError as e:
        raise PalimpsestError(f"--report {target}: {e.strerror}; name another") from None
    return target


def check_staged(home: Home) -> list[Violation]:
    """Returns what the staged build breaks, and records how long that took."""
    started = time.perf_counter()
    found = find_violations(home, staged(home))
    told = [f"invariant {v.invariant} ({v.name}): {v.message}" for v in found]
    record(staged(home), "invariants", time.perf_counter() - started, violations=told)
    return found


def judge_staged(home: Home) -> GateSummary:
    """Judges the staged build, whose invariants its index was checked for, and records the verdict in its manifest."""
    say("stage retrieval_report")
    started = time.perf_counter()
    summary = judge_build(home, staged(home), violations=[])
    reasons = [r for d in summary.decisions for r in d.reasons]
    several = len(summary.decisions) > 1
    warnings = [f"{d.collection}: {w}" if several else w for d in summary.decisions for w in d.warnings]
    numbers = {f"{d.collection}/{m}": v for d in summary.decisions for m, v in d.means.items()}
    numbers |= {f"{d.collection}/{m}": v for d in summary.decisions for m, v in d.quality.items()}
    numbers |= {f"{d.collection}/{p}_ms": v for d in summary.decisions for p, v in d.latency_ms.items()}
    gate = {
        "status": summary.status,
        "reasons": reasons,
        "warnings": warnings,
        "metrics": numbers,
        "settings_changed": summary.settings_changed,
    }
    runs = {d.collection: d.run.to_json() for d in summary.decisions if d.run is not None}
    record(staged(home), "retrieval_report", time.perf_counter() - started, gate=gate, golden_runs=runs)
    write_report(home, staged(home), summary)
    record(staged(home), "retrieval_report", time.perf_counter() - started)
    return summary


def judge_home(home: Home, baseline_file: Path | None = None, report_file: Path | None = None) -> GateSummary:
    """Judges the staged, else the published build; writes its page where a file is named."""
    build = build_to_judge(home)
    summary = judge_build(home, build, baseline_file)
    if report_file:
        write_report(home, build, summary, report_file)
    return summary


@dataclass(frozen=True)
class Accepted:
    """A baseline that was written: its file, and the questions that the one before had and this one has not."""

    path: Path
    build_id: str
    dropped: tuple[str, ...] = ()

    def text(self) -> str:
        """Returns the file, and the questions that are left out from now on."""
        if not self.dropped:
            return f"wrote {self.path}"
        return (
            f"wrote {self.path}\n  without {counted(self.dropped, 'question')} of the one before: {named(self.dropped)}"
        )


def accept_home(home: Home, why: str) -> list[Accepted]:
    """Writes the run of the staged, else the published build as the baseline of each collection that has questions.

    Raises:
        PalimpsestError: no collection has a golden set, or a run may not be a baseline.
    """
    build = build_to_judge(home)
    tables = build.tables(JUDGED)
    written = []
    for name in build.collections:
        run, has_golden = run_build(build, name, tables)
        if has_golden:
            path = baseline_path(data_folder(), name)
            before = _earlier(path)
            accepted = accept_baseline(run, path, why)
            gone = before.question_ids - {*run.questions} if before else ()
            written.append(Accepted(path, accepted.build_id, tuple(sorted(gone))))
    if not written:
        raise PalimpsestError(
            f"baseline accept: no golden set for {', '.join(build.collections)}; palimpsest gate --init drafts one"
        )
    return written


def _earlier(path: Path) -> Baseline | None:
    try:
        return load_baseline(path)
    except PalimpsestError:
        return None  # a damaged baseline is what accepting mends


def next_steps(home: Home, accepted: Sequence[Accepted]) -> str:
    """Returns what to do after accepting: commit the files, and publish what waits for them."""
    files = " ".join(str(a.path) for a in accepted)
    waiting = staged(home)
    publish = (
        f"; then palimpsest build{home_option(home)} publishes build {waiting.build_id}" if waiting.manifest else ""
    )
    return f"next: git add {files} and commit{publish}; from now on the gate judges by what was accepted"


def compare_builds(home: Home, a: str, b: str) -> tuple[dict[str, Any], str]:
    """Returns what changed between two kept builds, as JSON values and as text."""
    builds = [_named(home, x) for x in (a, b)]
    (older, newer), runs = (x.tables(INDEXED) for x in builds), [x.manifest.get("golden_runs") for x in builds]
    settings = [{c: build_settings(x.manifest, c) for c in x.collections} for x in builds]
    found = compare(older, newer, runs[0], runs[1], settings_a=settings[0], settings_b=settings[1])
    return found, compare_text(found)


def _named(home: Home, build_id: str) -> Build:
    path = home.builds / build_id.zfill(6)
    if not (path / "manifest.json").is_file():
        kept = ", ".join(sorted(p.parent.name for p in home.builds.glob("*/manifest.json"))) or "none"
        raise PalimpsestError(f"build {build_id[:20]}: not kept in home {home.path}; it has {kept}")
    return Build(path)


def verify_home(home: Home) -> dict[str, Any]:
    """Checks every invariant that a home at rest can show, on the published build.

    Raises:
        PalimpsestError: nothing is published.
    """
    build = published(home)
    if build is None or not build.manifest:
        raise PalimpsestError(f"home {home.path}: nothing is published there; run palimpsest build --home {home.path}")
    violations = [*find_violations(home, build), *report(4, "finished_deletes", _UNFINISHED, unfinished_deletes(home))]
    lines = [f"invariant {v.invariant} ({v.name}): {v.message}: {', '.join(v.examples)}" for v in violations]
    return {
        "build_id": build.build_id,
        "digest": build.manifest["digest"],
        "violations": lines,
        "details": [asdict(v) for v in violations],
    }
