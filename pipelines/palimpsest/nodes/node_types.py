"""The type of each entity as a node: what most evidence shows, `concept` where none does."""

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.store.graph_decisions import NODE_TYPES

DEFAULT_TYPE = "concept"
_MIN_SCORE = 0.7
_MAX_REPEATS = 9.0  # of one rule that count
_CODE = r"^([A-Z]{1,5}\d*-?)\d"
_SHARE_OF_PREFIX = 0.6


def node_types(entities: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, type, score, evidence): the type with the highest score; `evidence` is a list of structs.

    A rule adds its weight times the square root of how often it applies, at most threefold. Of equal scores the type
    first in `NODE_TYPES` counts. Serial numbers take the type of most numbers with the same letters, and first names
    that of the persons who have them.

    Args:
        entities: the entities table.
        evidence: as `type_evidence` returns it.
    """
    rules = evidence.group_by("node_id", "type", "rule").agg(
        weight=pl.col("weight").max(),
        count=pl.len(),
        noun=pl.col("noun").drop_nulls().mode().min(),
        memory_id=pl.col("memory_id").min(),
    )
    rules = rules.with_columns(
        score=(pl.col("weight") * pl.min_horizontal(pl.col("count"), _MAX_REPEATS).sqrt()).round(3)
    )
    rank = pl.col("type").replace_strict({t: i for i, t in enumerate(NODE_TYPES)}, return_dtype=pl.Int64)
    shown = pl.struct("rule", "noun", "count", "memory_id")
    scores = (
        rules.sort("node_id", "score", "rule", descending=[False, True, False])
        .group_by("node_id", "type", maintain_order=True)
        .agg(pl.col("score").sum().round(3), evidence=shown)
        .with_columns(rank=rank)
        .sort("node_id", "score", "rank", descending=[False, True, False])
        .unique("node_id", keep="first", maintain_order=True)
        .filter(pl.col("score") >= _MIN_SCORE)
        .select("node_id", "type", "score", "evidence")
    )
    typed = entities.select(node_id="entity_id").join(scores, on="node_id", how="left")
    typed = _with_first_names(entities, _with_code_types(entities, typed))
    return typed.with_columns(pl.col("type").fill_null(DEFAULT_TYPE)).sort("node_id")


def _with_code_types(entities: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Gives serial numbers without a type that of most others with the same letters in their scope."""
    prefix = pl.col("name").str.extract(_CODE, 1).str.replace_all(r"\d", "")
    codes = entities.select(*SCOPE, node_id="entity_id", prefix=prefix).drop_nulls("prefix").join(typed, on="node_id")
    counts = codes.drop_nulls("type").group_by(*SCOPE, "prefix", "type").agg(n=pl.len())
    most = (
        counts.with_columns(share=pl.col("n") / pl.col("n").sum().over(*SCOPE, "prefix"))
        .filter(pl.col("share") >= _SHARE_OF_PREFIX)
        .sort("type")
        .unique([*SCOPE, "prefix"], keep="first", maintain_order=True)
        .select(*SCOPE, "prefix", like=pl.col("type"))
    )
    found = codes.filter(pl.col("type").is_null()).join(most, on=[*SCOPE, "prefix"]).select("node_id", "like")
    return (
        typed.join(found, on="node_id", how="left").with_columns(pl.coalesce("type", "like").alias("type")).drop("like")
    )


def _with_first_names(entities: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Makes a person of a single word without a type that is the first name of a person in its scope."""
    named = entities.select(*SCOPE, "name", node_id="entity_id").join(typed.select("node_id", "type"), on="node_id")
    words = pl.col("name").str.split(" ")
    first = named.filter((pl.col("type") == "person") & (words.list.len() > 1)).select(*SCOPE, name=words.list.first())
    short = named.filter(pl.col("type").is_null()).join(first.unique(), on=[*SCOPE, "name"], how="semi")
    is_short = pl.col("node_id").is_in(short["node_id"].implode())
    return typed.with_columns(pl.when(is_short).then(pl.lit("person")).otherwise("type").alias("type"))
