"""The gate: may a build be published? A pure decision from a run, a baseline and the invariants."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from palimpsest.core.files import counted
from palimpsest.memories.vector_space import Space
from palimpsest_eval.gate.baseline import (
    ACCEPT,
    Baseline,
    changed_code,
    changed_settings,
    differences,
    drafts_left,
    questions_gone,
    questions_retracted,
)
from palimpsest_eval.gate.invariants import Violation
from palimpsest_eval.gate.verdict import FOUND, GATED, ROWS, BrokenQuestion, CollectionVerdict, Row, Status
from palimpsest_eval.golden.golden_run import (
    ABSTENTION,
    BROAD_PRECISION,
    DUPLICATES,
    IRRELEVANT,
    MIN_BROAD,
    RETIRED,
    STALE,
    GoldenRun,
    by_type,
)
from palimpsest_eval.metrics import ALPHA, Comparison, MetricError, compare_paired, percentiles, share_above

BUDGET_MS = 400.0  # the product's promise
TEAM_MS = 40.0  # above it a warning
_SHOWN = (*GATED, STALE)  # by type of question, and of each question that got worse
_JUDGED = (*_SHOWN, IRRELEVANT)
_EPSILON = 1e-6
_MAX_LEAKS, _MAX_NAMED, _MAX_CITATIONS = 20, 5, 3


@dataclass
class _Findings:
    """Reasons that close the gate, and warnings that do not, in the order they are reported."""

    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def decide(
    run: GoldenRun,
    baseline: Baseline | None,
    has_golden: bool,
    invariants: Sequence[Violation] = (),
    *,
    alpha: float = ALPHA,
    budget_ms: float = BUDGET_MS,
    team_ms: float = TEAM_MS,
) -> CollectionVerdict:
    """Decides whether the run's build may be published (decision 9, invariant 10).

    Fails on: a violated invariant; a leak; a citation that is not correct; a question that cannot be judged; nothing
    judged or answered; a value that is missing or not a number; p95 significantly over the absolute budget; no
    baseline; a question of the baseline that the golden set no longer has; a row of `ROWS` that got worse by its
    smallest effect or more, significantly; an answer that is still true and was retired. What a question costs may
    rise where it finds more. Without a golden set only the invariants are judged.

    Args:
        run: what the golden questions got; `GoldenRun(collection)` where there is no golden set.
        baseline: the committed run, None where there is none.
        has_golden: whether the collection has a golden set.
        invariants: violations found by `check_invariants`.
        alpha: level of the tests.
        budget_ms: absolute p95 of a whole search; significantly above it the gate fails.
        team_ms: above it the gate warns.
    """
    found = _Findings(_broken_rules(run, invariants))
    if not has_golden:
        warning = (
            f"no golden set (data/golden/{run.collection}.jsonl): only the invariants were checked;"
            " palimpsest gate --init drafts one"
        )
        unjudged: Status = "failed" if found.reasons else "unjudged"
        return CollectionVerdict(run.collection, unjudged, tuple(found.reasons), (warning,))
    verdict = _verdict_with_figures(run)
    try:
        means = run.scores.mean
    except MetricError as e:
        if not run.errors:
            found.reasons.append(str(e))
    else:
        types = by_type(run.per_query, run.types, [m for m in _SHOWN if m in means])
        verdict = replace(verdict, means=means, types=types)
        found.warnings += drafts_left(run) + questions_retracted(run)
        found.reasons += _unusable(run)
        if baseline is None:
            found.reasons.append(
                f"no baseline (data/baselines/{run.collection}.json): look at the figures, then {ACCEPT}"
            )
        elif all(m in means for m in _JUDGED):
            verdict = _against_baseline(verdict, run, baseline, found, alpha)
        _check_latency(run, budget_ms, team_ms, alpha, found)
    status: Status = "failed" if found.reasons else "passed"
    return replace(verdict, status=status, reasons=tuple(found.reasons), warnings=tuple(found.warnings))


def _verdict_with_figures(run: GoldenRun) -> CollectionVerdict:
    """Returns a failed verdict with the figures of a run that are reported and not judged."""
    return CollectionVerdict(
        run.collection,
        "failed",
        run=run,
        latency_ms=run.latency_ms,
        queries=len(run.per_query),
        unanswerable=run.unanswerable,
        quality=run.quality,
        steps_ms={step: percentiles(values) for step, values in run.steps_ms.items() if values},
    )


def _broken_rules(run: GoldenRun, invariants: Sequence[Violation]) -> list[str]:
    """Returns a reason for each broken invariant, leak and bad citation, and for questions that cannot be judged."""
    reasons = [v.text for v in invariants]
    reasons += [f"leak: {leak}" for leak in run.leaks[:_MAX_LEAKS]] + list(run.errors)
    if run.bad_citations:
        reasons.append(
            f"invariant 8 (citations): {len(run.bad_citations)} of {run.cited} quoted lines do not hold:"
            f" {'; '.join(run.bad_citations[:_MAX_CITATIONS])}"
        )
    return reasons


def _unusable(run: GoldenRun) -> list[str]:
    reasons = []
    if not run.answered:
        reasons.append(f"no judged query was answered: {counted(len(run.per_query), 'query')}, none got a result")
    missing = [m for m in _JUDGED if any(m not in values for values in run.per_query.values())]
    return reasons + [f"the run has no {m}" for m in missing]


def _check_latency(run: GoldenRun, budget_ms: float, team_ms: float, alpha: float, found: _Findings) -> None:
    """Adds what is wrong with the latency of a run; called last, since its advice depends on the other reasons."""
    p95_ms = run.latency_ms.get("p95", math.nan)
    if not math.isfinite(p95_ms):
        found.reasons.append("latency: p95 was not measured")
        return
    slow = sum(ms > budget_ms for ms in run.unhindered_ms)
    p = share_above(run.unhindered_ms, budget_ms) if run.unhindered_ms else 0.0
    measured = f"latency: p95 {p95_ms:.0f} ms is over the budget of {budget_ms:.0f} ms; without waiting for a processor"
    measured += f" {slow} of {counted(len(run.unhindered_ms), 'question', 'is')} over it (p {p:.4f})"
    if p95_ms > budget_ms and p < alpha:
        others = "" if found.reasons else "retrieval itself did not get worse, "
        found.reasons.append(f"{measured}; {others}run it again when the machine is idle")
    elif p95_ms > budget_ms:
        found.warnings.append(f"{measured}: chance, or a busy machine")
    elif p95_ms > team_ms:
        found.warnings.append(
            f"latency: p95 {p95_ms:.0f} ms is over {team_ms:.0f} ms; the gate closes at {budget_ms:.0f} ms"
        )


def _against_baseline(
    verdict: CollectionVerdict,
    run: GoldenRun,
    baseline: Baseline,
    found: _Findings,
    alpha: float,
) -> CollectionVerdict:
    """Compares the questions that both runs judged; adds to `found` and returns the verdict with the comparison."""
    shared = sorted(run.per_query.keys() & baseline.per_query.keys())
    settings = changed_settings(baseline.build_settings, run.build_settings)
    code = changed_code(baseline.build_settings, run.build_settings)
    verdict = replace(verdict, settings_changed=settings, code_changed=code)
    found.reasons += questions_gone(run, baseline)
    found.warnings += differences(run, baseline, settings)
    if baseline.collection != run.collection:
        found.reasons.append(f"the baseline is of collection {baseline.collection!r}; {ACCEPT}")
    if 2 * len(shared) < max(len(run.per_query), len(baseline.per_query)):
        found.reasons.append(
            f"only {counted(len(shared), 'question', 'is')} in both the golden set and the baseline; {ACCEPT}"
        )
        return verdict
    missing = [m for m in _JUDGED for q in shared if not math.isfinite(baseline.per_query[q].get(m, math.nan))]
    if missing:
        found.reasons.append(f"the baseline has no {missing[0]} for a question, or not a number; {ACCEPT}")
        return verdict
    metrics = _compare_rows(run, baseline, shared, found, alpha)
    _compare_retired(run, baseline, shared, found)
    verdict = replace(verdict, metrics=metrics)
    found.warnings += [f"the baseline lies behind: {line}; {ACCEPT}" for line in verdict.lagging]
    return replace(
        verdict,
        compared=_means_of_both(run, baseline, shared) | {m: (c.old, c.new) for m, c in metrics.items()},
        broken=_broken_questions(run, baseline, shared),
        types_before=by_type({q: baseline.per_query[q] for q in shared}, run.types, _SHOWN),
        against=baseline.origin,
    )


def _means_of_both(run: GoldenRun, baseline: Baseline, shared: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns the means of the baseline and of the run of each measure that both have on all shared questions."""
    found = {}
    for m in sorted({m for q in shared for m in run.per_query[q]}):
        before, after = ([side[q].get(m, math.nan) for q in shared] for side in (baseline.per_query, run.per_query))
        if all(map(math.isfinite, (*before, *after))):
            found[m] = (math.fsum(before) / len(shared), math.fsum(after) / len(shared))
    if DUPLICATES in found:
        found["duplicate_share"] = found[DUPLICATES]  # its name in `GoldenRun.quality`
    if "p95" in baseline.latency_ms and "p95" in run.latency_ms:
        found["p95_ms"] = (baseline.latency_ms["p95"], run.latency_ms["p95"])
    return found


def _values(side: Baseline | GoldenRun, row: Row) -> Mapping[str, float]:
    """Returns the values of a row by question, of those that have one."""
    if row.name == ABSTENTION:
        return side.caught
    if row.name == BROAD_PRECISION:
        return side.precision
    return {q: v[row.name] for q, v in side.per_query.items() if math.isfinite(v.get(row.name, math.nan))}


def _compare_rows(
    run: GoldenRun, baseline: Baseline, shared: Collection[str], found: _Findings, alpha: float
) -> dict[str, Comparison]:
    """Compares every row, question by question; adds a reason for each that got worse."""
    broad = [q for q in shared if q in run.precision]
    if unknown := [q for q in broad if not math.isfinite(baseline.precision.get(q, math.nan))]:
        questions = f"{counted(len(unknown), 'question')} with {MIN_BROAD} or more pieces of evidence"
        found.reasons.append(f"the baseline has no P@5 of {questions}; {ACCEPT}")
    finds_more = {q for q in shared for m in FOUND if run.per_query[q][m] > baseline.per_query[q][m] + _EPSILON}
    compared = {}
    for row in ROWS:
        before, after = _values(baseline, row), _values(run, row)
        if not (judged := sorted(before.keys() & after.keys())):
            continue
        pairs = [(before[q], after[q], row.is_cost and q in finds_more) for q in judged]
        compared[row.name] = c = _compare_row(row, pairs, alpha)
        if row.name in GATED and c.smallest_loss is None:
            found.reasons.append(f"the baseline's {row.name} is 0 on every question: no loss could be seen; {ACCEPT}")
        if c.lost:
            found.reasons.append(row.change(c))
    return compared


def _compare_row(row: Row, pairs: Sequence[tuple[float, float, bool]], alpha: float) -> Comparison:
    """Compares (before, now, whether the question finds more than before): such a question's rise is no loss."""
    before, after = [b for b, _, _ in pairs], [a for _, a, _ in pairs]
    if not row.is_cost:
        return compare_paired(before, after, row.effect, alpha)
    counted = [min(b, a) if finds_more else a for b, a, finds_more in pairs]
    c = compare_paired([1 - b for b in before], [1 - a for a in counted], row.effect, alpha)
    old, new = (math.fsum(side) / len(side) for side in (before, after))
    # A few questions prove nothing here: whatever a small corpus gains fills their contexts.
    return replace(c, old=old, new=new, difference=new - old, lost=c.lost and c.p < alpha)


def _compare_retired(run: GoldenRun, baseline: Baseline, shared: Sequence[str], found: _Findings) -> None:
    before, after = baseline.per_query, run.per_query
    lost = [q for q in shared if before[q].get(RETIRED, 1.0) < after[q].get(RETIRED, 0.0)]
    if lost:
        named = ", ".join(lost[:_MAX_NAMED])
        found.reasons.append(f"{counted(len(lost), 'answer')} still true and retired since the baseline: {named}")


def _broken_questions(run: GoldenRun, baseline: Baseline, shared: Sequence[str]) -> tuple[BrokenQuestion, ...]:
    broken = [
        BrokenQuestion(
            question_id=q,
            question=run.questions.get(q, ""),
            old={m: baseline.per_query[q][m] for m in _SHOWN},
            new={m: run.per_query[q][m] for m in _SHOWN},
            old_results=tuple(baseline.results.get(q, ())),
            new_results=tuple(run.results.get(q, ())),
        )
        for q in shared
        if _got_worse(baseline.per_query[q], run.per_query[q])
    ]
    return tuple(sorted(broken, key=lambda b: (-b.loss, b.question_id)))


def _got_worse(old: Mapping[str, float], new: Mapping[str, float]) -> bool:
    return any(new[m] < old[m] - _EPSILON for m in GATED) or new[STALE] > old[STALE] + _EPSILON


# A change of the embedder is judged against the published build too: both spaces answer the same golden questions.


def judge_embedder_change(
    verdict: CollectionVerdict, old: Space, new: Space, published: GoldenRun | None
) -> CollectionVerdict:
    """Returns the verdict with the figures of both spaces; failed where the new one is significantly worse.

    Args:
        verdict: on the build with the new space.
        old: the published build's space.
        new: the build's space.
        published: what the golden questions get from the published build; None where there is no golden set.
    """
    change = f"{verdict.collection}: {old.name} -> {new.name}"
    before = {} if published is None else published.per_query
    now = {} if verdict.run is None else verdict.run.per_query
    shared = sorted(q for q in before.keys() & now.keys() if all(m in before[q] and m in now[q] for m in GATED))
    if not shared:
        return replace(verdict, embedder=f"{change}, no golden question compares them")
    compared = {m: compare_paired([before[q][m] for q in shared], [now[q][m] for q in shared]) for m in GATED}
    figures = ", ".join(f"{m} {c.old:.4f} -> {c.new:.4f}" for m, c in compared.items())
    found = replace(verdict, embedder=f"{change}, {figures}, {len(shared)} golden questions")
    if not (worse := [m for m, c in compared.items() if c.lost]):
        return found
    reason = f"embedder {old.name} -> {new.name} is worse than the published build in {', '.join(worse)}: {figures}"
    return replace(found, status="failed", reasons=(*found.reasons, reason))
