"""Scopes whose premises need not be searched again: nothing that the search reads differs from an earlier build."""

from dataclasses import dataclass

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.recency import recency_columns
from palimpsest.store.tables import completed

_SEEDS = (1, 2)  # two sums of 64-bit hashes: that both are equal by chance never happens


@dataclass(frozen=True)
class PremiseInputs:
    """What premises are searched in.

    Attributes:
        relations: as labelers and people gave them, without those to premises.
        memories: the memories table.
        documents: the documents table, all versions.
    """

    relations: pl.DataFrame
    memories: pl.DataFrame
    documents: pl.DataFrame


def unchanged_scopes(now: PremiseInputs, earlier: PremiseInputs) -> pl.DataFrame:
    """Returns the scopes whose memories, order and relations are the same in both."""
    sums = _scope_sums(now)
    return sums.join(_scope_sums(earlier), on=sums.columns, how="inner", nulls_equal=True).select(SCOPE)


def _scope_sums(inputs: PremiseInputs) -> pl.DataFrame:
    memories = inputs.memories
    state = recency_columns(memories, inputs.documents).with_columns(
        memories["text"],
        line=pl.col("line") - pl.col("line").min().over(SCOPE),  # counted within the scope: others come and go
    )
    relations = completed("relations", inputs.relations)
    return _row_sums(state, "memories").join(_row_sums(relations, "relations"), on=SCOPE, how="left")


def _row_sums(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Returns the number of rows of each scope and sums of their hashes, which do not depend on order."""
    row = pl.struct(sorted(set(rows.columns) - set(SCOPE)))
    sums = [row.hash(seed).sum().alias(f"{name}_{seed}") for seed in _SEEDS]
    return rows.group_by(SCOPE).agg(pl.len().alias(f"{name}_rows"), *sums)
