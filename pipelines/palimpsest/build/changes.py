"""What a build changed since the published one, by document."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.store.manifest import ChangesRecord

Tables = Mapping[str, pl.DataFrame]

_DOCUMENT = [*SCOPE, "uri"]
COMPARED = ("documents", "memories", "versions")
"""The tables that two builds are compared by."""
_MAX_NAMED = 1_000  # documents that the manifest names; the rest are counted


def changes_by_document(before: Tables, after: Tables) -> pl.DataFrame:
    """Returns a row for each document whose content or whose current memories differ, sorted by document.

    Columns: the scope's, uri; `change` is added, edited, removed, or related where only other documents' words
    changed what is true of it; `gained` and `lost` count memories that became latest and ceased to be.

    Args:
        before: documents, memories and versions of the published build.
        after: the same of the build that follows it.
    """
    old, new = (_current(t) for t in (before, after))
    both = old.join(new, on=_DOCUMENT, how="full", coalesce=True, suffix="_new")
    gained = _latest(after).join(_latest(before), on="memory_id", how="anti").group_by(_DOCUMENT).len("gained")
    lost = _latest(before).join(_latest(after), on="memory_id", how="anti").group_by(_DOCUMENT).len("lost")
    change = (
        pl.when(pl.col("versions_new").is_null())
        .then(pl.lit("removed"))
        .when(pl.col("versions").is_null())
        .then(pl.lit("added"))
        .when(pl.col("versions") != pl.col("versions_new"))
        .then(pl.lit("edited"))
        .otherwise(pl.lit("related"))
    )
    return (
        both.join(gained, on=_DOCUMENT, how="full", coalesce=True)
        .join(lost, on=_DOCUMENT, how="full", coalesce=True)
        .select(*_DOCUMENT, change.alias("change"), pl.col("gained", "lost").fill_null(0).cast(pl.Int64))
        .filter((pl.col("change") != "related") | (pl.col("gained") > 0) | (pl.col("lost") > 0))
        .sort(_DOCUMENT)
    )


def changes_record(before: Tables, after: Tables) -> ChangesRecord:
    """Returns the changes as the manifest keeps them: counts of each kind, and the first 1,000 documents."""
    rows = changes_by_document(before, after)
    counts = dict(sorted(rows["change"].value_counts().iter_rows()))
    return {"counts": counts, "documents": rows.head(_MAX_NAMED).to_dicts()}


def _current(tables: Tables) -> pl.DataFrame:
    """Returns the current versions of each document, as one text that differs when any of its sessions does."""
    return (
        tables["documents"]
        .filter("is_current")
        .group_by(_DOCUMENT)
        .agg(versions=pl.col("document_id").sort().str.join(" "))
    )


def _latest(tables: Tables) -> pl.DataFrame:
    source = tables["documents"].select("document_id", "uri")
    latest = tables["versions"].filter("is_latest").select("memory_id")
    memories = tables["memories"].join(latest, on="memory_id", how="semi")
    return memories.join(source, on="document_id", how="left").select("memory_id", *_DOCUMENT)
