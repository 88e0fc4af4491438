"""Edges of facts between entities, and `depends_on` edges of clauses with `cannot .. until` or `cannot .. without`."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.nodes.node_edges import EDGE, edge_rows

_THINGS = ("product", "project", "concept")
_OBJECTS_OF_USE = (*_THINGS, "topic", "organisation", "event")
_PARTS = ("part_of", "located_in")
_STATING = ("depends_on", "depend_upon", "rely_upon", "block_by", "be_block_by", "block_on", "wait_for", "wait_on")
"""Predicates of which any subject but a person, a place or a date depends on the object."""
_USING = ("uses", "run_on", "build_on", "build_upon", "be_build_on", "be_build_upon", "build_on_top_of", "power_by")
"""Predicates that state a dependency of a thing only: `the tram runs on Grit Lane` and `Ana uses Basin` state none."""
_BARRED = (
    r"^\s+(?:cannot|can't|can\u2019t|can not|will not|won't|won\u2019t|may not|must not)"
    r"(?:\s+(?:be|\w+)){1,4}?\s+(?:until|without|before)\s+(?:the\s+|a\s+|an\s+)?$"
)
_OPENING = r"(?:^|[.!?:;]\s+|\n\s*|\b(?:and|but|so|because)\s+)(?:The |the |A |An |Our |our |My |my )?$"
_MAX_BETWEEN, _WINDOW, _CONFIDENCE = 80, 24, 0.8


def is_dependency(predicate: pl.Expr, subject_type: pl.Expr, object_type: pl.Expr) -> pl.Expr:
    """Returns whether a fact with a predicate, of nodes of two types, states that its subject depends on its object."""
    is_bearer = ~subject_type.is_in(["person", "place", "date"]) & (object_type != "date")
    is_use = subject_type.is_in(_THINGS) & object_type.is_in(_OBJECTS_OF_USE)
    stated = (predicate.is_in(_STATING) & is_bearer) | (predicate.is_in(_USING) & is_use)
    return stated.fill_null(False)


def fact_edges(facts: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Returns edges of facts between two entities: `part_of` and `depends_on` by their predicate, else `related_to`.

    Args:
        facts: the facts table.
        typed: (entity_id, type) of entities as nodes.
    """
    both = facts.filter(pl.col("object_id").is_not_null() & ~pl.col("is_negated").fill_null(False))
    both = both.filter(pl.col("subject_id") != pl.col("object_id"))
    for end in ("subject", "object"):
        types = typed.select(pl.col("entity_id").alias(f"{end}_id"), pl.col("type").alias(f"{end}_type"))
        both = both.join(types.unique(f"{end}_id"), on=f"{end}_id", how="left")
    depends = is_dependency(pl.col("predicate"), pl.col("subject_type"), pl.col("object_type"))
    is_part = pl.col("predicate").is_in(_PARTS)
    kind = pl.when(is_part).then(pl.lit("part_of")).when(depends).then(pl.lit("depends_on"))
    both = both.with_columns(
        type=kind.otherwise(pl.lit("related_to")),
        provenance=pl.concat_str(pl.lit("fact: "), "predicate"),
        source_id="subject_id",
        target_id="object_id",
        weight="confidence",
    )
    return both.select(pl.col(c).cast(t) for c, t in EDGE.items())


def barred_edges(memories: pl.DataFrame, mentions: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Returns `depends_on` edges of `Heron cannot start until Basin is up`: the first name opens its clause.

    Args:
        memories: the memories table.
        mentions: the mentions table.
        typed: (entity_id, type) of entities as nodes.
    """
    names = (
        mentions.drop_nulls("char_start")
        .select(*SCOPE, "memory_id", "entity_id", "char_start", "char_end")
        .unique()
        .join(typed.select("entity_id", "type"), on="entity_id")
    )
    left = names.select(*SCOPE, "memory_id", source_id="entity_id", kind="type", begin="char_start", end="char_end")
    right = names.select("memory_id", target_id="entity_id", object_kind="type", start="char_start")
    stating = memories.filter(pl.col("text").str.contains(r"(?i)\b(?:until|without|before)\b")).select(
        "memory_id", "text"
    )
    gap = pl.col("start") - pl.col("end")
    pairs = left.join(stating, on="memory_id").join(right, on="memory_id").filter((gap > 0) & (gap <= _MAX_BETWEEN))
    between = pl.col("text").str.slice("end", gap)
    low = pl.max_horizontal(pl.col("begin") - _WINDOW, 0)
    before = pl.col("text").str.slice(low, pl.col("begin") - low)
    is_opening = (
        pl.when(low == 0).then(before.str.contains(_OPENING)).otherwise(before.str.contains(_OPENING.replace("^|", "")))
    )
    found = pairs.filter(
        between.str.contains(_BARRED)
        & is_opening
        & ~pl.col("kind").is_in(["person", "date"])
        & (pl.col("object_kind") != "date")
    )
    return edge_rows(found.with_columns(weight=pl.lit(_CONFIDENCE)), "depends_on", "cannot without")
