"""The gate: may this build be published? A pure decision from a run, a baseline and the invariants."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from palimpsest.eval.gate.baseline import ACCEPT, Baseline
from palimpsest.eval.gate.build_settings import SettingChange, changed_code, changed_settings
from palimpsest.eval.gate.comparable import differences, drafts_left, questions_gone
from palimpsest.eval.gate.invariants import Violation
from palimpsest.eval.golden.by_type import by_type
from palimpsest.eval.golden.golden_run import FILLED, RETIRED, SIGNALS, STALE, GateRun, Hit
from palimpsest.eval.metrics.measures import MetricError, percentiles
from palimpsest.eval.metrics.significance import ALPHA, MINIMUM_EFFECT, Comparison, compare_paired

Status = Literal["passed", "failed", "unjudged"]

BUDGET_MS = 400.0  # the product's promise
TEAM_MS = 40.0  # above it a warning
# Metrics where less is a loss, in the order they are told.
GATED = ("R@5", "nDCG@10", "packed_recall")
_EPSILON = 1e-6
_SHOWN, _NAMED = 20, 5


@dataclass(frozen=True)
class Broken:
    """A question that got worse: its metrics and top results in the baseline and now."""

    question_id: str
    question: str
    old: Mapping[str, float]
    new: Mapping[str, float]
    old_results: Sequence[Hit]
    new_results: Sequence[Hit]

    @property
    def loss(self) -> float:
        """The sum of what the gated metrics lost and of what stale@5 gained."""
        return sum((self.new[m] - self.old[m]) if m == STALE else (self.old[m] - self.new[m]) for m in self.old)


@dataclass(frozen=True)
class Decision:
    """The gate's answer for one collection. `unjudged` may be published, with a warning; `failed` may not.

    `types` holds the gated metrics by type of question, `types_before` the baseline's on the questions in both,
    `against` who accepted the baseline, when, why and of which build, `texts` the first words of the memories that
    broken questions got and that the build still has. `settings_changed` and `code_changed` are what differs from the
    build of the baseline. `run` is what was judged, for keeping with the build; it is not part of the JSON.
    """

    collection: str
    status: Status
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, Comparison] = field(default_factory=dict)
    stale: tuple[float, float] | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()
    types: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    types_before: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    against: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    settings_changed: tuple[SettingChange, ...] = ()
    code_changed: tuple[str, ...] = ()
    queries: int = 0
    unanswerable: Mapping[str, float] = field(default_factory=dict)
    quality: Mapping[str, float] = field(default_factory=dict)
    steps_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: GateRun | None = None

    @property
    def publishable(self) -> bool:
        """Whether readers may see the build."""
        return self.status != "failed"

    @property
    def smallest_loss(self) -> float | None:
        """The smallest loss of R@5 that this comparison could have seen."""
        comparison = self.metrics.get("R@5")
        return comparison.smallest_loss if comparison else None

    def to_json(self) -> dict[str, Any]:
        """Returns the decision as JSON values."""
        return {
            "collection": self.collection,
            "status": self.status,
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "queries": self.queries,
            "smallest_loss": self.smallest_loss,
            "metrics": {m: asdict(c) for m, c in self.metrics.items()},
            "means": dict(self.means),
            STALE: None if self.stale is None else {"old": self.stale[0], "new": self.stale[1]},
            "quality": dict(self.quality),
            "latency_ms": dict(self.latency_ms),
            "steps_ms": {step: dict(told) for step, told in self.steps_ms.items()},
            "broken": [asdict(b) for b in self.broken],
            "baseline": dict(self.against),
            "texts": dict(self.texts),
            "settings_changed": [asdict(c) for c in self.settings_changed],
            "code_changed": list(self.code_changed),
            "by_type": {k: {"new": dict(v), "old": dict(self.types_before.get(k, {}))} for k, v in self.types.items()},
            "unanswerable": {"questions": len(self.unanswerable), "answered": sum(self.unanswerable.values())},
        }

    def markdown(self) -> str:
        """Returns the decision for a pull request: reasons, metrics, and the questions that broke."""
        from palimpsest.eval.gate.gate_markdown import decision_markdown

        return decision_markdown(self, _SHOWN)


@dataclass(frozen=True)
class GateSummary:
    """The gate's answer for a home: failed if any collection failed, unjudged if any could not be judged."""

    status: Status
    decisions: tuple[Decision, ...]

    @property
    def publishable(self) -> bool:
        """Whether readers may see the build."""
        return self.status != "failed"

    @property
    def settings_changed(self) -> list[str]:
        """What differs from the settings of the baselines' builds, `collection.name old -> new`."""
        return [c.text(d.collection) for d in self.decisions for c in d.settings_changed]

    @property
    def exit_code(self) -> int:
        """0 only where every collection was judged and passed."""
        return 0 if self.status == "passed" else 1

    def to_json(self) -> dict[str, Any]:
        """Returns `{"status", "publishable", "collections": [..]}`."""
        return {
            "status": self.status,
            "publishable": self.publishable,
            "collections": [d.to_json() for d in self.decisions],
        }

    def markdown(self) -> str:
        """Returns one section a collection."""
        return "\n".join(d.markdown() for d in self.decisions)


def combine(decisions: Iterable[Decision]) -> GateSummary:
    """Joins the decisions of a home's collections; no collection at all is a failure (invariant 10)."""
    ordered = tuple(sorted(decisions, key=lambda d: d.collection))
    statuses = {d.status for d in ordered}
    if not ordered or "failed" in statuses:
        return GateSummary("failed", ordered)
    return GateSummary("unjudged" if "unjudged" in statuses else "passed", ordered)


def decide(
    run: GateRun,
    baseline: Baseline | None,
    has_golden: bool,
    invariants: Sequence[Violation] = (),
    *,
    minimum_effect: float = MINIMUM_EFFECT,
    alpha: float = ALPHA,
    budget_ms: float = BUDGET_MS,
    team_ms: float = TEAM_MS,
) -> Decision:
    """Decides whether the run's build may be published (decision 9, invariant 10).

    Fails on: a violated invariant; a leak; a citation that does not hold; a question that cannot be judged; nothing
    judged or answered; a value that is missing or not a number; p95 over the absolute budget; no baseline; a question
    of the baseline that the golden set no longer has; a significant loss of at least `minimum_effect` in R@5, nDCG@10
    or recall after packing; any rise of stale@5; an answer that is still true and was retired; vectors or words that no
    longer score. Without a golden set only the invariants are judged.

    Args:
        run: what the golden questions got; `GateRun(collection)` where there is no golden set.
        baseline: the committed run, None where there is none.
        has_golden: whether the collection has a golden set.
        invariants: violations found by `check_invariants`.
        minimum_effect: absolute loss of a mean that is worth failing for.
        alpha: level of the paired test.
        budget_ms: absolute p95 of a whole search; above it the gate fails.
        team_ms: above it the gate warns.
    """
    reasons = [f"invariant {v.invariant} ({v.name}): {v.message}: {', '.join(v.examples)}" for v in invariants]
    reasons += [f"leak: {leak}" for leak in run.leaks[:_SHOWN]] + list(run.errors)
    if run.bad_citations:
        reasons.append(
            f"invariant 8 (citations): {len(run.bad_citations)} of {run.cited} quoted lines do not hold:"
            f" {'; '.join(run.bad_citations[:3])}"
        )
    if not has_golden:
        warning = f"no golden set (data/golden/{run.collection}.jsonl): only the invariants were checked"
        return Decision(run.collection, "failed" if reasons else "unjudged", tuple(reasons), (warning,))
    warnings: list[str] = []
    told: dict[str, Any] = {
        "run": run,
        "latency_ms": run.latency_ms,
        "queries": len(run.per_query),
        "unanswerable": run.unanswerable,
        "quality": run.quality,
        "steps_ms": {step: percentiles(values) for step, values in run.steps_ms.items() if values},
    }
    try:
        told["means"] = run.scores.mean
    except MetricError as e:
        if not run.errors:
            reasons.append(str(e))
    else:
        warnings += drafts_left(run)
        told["types"] = by_type(run.per_query, run.types, [m for m in (*GATED, STALE) if m in told["means"]])
        reasons += _unusable(run)
        reasons += _latency(run, budget_ms, team_ms, warnings)
        if baseline is None:
            reasons.append(f"no baseline (data/baselines/{run.collection}.json): look at the figures, then {ACCEPT}")
        elif all(m in told["means"] for m in (*GATED, STALE)):
            told |= _compare(run, baseline, reasons, warnings, minimum_effect, alpha)
    return Decision(run.collection, "failed" if reasons else "passed", tuple(reasons), tuple(warnings), **told)


def _unusable(run: GateRun) -> list[str]:
    reasons = []
    if not run.answered:
        reasons.append(f"no judged query was answered: {len(run.per_query)} asked, none got a result")
    missing = [m for m in (*GATED, STALE) if any(m not in values for values in run.per_query.values())]
    return reasons + [f"the run has no {m}" for m in missing]


def _latency(run: GateRun, budget_ms: float, team_ms: float, warnings: list[str]) -> list[str]:
    p95_ms = run.latency_ms.get("p95", math.nan)
    if not math.isfinite(p95_ms):
        return ["latency: p95 was not measured"]
    if p95_ms > budget_ms:
        return [f"latency: p95 {p95_ms:.0f} ms is over the budget of {budget_ms:.0f} ms"]
    if p95_ms > team_ms:
        warnings.append(f"latency: p95 {p95_ms:.0f} ms is over {team_ms:.0f} ms; the gate closes at {budget_ms:.0f} ms")
    return []


def _compare(
    run: GateRun, baseline: Baseline, reasons: list[str], warnings: list[str], minimum_effect: float, alpha: float
) -> dict[str, Any]:
    """Compares the questions that both runs judged; adds to `reasons` and `warnings`."""
    shared = sorted(run.per_query.keys() & baseline.per_query.keys())
    settings = changed_settings(baseline.build_settings, run.build_settings)
    code = changed_code(baseline.build_settings, run.build_settings)
    told: dict[str, Any] = {"settings_changed": settings, "code_changed": code}
    reasons += questions_gone(run, baseline)
    warnings += differences(run, baseline, settings)
    if baseline.collection != run.collection:
        reasons.append(f"the baseline is of collection {baseline.collection!r}; {ACCEPT}")
    if 2 * len(shared) < max(len(run.per_query), len(baseline.per_query)):
        reasons.append(f"only {len(shared)} questions are in both the golden set and the baseline; {ACCEPT}")
        return told
    missing = [m for m in (*GATED, STALE) for q in shared if not math.isfinite(baseline.per_query[q].get(m, math.nan))]
    if missing:
        reasons.append(f"the baseline has no {missing[0]} for a question, or not a number; {ACCEPT}")
        return told
    metrics = {}
    for m in GATED:
        before, after = [baseline.per_query[q][m] for q in shared], [run.per_query[q][m] for q in shared]
        metrics[m] = c = compare_paired(before, after, minimum_effect, alpha)
        if c.lost:
            reasons.append(f"{m} fell from {c.old:.3f} to {c.new:.3f} ({c.difference:+.3f}, p {c.p:.4f})")
        if c.smallest_loss is None:
            reasons.append(f"the baseline's {m} is 0 on every question: no loss could be seen; {ACCEPT}")
    silent = dict.fromkeys(SIGNALS, "a part of the ranking no longer scores") | {FILLED: "fewer results come than did"}
    for m, meaning in silent.items():
        before, after = ([side[q].get(m, math.nan) for q in shared] for side in (baseline.per_query, run.per_query))
        if all(map(math.isfinite, (*before, *after))) and (c := compare_paired(before, after)).lost:
            reasons.append(f"{m} fell from {c.old:.3f} to {c.new:.3f}: {meaning}")
    gone = [q for q in shared if baseline.per_query[q].get(RETIRED, 1.0) < run.per_query[q].get(RETIRED, 0.0)]
    if gone:
        named = ", ".join(gone[:_NAMED])
        reasons.append(f"{len(gone)} answers that are still true were retired since the baseline: {named}")
    old, new = (math.fsum(side[q][STALE] for q in shared) / len(shared) for side in (baseline.per_query, run.per_query))
    if new > old + _EPSILON:
        reasons.append(f"{STALE} rose from {old:.3f} to {new:.3f}: outdated memories are among the results")
    types_before = by_type({q: baseline.per_query[q] for q in shared}, run.types, (*GATED, STALE))
    against = {name: getattr(baseline, name) for name in ("build_id", "commit", "accepted_by", "accepted_at", "why")}
    return told | {
        "metrics": metrics,
        "stale": (old, new),
        "broken": _broken(run, baseline, shared),
        "types_before": types_before,
        "against": against,
    }


def _broken(run: GateRun, baseline: Baseline, shared: Sequence[str]) -> tuple[Broken, ...]:
    told = (*GATED, STALE)
    broken = [
        Broken(
            question_id=q,
            question=run.questions.get(q, ""),
            old={m: baseline.per_query[q][m] for m in told},
            new={m: run.per_query[q][m] for m in told},
            old_results=tuple(baseline.results.get(q, ())),
            new_results=tuple(run.results.get(q, ())),
        )
        for q in shared
        if any(run.per_query[q][m] < baseline.per_query[q][m] - _EPSILON for m in GATED)
        or run.per_query[q][STALE] > baseline.per_query[q][STALE] + _EPSILON
    ]
    return tuple(sorted(broken, key=lambda b: (-b.loss, b.question_id)))
