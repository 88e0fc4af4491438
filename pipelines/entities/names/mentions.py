"""Mentions: which name each stands for, and which of several at one place counts."""

import polars as pl

from palimpsest.core.scopes import SCOPE, ScopeKey
from palimpsest.entities.names.name_model import Resolution
from palimpsest.store.tables import Schema

_KEY = [*SCOPE, "key"]
_AT = ["memory_id", "char_start"]


def stand_for(found: pl.DataFrame, done: dict[ScopeKey, Resolution]) -> pl.DataFrame:
    """Gives each mention the key it stands for, in its document or everywhere; offices without a holder go."""
    everywhere = [(*at, k, to) for at, r in done.items() for k, to in r.canonical.items()]
    here = [(*at, d, k, to, article) for at, r in done.items() for (d, k), (to, article) in r.local.items()]
    scope: Schema = dict.fromkeys(SCOPE, pl.String)
    wide = pl.DataFrame(everywhere, schema=scope | {"key": pl.String, "wide": pl.String}, orient="row")
    narrow = pl.DataFrame(
        here,
        schema=scope | {"document_id": pl.String, "key": pl.String, "narrow": pl.String, "article": pl.Boolean},
        orient="row",
    )
    spelled = [(*at, k) for at, r in done.items() for k in r.acronyms]
    capitals = pl.DataFrame(spelled, schema=scope | {"key": pl.String}, orient="row").with_columns(capitals=True)
    joined = (
        found.join(wide, on=_KEY, how="left")
        .join(capitals, on=_KEY, how="left")
        .join(narrow, on=[*SCOPE, "document_id", "key"], how="left")
    )
    # A place named so is not the person that this document shortens to the same word; a body needs its article.
    allowed = pl.when("article").then(pl.col("cue") == "the").otherwise(pl.col("cue") != "in")
    joined = joined.with_columns(narrow=pl.when(allowed).then("narrow"))
    # Ice is no acronym, though ICE is one.
    letters = pl.col("surface").str.replace(r"(?:'s|s|’s)$", "")  # noqa: RUF001
    joined = joined.with_columns(
        wide=pl.when(pl.col("capitals").is_null() | (letters == letters.str.to_uppercase())).then("wide")
    )
    to = pl.coalesce("wide", "narrow")
    return (
        joined.filter((pl.col("kind") != "role") | to.is_not_null())
        .with_columns(own=to.is_null(), said="key", key=pl.coalesce(to, "key"))
        .drop("wide", "narrow", "article", "capitals")
    )


def longest(found: pl.DataFrame) -> pl.DataFrame:
    """Of mentions that begin or end at one place, the longest; of one span, one."""
    spans = found.filter(pl.col("char_start").is_not_null())
    rank = pl.when(pl.col("kind") == "title").then(0).otherwise(1)
    spans = (
        spans.with_columns(rank=rank, length=pl.col("char_end") - pl.col("char_start"))
        .sort(
            *_AT, "length", "rank", "key", "kind", "said", descending=[False, False, True, False, False, False, False]
        )
        .unique(_AT, keep="first", maintain_order=True)
    )
    reach = pl.col("char_end").cum_max().shift(1).over("memory_id").fill_null(-1)
    spans = spans.filter((pl.col("char_end") > reach) | (pl.col("kind") == "title")).drop("rank", "length")
    return pl.concat([spans, found.filter(pl.col("char_start").is_null())])
