"""Assigns each mention to the name that it refers to, and chooses among mentions that overlap."""

import polars as pl

from palimpsest.core.scopes import SCOPE, ScopeKey
from palimpsest.entities.names.name_model import Resolution
from palimpsest.store.tables import Schema

_KEY = [*SCOPE, "key"]
_AT = ["memory_id", "char_start"]


def assign_names(found: pl.DataFrame, resolved: dict[ScopeKey, Resolution]) -> pl.DataFrame:
    """Returns mentions with the key that each refers to, in its document or everywhere; offices without a holder go.

    Args:
        found: mentions with the columns of `MENTION_SCHEMA` and `document_id`.
        resolved: what resolution found, by scope.

    Returns:
        The same columns, with `key` of the name that it refers to, `written_key` of the name that the text has, and
        `is_own_name` where both are the same name.
    """
    everywhere = [(*at, k, to) for at, r in resolved.items() for k, to in r.canonical.items()]
    here = [(*at, d, k, to, article) for at, r in resolved.items() for (d, k), (to, article) in r.local.items()]
    scope: Schema = dict.fromkeys(SCOPE, pl.String)
    by_scope = pl.DataFrame(everywhere, schema=scope | {"key": pl.String, "scope_key": pl.String}, orient="row")
    by_document = pl.DataFrame(
        here,
        schema=scope | {"document_id": pl.String, "key": pl.String, "document_key": pl.String, "article": pl.Boolean},
        orient="row",
    )
    acronyms = [(*at, k) for at, r in resolved.items() for k in r.acronyms]
    capitals = pl.DataFrame(acronyms, schema=scope | {"key": pl.String}, orient="row").with_columns(capitals=True)
    joined = (
        found.join(by_scope, on=_KEY, how="left")
        .join(capitals, on=_KEY, how="left")
        .join(by_document, on=[*SCOPE, "document_id", "key"], how="left")
    )
    # A place of that name is not the person whom this document calls so; a body needs its article.
    allowed = pl.when("article").then(pl.col("cue") == "the").otherwise(pl.col("cue") != "in")
    joined = joined.with_columns(document_key=pl.when(allowed).then("document_key"))
    # Ice is no acronym, though ICE is one.
    letters = pl.col("surface").str.replace(r"(?:'s|s|’s)$", "")  # noqa: RUF001
    joined = joined.with_columns(
        scope_key=pl.when(pl.col("capitals").is_null() | (letters == letters.str.to_uppercase())).then("scope_key")
    )
    target = pl.coalesce("scope_key", "document_key")
    return (
        joined.filter((pl.col("kind") != "role") | target.is_not_null())
        .with_columns(is_own_name=target.is_null(), written_key="key", key=pl.coalesce(target, "key"))
        .drop("scope_key", "document_key", "article", "capitals")
    )


def keep_longest(found: pl.DataFrame) -> pl.DataFrame:
    """Returns, of mentions that begin or end at one place, the longest; of one span, one."""
    spans = found.filter(pl.col("char_start").is_not_null())
    rank = pl.when(pl.col("kind") == "title").then(0).otherwise(1)
    order = [*_AT, "length", "rank", "key", "kind", "written_key"]
    spans = (
        spans.with_columns(rank=rank, length=pl.col("char_end") - pl.col("char_start"))
        .sort(order, descending=[column == "length" for column in order])
        .unique(_AT, keep="first", maintain_order=True)
    )
    reach = pl.col("char_end").cum_max().shift(1).over("memory_id").fill_null(-1)
    spans = spans.filter((pl.col("char_end") > reach) | (pl.col("kind") == "title")).drop("rank", "length")
    return pl.concat([spans, found.filter(pl.col("char_start").is_null())])
