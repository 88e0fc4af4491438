"""Titles as names: of documents in passages, and where other texts of the scope mention them."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.find_names import MAX_NAME_CHARS, entity_key
from palimpsest.entities.names.lexicon import ORDINARY
from palimpsest.store.tables import Schema
from palimpsest.text.words import is_content_word

MENTION_SCHEMA: Schema = {
    "memory_id": pl.String,
    **dict.fromkeys(SCOPE, pl.String),
    "surface": pl.String,
    "key": pl.String,
    "kind": pl.String,
    "cue": pl.String,
    "char_start": pl.Int64,
    "char_end": pl.Int64,
}


def add_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `key` to a frame with `surface`."""
    return frame.with_columns(pl.Series("key", [entity_key(s) for s in frame["surface"]], pl.String))


def find_titles(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, surface, key) of titles that name something: capitalised or numbered, not ordinary words."""
    rows = add_keys(
        memories.filter((pl.col("unit") != "turn") & pl.col("speaker").is_null())
        .select(*SCOPE, surface=pl.col("title").str.strip_chars())
        .filter(pl.col("surface").str.len_chars().is_between(2, MAX_NAME_CHARS))
        .filter(pl.col("surface").str.contains(r"[\p{Lu}\p{N}]"))
        .unique()
    )
    distinctive = [
        any(is_content_word(w) for w in key.split()) or (key.isalnum() and key not in ORDINARY) for key in rows["key"]
    ]
    return rows.filter(pl.Series(distinctive, dtype=pl.Boolean)).sort(*SCOPE, "key", "surface")


def find_title_mentions(memories: pl.DataFrame, titles: pl.DataFrame, explained: pl.DataFrame) -> pl.DataFrame:
    """Returns where texts contain a title or an explained long form of their scope; columns as `MENTION_SCHEMA`.

    Several words are found in any case, one word as it is written. Each memory of a titled document mentions the title,
    with no span.

    Args:
        memories: the memories table.
        titles: what `find_titles` returned.
        explained: (scope, surface, key) of long forms in small letters, which `find_names` does not find.
    """
    parts = [_mentions_by_title(memories, titles)]
    phrases = pl.concat([titles.select(*SCOPE, "surface"), explained.select(*SCOPE, "surface")]).unique()
    texts = memories.select("memory_id", *SCOPE, "text").join(phrases.select(*SCOPE).unique(), on=SCOPE, how="semi")
    by_scope = dict(iter(phrases.group_by(SCOPE, maintain_order=True)))
    for scope, rows in texts.group_by(SCOPE, maintain_order=True):
        names = by_scope[scope]
        several = names.filter(pl.col("surface").str.contains(r"\s"))["surface"].unique().sort().to_list()
        single = names.filter(~pl.col("surface").str.contains(r"\s"))["surface"].unique().sort().to_list()
        for patterns, any_case in ((several, True), (single, False)):
            if patterns:
                parts.append(_find(rows, patterns, any_case))
    return pl.concat(parts)


def _mentions_by_title(memories: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    no_place = pl.lit(None, pl.Int64)
    return (
        memories.select("memory_id", *SCOPE, surface=pl.col("title").str.strip_chars())
        .join(titles, on=[*SCOPE, "surface"], how="inner")
        .select(
            "memory_id",
            *SCOPE,
            "surface",
            "key",
            kind=pl.lit("title"),
            cue=pl.lit(""),
            char_start=no_place,
            char_end=no_place,
        )
    )


def _find(rows: pl.DataFrame, patterns: list[str], any_case: bool) -> pl.DataFrame:
    """Returns all places of the patterns as whole words, longest first, with offsets in characters."""
    text = pl.col("text")
    hits = (
        rows.with_columns(
            at=text.str.find_many(patterns, ascii_case_insensitive=any_case, leftmost=True),
            surface=text.str.extract_many(patterns, ascii_case_insensitive=any_case, leftmost=True),
        )
        .filter(pl.col("at").list.len() > 0)
        .explode("at", "surface")
    )
    out = []
    for memory_id, *scope, body, at, surface in hits.select("memory_id", *SCOPE, "text", "at", "surface").iter_rows():
        start = at if body.isascii() else len(body.encode()[:at].decode())
        end = start + len(surface)
        if (start and _is_word_char(body[start - 1])) or (end < len(body) and _is_word_char(body[end])):
            continue
        out.append((memory_id, *scope, surface, entity_key(surface), "title", "", start, end))
    return pl.DataFrame(out, schema=MENTION_SCHEMA, orient="row")


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_"
