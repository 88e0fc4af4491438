"""A change of the embedder is judged against the published build too: both spaces answer the same golden questions."""

from dataclasses import replace

from palimpsest.memories.embedders.space import Space
from palimpsest_eval.gate.verdict import GATED, CollectionVerdict
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.metrics.significance import compare_paired


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
