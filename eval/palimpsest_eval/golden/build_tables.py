"""The tables of a build as evaluation reads them."""

from collections.abc import Mapping

import polars as pl

JUDGED_TABLES = ("documents", "document_texts", "notes", "memories", "versions")

Tables = Mapping[str, pl.DataFrame]


def collection_tables(tables: Tables, collection: str) -> dict[str, pl.DataFrame]:
    """Returns the rows of one collection; a table without that column is returned as it is."""
    return {
        n: t.filter(pl.col("collection") == collection) if "collection" in t.columns else t for n, t in tables.items()
    }


def retired_ids(tables: Tables) -> frozenset[str]:
    """Returns the ids of the memories that are not latest; none without a versions table."""
    versions = tables.get("versions")
    return frozenset() if versions is None else frozenset(versions.filter(~pl.col("is_latest"))["memory_id"])
