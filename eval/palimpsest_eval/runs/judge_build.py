"""Judges a finished build: its invariants, then every collection's golden questions against its baseline."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile, PalimpsestError, Refused
from palimpsest.core.files import FORMAT, counted, say, write_bytes, write_format
from palimpsest.core.ids import JsonObject, JsonRecord, content_id
from palimpsest.memories.embedders import collection_spaces, known_texts
from palimpsest.pipeline.deletion.target import unfinished_deletes
from palimpsest.pipeline.finish import digest, publish_build, record_tail, refusal
from palimpsest.pipeline.housekeeping import found_format, stage_upgrade
from palimpsest.pipeline.plan import tail_code_key
from palimpsest.pipeline.repair_home import find_damage
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query import rerank
from palimpsest.query.context import quotes
from palimpsest.query.ranking import merge
from palimpsest.query.reader import open_index
from palimpsest.query.readings import READINGS_FILE, Readings
from palimpsest.query.request.types import shorten_text
from palimpsest.query.rerank import reader_model
from palimpsest.store.builds import Build, kept_builds, published, staged
from palimpsest.store.decisions import Decisions, MemoryDecision, read_decisions
from palimpsest.store.event_log import observed
from palimpsest.store.home import Home, data_folder, home_option
from palimpsest_eval.gate.baseline import (
    Baseline,
    accept_baseline,
    baseline_path,
    build_settings,
    current_commit,
    embedder_of,
    golden_problem,
    load_baseline,
    named,
)
from palimpsest_eval.gate.compare import compare, compare_text
from palimpsest_eval.gate.decide import decide, judge_embedder_change
from palimpsest_eval.gate.health import TABLES, memory_health, over_limits
from palimpsest_eval.gate.invariants import Violation, check_invariants, report
from palimpsest_eval.gate.verdict import CollectionVerdict, GateVerdict, combine
from palimpsest_eval.golden.golden_run import GoldenRun, GoldenSearch, retracted_questions
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenSet, Tables, collection_tables, load_questions
from palimpsest_eval.golden.retrieval_run import timed_part
from palimpsest_eval.golden.score_golden import run_golden
from palimpsest_eval.ragas.ragas_check import golden_samples, ragas_means
from palimpsest_eval.report.page import health_limits

REPORT, PICTURE = "report.html", "report.svg"
_ENVIRONMENT = (rerank.ENVIRONMENT_VARIABLE, quotes.ENVIRONMENT_VARIABLE, merge.VARIABLE)  # of searches
_RESULT_CHARS = 120  # of a result's text in the verdict


def build_to_judge(home: Home) -> Build:
    """Returns the staged build where one is finished, else the published one.

    Raises:
        PalimpsestError: the home has neither.
    """
    waiting, current = staged(home), published(home)
    if waiting.is_finished:
        return waiting
    if current is None:
        raise PalimpsestError(f"home {home.path}: it has no build; run palimpsest build --home {home.path}")
    return current


def find_violations(home: Home, build: Build) -> list[Violation]:
    """Returns the invariants that a finished build breaks, its digest included: its tables are those it was made of."""
    try:
        known, tables = known_texts(home, build), build.tables(indexed_tables())
    except DamagedFile as e:
        return report(1, "tables", "{table} cannot be read", [e])
    decisions = read_decisions(home.decisions)
    if (undone := build.manifest.undone) is not None:  # what was undone later takes effect in the next build
        decisions = replace(decisions, undone=frozenset(undone))
    if (decided := build.manifest.decided) is not None:
        decisions = replace(decisions, memories=tuple(map(MemoryDecision.from_list, decided)))
    found = check_invariants(tables, build.index, known_vectors=known, decisions=decisions)
    if (now := digest(tables)) != build.manifest.digest:
        found += report(1, "digest", "the tables are not those that the build was made with", [now])
    return found


def run_collection(
    build: Build,
    collection: str,
    tables: Tables,
    decisions: Decisions,
    diagnose: bool = False,
    earlier: GoldenRun | None = None,
    readings: Readings | None = None,
    checks: bool = False,
) -> GoldenRun | None:
    """Searches one collection's golden questions in a build; None where it has none.

    Questions about what people deleted or edited are left out, and named in the run.

    Args:
        build: the build.
        collection: name of the collection.
        tables: `JUDGED_TABLES` of the build, over all collections.
        decisions: of the home.
        diagnose: whether to find out where what was missed got lost.
        earlier: a run that is returned, times included, where nothing that it depends on has changed.
        readings: what the reader of answers has read before.
        checks: whether the timed questions of that run are searched again: for the times of this machine, and because
            all are where one of them gets something else.
    """
    questions = load_questions(data_folder(), collection)
    if questions is None:
        return None
    settings = build.manifest.settings
    golden = GoldenSet(collection, tuple(questions), settings["collections"][collection]["user_id"])
    own_tables = collection_tables(tables, collection)
    retracted = retracted_questions(golden, own_tables, decisions)
    key = _run_key(build, collection)
    judged = replace(golden, questions=tuple(q for q in questions if q.id not in retracted))
    if earlier is not None and (earlier.key, earlier.retracted) == (key, retracted):
        if checks:
            earlier = _checked(earlier, build, judged, own_tables)
        else:
            say(f"{collection}: nothing changed, no search again of its {counted(len(earlier.questions), 'question')}")
        if earlier is not None:
            return replace(earlier, build_id=build.build_id)
    searches: list[GoldenSearch] = []
    with open_index(build.index) as reader:
        others = None if readings is None else reader.with_readings(readings)
        run = run_golden(reader, judged, own_tables, diagnose=diagnose, on_search=searches.append, others=others)
    return replace(
        run,
        ragas=ragas_means([sample for search in searches for sample in golden_samples(search)]),
        golden_hash=golden.hash,
        retracted=retracted,
        build_id=build.build_id,
        model=embedder_of(build.manifest, collection),
        commit=current_commit(),
        build_settings=build_settings(build.manifest, collection),
        key=key,
    )


def _checked(earlier: GoldenRun, build: Build, golden: GoldenSet, tables: Tables) -> GoldenRun | None:
    """Returns a run with times of now; None where it has errors, or a timed question now gets something else."""
    if earlier.errors:
        return None
    with open_index(build.index) as reader:
        now = run_golden(reader, replace(golden, questions=tuple(timed_part(golden.questions))), tables)
    if any(now.per_query[q] != earlier.per_query.get(q) for q in now.per_query) or any(
        now.results[q] != earlier.results.get(q) for q in now.results
    ):
        return None
    searched = f"{len(now.questions)} of {counted(len(earlier.questions), 'question')}"
    say(f"{golden.collection}: nothing changed, search again of {searched}, with the same results")
    return replace(
        earlier, latency_ms=now.latency_ms, unhindered_ms=now.unhindered_ms, steps_ms=now.steps_ms, errors=now.errors
    )


def _run_key(build: Build, collection: str) -> str:
    """Returns the hash of the tables and settings of a collection, of the code and environment of searches."""
    tables = {stage: sorted(record.outputs.items()) for stage, record in build.manifest.stages[collection].items()}
    settings = sorted(build_settings(build.manifest, collection).items())
    environment = [os.environ.get(name, "") for name in _ENVIRONMENT]
    return content_id(tail_code_key([collection]), repr(sorted(tables.items())), repr(settings), *environment)


def judge_build(
    home: Home,
    build: Build,
    baseline_file: Path | None = None,
    violations: Sequence[Violation] | None = None,
    earlier: Mapping[str, GoldenRun] | None = None,
    checks: bool = False,
) -> GateVerdict:
    """Returns the gate's answer for every collection of a build.

    Args:
        home: the home of the build.
        build: the build.
        baseline_file: judges its collection by this baseline, others by the committed ones.
        violations: the invariants that the build breaks; None means they are checked here.
        earlier: runs of collections; one of which nothing has changed is not searched again.
        checks: see `run_collection`.

    Raises:
        PalimpsestError: the baseline file does not exist, is none, or is of a collection that the build does not have.
    """
    named = _named_baseline(baseline_file, build)
    broken = find_violations(home, build) if violations is None else violations
    tables, decisions = build.tables(JUDGED_TABLES), read_decisions(home.decisions)
    verdicts, runs = [], earlier or {}
    before = published(home)
    readings = Readings(reader_model(), _earlier_readings(before, build))
    for name in build.collections:
        problem = golden_problem(data_folder(), name) if _is_as_before(before, build, name) else None
        run = (
            None if problem else run_collection(build, name, tables, decisions, True, runs.get(name), readings, checks)
        )
        committed = baseline_path(data_folder(), name)
        baseline = None if run is None else named.get(name) or load_baseline(committed)
        verdict = decide(run or GoldenRun(name, build_id=build.build_id), baseline, run is not None, broken)
        if problem:
            verdict = replace(verdict, warnings=(f"not judged, as it was: {problem}",))
        verdict = _with_embedder_change(home, before, build, verdict)
        verdicts.append(_with_health(home, build, _with_texts(verdict, tables["memories"])))
    with suppress(OSError):  # a home that may only be read is judged as well
        readings.save(build.path / READINGS_FILE)
    return combine(verdicts)


def _earlier_readings(before: Build | None, build: Build) -> Path | None:
    """Returns the readings of a build, else of the published one."""
    return next((p for b in (build, before) if b is not None and (p := b.path / READINGS_FILE).is_file()), None)


def _is_as_before(before: Build | None, build: Build, collection: str) -> bool:
    """Returns whether a collection of a build is that of the published build."""
    made_of = build.manifest.fingerprints.get(collection)
    return before is not None and made_of is not None and made_of == before.manifest.fingerprints.get(collection)


def _with_embedder_change(
    home: Home, base: Build | None, build: Build, verdict: CollectionVerdict
) -> CollectionVerdict:
    """Compares the build with the published one where that has vectors of another embedder."""
    name = verdict.collection
    if base is None or base.build_id == build.build_id or name not in base.collections:
        return verdict
    old, new = collection_spaces(base)[name], collection_spaces(build)[name]
    if old == new:
        return verdict
    is_judged = verdict.run is not None and base.index.is_file()
    decisions = read_decisions(home.decisions)
    run = run_collection(base, name, base.tables(JUDGED_TABLES), decisions) if is_judged else None
    return judge_embedder_change(verdict, old, new, run)


def _named_baseline(path: Path | None, build: Build) -> dict[str, Baseline]:
    """Returns the baseline of a file by its collection.

    Raises:
        PalimpsestError: there is no such file, or the build does not have its collection.
    """
    if path is None:
        return {}
    if (baseline := load_baseline(path)) is None:
        raise PalimpsestError(f"--baseline {path}: no such file; name one that `palimpsest baseline accept` wrote")
    if baseline.collection not in build.collections:
        has = ", ".join(build.collections)
        raise PalimpsestError(f"--baseline {path}: of collection {baseline.collection!r}, the build has {has}")
    return {baseline.collection: baseline}


def _with_texts(verdict: CollectionVerdict, memories: pl.DataFrame) -> CollectionVerdict:
    """Adds the first words of what broken questions got, before and now: a source alone says little to a reader."""
    ids = {h.memory_id for b in verdict.broken for h in (*b.old_results, *b.new_results)}
    rows = memories.filter(pl.col("memory_id").is_in(sorted(ids))).select("memory_id", "text").sort("memory_id")
    return replace(verdict, texts={i: shorten_text(text, _RESULT_CHARS) for i, text in rows.iter_rows()})


def _with_health(home: Home, build: Build, verdict: CollectionVerdict) -> CollectionVerdict:
    """Adds a warning for each limit of memory health that people set and this collection is over."""
    if not (limits := health_limits(home)):
        return verdict
    health = memory_health({t: build.table(verdict.collection, t) for t in TABLES})
    return replace(verdict, warnings=(*verdict.warnings, *over_limits(health, limits)))


def write_report(home: Home, build: Build, verdict: GateVerdict, path: Path | None = None) -> Path:
    """Writes the page of a judged build, and with no other path its picture next to it; returns the page's path.

    Raises:
        PalimpsestError: the path cannot be written.
    """
    from palimpsest_eval.report import gather, picture_html, report_html

    page = gather(home, build, verdict)
    target = path or build.path / REPORT
    try:
        write_bytes(target, report_html(page).encode())
        if path is None:
            write_bytes(build.path / PICTURE, picture_html(page).encode())
    except OSError as e:
        raise PalimpsestError(f"--report {target}: {e.strerror}; name another") from None
    return target


def check_staged(home: Home) -> list[Violation]:
    """Returns the invariants that the staged build breaks, and records how long that took."""
    started = time.perf_counter()
    with observed(home.path, "stage", staged(home).build_id, stage="invariants") as event:
        found = find_violations(home, staged(home))
        event["violations"] = len(found)
    lines = [v.headline for v in found]
    record_tail(staged(home), "invariants", time.perf_counter() - started, violations=lines)
    return found


def judge_staged(home: Home) -> GateVerdict:
    """Judges the staged build, whose invariants its index was checked for, and records the verdict in its manifest."""
    say("stage retrieval_report")
    started = time.perf_counter()
    verdict = _judge_observed(home, staged(home), violations=(), earlier=_recorded_runs(published(home)))
    runs = {v.collection: v.run.to_json() for v in verdict.collections if v.run is not None}
    gate = verdict.to_manifest()
    record_tail(staged(home), "retrieval_report", time.perf_counter() - started, gate=gate, golden_runs=runs)
    write_report(home, staged(home), verdict)
    record_tail(staged(home), "retrieval_report", time.perf_counter() - started)
    return verdict


def _judge_observed(
    home: Home,
    build: Build,
    baseline_file: Path | None = None,
    violations: Sequence[Violation] | None = None,
    earlier: Mapping[str, GoldenRun] | None = None,
    checks: bool = False,
) -> GateVerdict:
    """Judges a build as `judge_build` does, and writes an event; reasons quote sources and are only counted."""
    with observed(home.path, "gate", build.build_id) as event:
        verdict = judge_build(home, build, baseline_file, violations, earlier, checks)
        event |= {
            "status": verdict.status,
            "collections": len(verdict.collections),
            "queries": sum(v.queries for v in verdict.collections),
            "reasons": sum(len(v.reasons) for v in verdict.collections),
            "warnings": sum(len(v.warnings) for v in verdict.collections),
        }
    return verdict


def _recorded_runs(build: Build | None) -> dict[str, GoldenRun]:
    """Returns the runs that were made when a build was judged."""
    known = (build.manifest.golden_runs if build else None) or {}
    return {name: GoldenRun.from_json(raw) for name, raw in known.items()}


def judge_home(home: Home, baseline_file: Path | None = None, report_file: Path | None = None) -> GateVerdict:
    """Judges the staged, else the published build; writes its page where a file is named.

    Of a collection of which nothing changed since the build was judged, only the timed questions are searched again.
    """
    build = build_to_judge(home)
    verdict = _judge_observed(home, build, baseline_file, earlier=_recorded_runs(build), checks=True)
    report = write_report(home, build, verdict, report_file) if report_file else build.path / REPORT
    return replace(verdict, report=str(report) if report.exists() else "")


# `palimpsest verify`: every invariant that a home at rest can show.

_DAMAGED = "{file is} damaged or missing; run palimpsest build --repair, which repairs what it can"
_UNFINISHED = "{delete was} begun and not finished; run the same palimpsest delete again"


@dataclass(frozen=True)
class Verification:
    """The invariants that a published build breaks; none means that it keeps all that can be checked."""

    build_id: str
    digest: str
    violations: tuple[Violation, ...]

    @property
    def lines(self) -> list[str]:
        """One line for each violation."""
        return [v.text for v in self.violations]

    def to_json(self) -> JsonObject:
        """Returns `{"build_id", "digest", "violations": [line..], "details": [..]}`."""
        return {
            "build_id": self.build_id,
            "digest": self.digest,
            "violations": self.lines,
            "details": [v.to_json() for v in self.violations],
        }


def verify_home(home: Home) -> Verification:
    """Checks every invariant that a home at rest can show, on the published build.

    Raises:
        PalimpsestError: nothing is published.
    """
    build = published(home)
    if build is None or not build.is_finished:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build --home {home.path}")
    damaged = report(7, "files", _DAMAGED, find_damage(home))
    try:
        digest, broken = build.manifest.digest, find_violations(home, build)
    except DamagedFile:
        digest, broken = "", []  # it is among the damaged files
    unfinished = report(4, "finished_deletes", _UNFINISHED, unfinished_deletes(home))
    return Verification(build.build_id, digest, (*damaged, *broken, *unfinished))


# `palimpsest baseline accept`: the run of a home's newest build becomes the baseline of each collection.


@dataclass(frozen=True)
class AcceptedBaseline:
    """A baseline that was written: its file, and the questions of the one before that it does not have."""

    path: Path
    build_id: str
    dropped: tuple[str, ...] = ()

    def text(self) -> str:
        """Returns the file, and the questions that are left out from now on."""
        if not self.dropped:
            return f"wrote {self.path}"
        dropped = f"{counted(len(self.dropped), 'question')} of the one before: {named(self.dropped)}"
        return f"wrote {self.path}\n  without {dropped}"


def accept_home(home: Home, why: str) -> list[AcceptedBaseline]:
    """Writes the run of the staged, else the published build as the baseline of each collection that has questions.

    Raises:
        PalimpsestError: no collection has a golden set, or a run may not be a baseline.
    """
    build = build_to_judge(home)
    tables, decisions = build.tables(JUDGED_TABLES), read_decisions(home.decisions)
    written, recorded = [], _recorded_runs(build)
    for name in build.collections:
        run = run_collection(build, name, tables, decisions, earlier=recorded.get(name), checks=True)
        if run is not None:
            path = baseline_path(data_folder(), name)
            before = _earlier_baseline(path)
            accepted = accept_baseline(run, path, why)
            dropped = before.question_ids - {*run.questions} if before else ()
            written.append(AcceptedBaseline(path, accepted.build_id, tuple(sorted(dropped))))
    if not written:
        raise PalimpsestError(
            f"baseline accept: no golden set for {', '.join(build.collections)}; palimpsest gate --init drafts one"
        )
    return written


def _earlier_baseline(path: Path) -> Baseline | None:
    try:
        return load_baseline(path)
    except PalimpsestError:
        return None  # accepting replaces a damaged baseline


def next_steps(home: Home, accepted: Sequence[AcceptedBaseline]) -> str:
    """Returns what to do after accepting: commit the files, and publish what waits for them."""
    files = " ".join(str(a.path) for a in accepted)
    waiting = staged(home)
    publish = (
        f"; then palimpsest build{home_option(home)} publishes build {waiting.build_id}" if waiting.is_finished else ""
    )
    return f"next: git add {files} and commit{publish}; from now on the gate judges by what was accepted"


# `palimpsest compare`: what changed between two builds that a home keeps.

_MAX_DIGITS = 12


def compare_builds(home: Home, a: str, b: str) -> tuple[JsonObject, str]:
    """Returns what changed between two kept builds, as JSON values and as text.

    Raises:
        PalimpsestError: the home does not keep one of them.
    """
    builds = [_kept_build(home, x) for x in (a, b)]
    (older, newer), runs = (x.tables(indexed_tables()) for x in builds), [x.manifest.golden_runs for x in builds]
    settings = [{c: build_settings(x.manifest, c) for c in x.collections} for x in builds]
    found = compare(older, newer, runs[0], runs[1], settings_a=settings[0], settings_b=settings[1])
    return found, compare_text(found)


def _kept_build(home: Home, build_id: str) -> Build:
    path = home.builds / build_id.zfill(6)
    is_number = build_id.isascii() and build_id.isdigit() and len(path.name) <= _MAX_DIGITS
    if not is_number or not (path / "manifest.json").is_file():
        available = ", ".join(sorted(p.parent.name for p in home.builds.glob("*/manifest.json"))) or "none"
        raise PalimpsestError(f"build {build_id[:20]}: not kept in home {home.path}; it has {available}")
    return Build(path)


# `palimpsest home upgrade`: makes the build again as this version makes it, judges it, publishes it.

_LOCK_WAIT_S = 5.0
_MAX_REASONS = 3


@dataclass(frozen=True)
class Upgrade(JsonRecord):
    """What an upgrade did; `before` equals `format` where there was nothing to do."""

    before: int
    format: int
    build_id: str
    digest: str
    memories: int
    seconds: float


def upgrade_home(home: Home, corpora: list[Path] | None = None) -> Upgrade:
    """Upgrades a home of an earlier format in place; one of this format is left as it is.

    Builds of the earlier format are removed once the new one is published: no command of this version reads them.

    Args:
        home: the home.
        corpora: where the folders of its collections are, where the home does not know.

    Raises:
        PalimpsestError: nothing is published, a newer version wrote the home, the settings of a collection are not
            there, or another process is writing the home.
        Refused: the new build breaks an invariant, or the gate closed; the home stays as it was.
    """
    started = time.perf_counter()
    before = found_format(home)
    with home.lock(_LOCK_WAIT_S):
        if before == FORMAT:
            write_format(home.path)
        else:
            stage_upgrade(home, corpora)
            _publish(home)
            current = published(home)
            for old in kept_builds(home):
                if current is not None and old.build_id < current.build_id:
                    shutil.rmtree(old.path)
        build = published(home)
    assert build is not None
    manifest, seconds = build.manifest, round(time.perf_counter() - started, 3)
    return Upgrade(before, FORMAT, build.build_id, manifest.digest, manifest.memories, seconds)


def _publish(home: Home) -> None:
    check_staged(home)
    if not staged(home).manifest.violations:
        judge_staged(home)
    if reasons := refusal(staged(home).manifest):
        why = staged(home).manifest.gate.get("summary", [])[1:] or reasons[:_MAX_REASONS]
        raise Refused(f"home {home.path}: the upgraded build is staged, not published", why)
    publish_build(home)
