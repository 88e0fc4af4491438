"""The tables of links, entities and mentions, by row and scope number."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.index.index_format import DISPUTE
from palimpsest.memories.formed import repeated_by_formed
from palimpsest.relations.classify.label_types import DISPUTED
from palimpsest.relations.classify.low_trust import is_low_trust
from palimpsest.store.tables import completed

_LINKING = ("UPDATE", "EXTEND", "DERIVE")


def graph_tables(
    tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame, scopes: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Returns links, entities and mentions by row and scope number; none spans two scopes.

    Args:
        tables: tables of the build.
        rows: memory_id, row and scope of every memory.
        scopes: the scopes with their numbers.
    """
    numbers = scopes.select(*SCOPE, "scope")
    entities, mentions = _entities_and_mentions(tables, rows, numbers)
    return {"links": _links(tables, rows), "entities": entities, "mentions": mentions}


def linking_relations(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that are links: those with a label, and what is disputed under a label of its own.

    What disputes another ranks above it, but not where the newer may be wrong: a static conflict, or trusted less. It
    disputes the formed memories that repeat the other, too.

    Args:
        relations: the relations table.
        memories: the memories table.
    """
    relations = completed("relations", relations)
    may_be_wrong = (pl.col("conflict") == "static").fill_null(False) | is_low_trust()
    is_disputed = (pl.col("consequence") == DISPUTED) & ~may_be_wrong
    disputed = relations.filter(is_disputed).with_columns(
        label=pl.lit(DISPUTE), confidence=pl.col("likelihood").fill_null(1.0)
    )
    labelled = relations.filter(pl.col("label").is_in(_LINKING))
    of_formed = repeated_by_formed(disputed.sort("confidence", "relation_id", descending=[True, False]), memories)
    return pl.concat([labelled, disputed, of_formed])


def _links(tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame) -> pl.DataFrame:
    newer = rows.rename({"memory_id": "newer_id", "row": "newer_row"})
    older = rows.rename({"memory_id": "older_id", "row": "older_row"})
    confidence = pl.col("confidence").fill_null(1.0).cast(pl.Float32)
    return (
        linking_relations(tables["relations"], tables["memories"])
        .join(newer, on="newer_id")
        .join(older, on=["older_id", "scope"])
        .select("scope", "newer_row", "older_row", "label", confidence, "relation_id")
        .sort("newer_row", "older_row", "label", "relation_id")
    )


def _entities_and_mentions(
    tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame, numbers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    entities = (
        tables["entities"]
        .join(numbers, on=SCOPE)
        .sort("scope", "entity_id")
        .with_row_index("entity")
        .with_columns(pl.col("entity").cast(pl.Int32))
    )
    mentions = (
        tables["mentions"]
        .select("memory_id", "entity_id")
        .unique()
        .join(rows, on="memory_id")
        .join(entities.select("entity_id", "scope", "entity"), on=["entity_id", "scope"])
        .select("row", "entity")
        .sort("row", "entity")
    )
    df = mentions.group_by("entity").agg(pl.len().cast(pl.Int32).alias("df"))
    entities = entities.join(df, on="entity", how="left", maintain_order="left").select(
        "entity", "scope", "entity_id", "name", "type", pl.col("df").fill_null(0)
    )
    return entities, mentions
