"""The tables for spreading over passages: names to look up, titles, sentences."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import polars as pl

from palimpsest.memories.vector_space import IndexedSpace
from palimpsest.store.tables import Schema
from palimpsest.text.terms import LONG_TOKENS, SentenceTerms, cut_sentences, keys_of_sentences, name_key

_AFTER_TITLE = re.compile(r"(?:(?<!\s)\s++)?\([^()]*+\)\s*+$")  # `Rush (band)` is also Rush
_NAMES: Schema = {"scope": pl.Int32, "key": pl.Int64, "entity": pl.Int32}
_TITLES: Schema = {"row": pl.Int32, "entity": pl.Int32}
_SENTENCES: Schema = {
    "row": pl.Int32,
    "spans": pl.List(pl.Int32),
    "counts": pl.List(pl.Int32),
    "entities": pl.List(pl.Int32),
    "vectors": pl.Binary,
    "term_counts": pl.List(pl.Int32),
    "terms": pl.Binary,
}


def passage_tables(
    t: Mapping[str, pl.DataFrame],
    rows: pl.DataFrame,
    entities: pl.DataFrame,
    spaces: Mapping[str, IndexedSpace],
) -> dict[str, pl.DataFrame]:
    """Returns `names` (scope, key, entity), `titles` (row, entity) and `sentences`.

    Names and titles are of scopes searched over names. A row of sentences has all of a memory's: `spans` in its text,
    start and end in turn; how many `entities` each names and these one after the other, `counts` being empty outside
    such scopes; the sentences' vectors as float16, little-endian, null where they have none; how many distinct terms
    each has and `term_key`s of these one after the other, int64, little-endian. Outside such scopes only memories of
    more than `LONG_TOKENS` tokens have sentences.

    Args:
        t: context_inputs, mentions, memories and entities as in `store.tables`.
        rows: (memory_id, row, scope, collection) of every memory.
        entities: (entity, scope, entity_id) of the index.
        spaces: the vectors of text hashes, by collection.
    """
    inputs = t["context_inputs"].filter(pl.col("kind") == "sentence")
    embedded_rows = rows.drop("collection").join(inputs.select("memory_id").unique(), on="memory_id", how="semi")
    scopes = embedded_rows.select("scope").unique()
    names = _names(t["entities"], entities.join(scopes, on="scope", how="semi"))
    titled = (
        t["memories"].select("memory_id", "title").join(embedded_rows, on="memory_id").filter(pl.col("title") != "")
    )
    titles = _titles(titled, names)
    names = pl.concat([names, _short_titles(titled, names)]).sort(list(_NAMES))
    long = t["memories"].filter(pl.col("token_count") > LONG_TOKENS).join(inputs, on="memory_id", how="anti")
    cut = {row: cut_sentences(text) for text, row in long.join(rows, on="memory_id").select("text", "row").iter_rows()}
    sentences = _sentences(t["mentions"], inputs, rows, entities, spaces, cut)
    return {"names": names, "titles": titles, "sentences": sentences}


def _names(entity_rows: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns the names of entities by key; a name of several entities is the lowest one's."""
    named = entity_rows.select("entity_id", name=pl.concat_list("name", pl.col("aliases").fill_null([]))).explode(
        "name"
    )
    named = named.drop_nulls().join(entities.select("entity_id", "entity", "scope"), on="entity_id")
    keyed = named.with_columns(key=pl.Series([name_key(n) for n in named["name"]], dtype=pl.Int64))
    out = keyed.select(pl.col("scope").cast(pl.Int32), "key", pl.col("entity").cast(pl.Int32))
    return out.sort(list(_NAMES)).unique(["scope", "key"], keep="first", maintain_order=True)


def _titles(titled: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    keys = [(r, s, name_key(x)) for _, title, r, s in titled.iter_rows() for x in {title, _short_title(title)} if x]
    frame = pl.DataFrame(keys, schema={"row": pl.Int32, "scope": pl.Int32, "key": pl.Int64}, orient="row")
    return frame.join(names, on=["scope", "key"]).select(list(_TITLES)).unique().sort("row", "entity")


def _short_titles(titled: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Returns the titles without their brackets, for all entities so titled, where no entity has that name."""
    pairs = titled.select("scope", "title").unique().iter_rows()
    keys = [
        (s, name_key(title), name_key(short)) for s, title in pairs if (short := _short_title(title)) not in ("", title)
    ]
    schema: Schema = {"scope": pl.Int32, "title": pl.Int64, "key": pl.Int64}
    unused = pl.DataFrame(keys, schema=schema, orient="row").join(names, on=["scope", "key"], how="anti")
    return unused.join(names.rename({"key": "title"}), on=["scope", "title"]).select(list(_NAMES)).unique()


def _short_title(title: str) -> str:
    return _AFTER_TITLE.sub("", title)


def _sentences(
    mentions: pl.DataFrame,
    inputs: pl.DataFrame,
    rows: pl.DataFrame,
    entities: pl.DataFrame,
    spaces: Mapping[str, IndexedSpace],
    cut: Mapping[int, SentenceTerms],
) -> pl.DataFrame:
    """Returns one row a memory, in the order of memories; those without sentences have empty lists.

    Args:
        mentions: see `passage_tables`.
        inputs: the sentences of context_inputs.
        rows: see `passage_tables`.
        entities: see `passage_tables`.
        spaces: see `passage_tables`.
        cut: sentences of other memories, by row.
    """
    if inputs.is_empty() and not cut:
        return pl.DataFrame(schema=_SENTENCES)
    sentences = inputs.join(rows.select("memory_id", "row", "collection"), on="memory_id")
    sentences = sentences.sort("row", "ordinal")
    sentences = sentences.with_row_index("number")
    named = _named(sentences, mentions, entities)
    vectors = np.full(sentences.height, b"", object)  # each of the dimension of its space
    hashed = sentences.filter(pl.col("text_hash").is_not_null())
    # Sentences of one collection may have vectors while those of another have none.
    without = sentences.filter(pl.col("text_hash").is_null())["row"].to_numpy()
    embedded = ~np.isin(np.arange(rows.height), without) if hashed.height else np.zeros(rows.height, bool)
    for (collection,), part in hashed.group_by("collection"):
        found = spaces[str(collection)].lookup(part["text_hash"].to_list()).astype("<f2")
        vectors[part["number"].to_numpy()] = [v.tobytes() for v in found]
    at = np.searchsorted(sentences["row"].to_numpy(), np.arange(rows.height + 1)).tolist()
    names_at = np.searchsorted(named["number"].to_numpy(), np.arange(sentences.height + 1))
    spans = sentences.select("char_start", "char_end").to_numpy().astype(np.int32)
    counts, entity = np.diff(names_at).astype(np.int32), named["entity"].to_numpy()
    term_counts, keys = keys_of_sentences(sentences["text"])
    keys_at = np.concatenate([[0], np.cumsum(term_counts)])
    records = [
        _cut_record(row, cut[row])
        if row in cut
        else (
            row,
            spans[a:b].ravel().tolist(),
            counts[a:b].tolist(),
            entity[names_at[a] : names_at[b]].tolist(),
            b"".join(vectors[a:b]) if embedded[row] else None,
            term_counts[a:b].tolist(),
            keys[keys_at[a] : keys_at[b]].tobytes(),
        )
        for row, (a, b) in enumerate(pairwise(at))
    ]
    return pl.DataFrame(records, schema=_SENTENCES, orient="row")


def _named(sentences: pl.DataFrame, mentions: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns (number, entity) of the entities named in each sentence, by number."""
    located = mentions.filter(pl.col("char_start").is_not_null()).select("memory_id", "entity_id", at="char_start")
    located = located.join(entities.select("entity_id", "entity"), on="entity_id")
    return (
        sentences.select("number", "memory_id", "char_start", "char_end")
        .join(located, on="memory_id")
        .filter(pl.col("at").is_between("char_start", "char_end", closed="left"))
        .select("number", "entity")
        .unique()
        .sort("number", "entity")
    )


def _cut_record(row: int, s: SentenceTerms) -> tuple[object, ...]:
    """Returns the record of a memory outside scopes searched over names."""
    return row, s.spans.ravel().tolist(), [], [], None, s.counts.tolist(), s.keys.tobytes()
