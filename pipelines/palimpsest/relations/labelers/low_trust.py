"""Trust decides after the label: an UPDATE by a source that is trusted less retires nothing and is proposed instead.

The labeler's own result stays in the evidence: with another `trust` setting nothing is labeled, or paid, again.
"""

import json

import polars as pl

from palimpsest.relations.labelers.label_types import DISPUTED, SUPERSEDED, Evidence
from palimpsest.store.collection_config import DEFAULT_TRUST

# Why `palimpsest review` lists a relation. No labeler imports this: its labels do not depend on it.

LOW_TRUST = "low trust"
"""The evidence rule of an UPDATE that was refused because its source is trusted less."""
PART_ENDED = "part ended"
"""An UPDATE that ended a part of a memory, of which the rest is still latest."""
REVIEW_REASONS = ("premise retired", LOW_TRUST, "low confidence", DISPUTED, PART_ENDED, "abstained")
"""The most serious first."""


def refuse_low_trust(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns relations, in any order; an UPDATE of a memory that is trusted more becomes NONE and disputes it.

    Its evidence is `{"rule": "low trust", "instead_of": "UPDATE", "newer_trust", "older_trust", "label_evidence"}`, the
    last as the labeler gave it. Memories without trust, as earlier builds made them, have the default.

    Args:
        relations: label, conflict, consequence, evidence, newer_id and older_id of relations that no person decided.
        memories: the memories table.
    """
    trust = memories.select("memory_id", pl.col("trust").fill_null(DEFAULT_TRUST))
    if relations.is_empty() or trust["trust"].n_unique() < 2:
        return relations
    for side in ("newer", "older"):
        of_side = trust.rename({"memory_id": f"{side}_id", "trust": f"{side}_trust"})
        relations = relations.join(of_side, on=f"{side}_id", how="left", maintain_order="left")
    is_refused = (pl.col("label") == "UPDATE") & (pl.col("newer_trust") < pl.col("older_trust")).fill_null(False)
    refused = relations.filter(is_refused)
    evidence = [_refusal(*r) for r in refused.select("evidence", "newer_trust", "older_trust").iter_rows()]
    refused = _relabeled(refused, "NONE", None, DISPUTED, evidence)
    return pl.concat([relations.filter(~is_refused), refused]).drop("newer_trust", "older_trust")


def labeled_without_trust(relations: pl.DataFrame) -> pl.DataFrame:
    """Returns relations as their labelers gave them, what `refuse_low_trust` changed undone; in any order."""
    refused = relations.filter(is_low_trust())
    evidence = [to_json(json.loads(e)["label_evidence"]) for e in refused["evidence"]]
    return pl.concat(
        [relations.filter(~is_low_trust()), _relabeled(refused, "UPDATE", "dynamic", SUPERSEDED, evidence)]
    )


def is_low_trust() -> pl.Expr:
    """Returns whether a relation is an UPDATE that was refused, as an expression."""
    return pl.col("evidence").fill_null("").str.contains(f'"rule": "{LOW_TRUST}"', literal=True)


def to_json(evidence: Evidence) -> str:
    """Returns evidence as the relations table stores it."""
    return json.dumps(evidence, sort_keys=True, ensure_ascii=False)


def _refusal(evidence: str, newer_trust: float, older_trust: float) -> str:
    trust = {"newer_trust": newer_trust, "older_trust": older_trust}
    of_label = {"instead_of": "UPDATE", "label_evidence": json.loads(evidence)}
    return to_json({"rule": LOW_TRUST, **trust, **of_label})


def _relabeled(
    relations: pl.DataFrame, label: str, conflict: str | None, consequence: str, evidence: list[str]
) -> pl.DataFrame:
    return relations.with_columns(
        pl.Series("evidence", evidence, pl.String),
        label=pl.lit(label),
        conflict=pl.lit(conflict, pl.String),
        consequence=pl.lit(consequence),
    )
