"""How many other memories of its scope support each memory: the prior `frequency`, which counts no reads."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.memory_units import REFLECTION
from palimpsest.text.normalize import strip_accents
from palimpsest.text.terms import WORD

_SUPPORTING = ("EXTEND", "DERIVE")


def support_of(memories: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.Series:
    """Returns, in the order of the memories, how many others support each; retired and formed ones support nothing.

    Those are: memories that extend it or follow from it, or that it extends or follows from; memories of other
    documents with the same words; and other documents that name its title.

    Args:
        memories: row, scope, document_id, unit, text and is_latest of every memory.
        tables: links, mentions and titles of the index.
    """
    normalized = pl.Series("normalized", [_normalize(x) for x in memories["text"]], dtype=pl.String)
    about = memories.select("row", "scope", pl.col("document_id").fill_null(""), "is_latest").with_columns(normalized)
    live = about.filter(pl.col("is_latest") & (memories["unit"] != REFLECTION))
    links = tables["links"].filter(pl.col("label").is_in(_SUPPORTING))
    ends = [links.select(row=a, other=b) for a, b in (("newer_row", "older_row"), ("older_row", "newer_row"))]
    linked = pl.concat(ends).unique().join(live.select(other="row"), on="other")
    same_text, here = live.group_by("scope", "normalized").agg(n=pl.len()), ["scope", "normalized", "document_id"]
    same = (
        about.filter(pl.col("normalized") != "")
        .join(same_text, on=["scope", "normalized"])
        .join(live.group_by(here).agg(own=pl.len()), on=here, how="left")
        .select("row", n=pl.col("n") - pl.col("own").fill_null(0))
    )
    naming = tables["mentions"].join(live, on="row").select("entity", elsewhere="document_id").unique()
    named = tables["titles"].join(about, on="row").join(naming, on="entity")
    named = named.filter(pl.col("elsewhere") != pl.col("document_id")).unique(["row", "elsewhere"])
    counted = [same, *(f.group_by("row").agg(n=pl.len()) for f in (linked, named))]
    counts = pl.concat([f.select("row", pl.col("n").cast(pl.Int32)) for f in counted])
    counts = counts.group_by("row").agg(pl.col("n").sum())
    joined = memories.select("row").join(counts, on="row", how="left", maintain_order="left")
    return joined["n"].fill_null(0).cast(pl.Int32).alias("support")


def _normalize(text: str | None) -> str:
    return " ".join(WORD.findall(strip_accents(text or "").lower()))
