"""The table of memories in the order of the index, and what follows from that order."""

import datetime as dt
import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.core.parallel import MIN_CHUNKS, FrameRows, map_chunks
from palimpsest.memories.recency import memory_times, own_clock
from palimpsest.store.tables import SCHEMAS
from palimpsest.text.date_mentions import Period, day_period, stated_periods
from palimpsest.text.languages import ENGLISH
from palimpsest.text.terms import text_terms

# Values that people decided of memories, in place of those that their sources give.


def with_decided_values(memories: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories with the confidence that was decided; one that was pruned is past its retention.

    Its retention ends in what readers see and not in the tables, so that it is not served, and not deleted either.

    Args:
        memories: rows with memory_id, confidence, confidence_source and retention_until.
        tables: of a build; without `decided_memories` nothing was decided.
    """
    decided = tables.get("decided_memories")
    if decided is None or decided.is_empty():
        return memories
    values = decided.select("memory_id", "pruned_at", _decided="confidence")
    is_decided = pl.col("_decided").is_not_null()
    return (
        memories.join(values, on="memory_id", how="left", maintain_order="left")
        .with_columns(
            retention_until=pl.min_horizontal("retention_until", "pruned_at"),
            confidence=pl.coalesce("_decided", "confidence"),
            confidence_source=pl.when(is_decided).then(pl.lit("decision")).otherwise("confidence_source"),
        )
        .drop("pruned_at", "_decided")
    )


PeriodRow = tuple[int, float, float]
"""Row of a memory, and where one of its periods begins and ends, in years."""
PERIODS = pl.Schema({"row": pl.Int32, "begins": pl.Float64, "ends": pl.Float64})
_TEXTS_PER_CHUNK = 8192
_NOT_INDEXED = {*SCOPE, "search_text", "chunk_ids", "refers_to", "provenance", "trust"}
MEMORY_COLUMNS = (
    "row",
    *(column for column in SCHEMAS["memories"] if column not in _NOT_INDEXED),
    *("known_from", "is_latest", "superseded_by", "uri", "document_title", "support"),
)


def versioned_memories(t: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories with what was decided of them, their version and their times, sorted by (scope, id)."""
    versions = t["versions"].select(
        "memory_id",
        "is_latest",
        pl.col("valid_from").alias("_from"),
        pl.col("valid_until").alias("_until"),
        "superseded_by",
        pl.lit(True).alias("_versioned"),
    )
    times = memory_times(t["memories"], t["documents"], t["versions"])
    versioned = pl.col("_versioned").fill_null(False)
    return (
        with_decided_values(t["memories"], t)
        .drop("created_at", "updated_at")
        .sort(*SCOPE, "memory_id")
        .join(versions, on="memory_id", how="left", maintain_order="left")
        .join(times, on="memory_id", how="left", maintain_order="left")
        .with_columns(
            pl.col("is_latest").fill_null(True),
            pl.when(versioned).then("_from").otherwise("valid_from").alias("valid_from"),
            pl.when(versioned).then("_until").otherwise("valid_until").alias("valid_until"),
            pl.col("token_count").fill_null(0),
        )
    )


def memory_rows(t: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns `versioned_memories`, numbered, with their source; `scope` numbers the scopes."""
    documents = t["documents"].select("document_id", "uri", pl.col("title").alias("document_title"))
    return (
        versioned_memories(t)
        .join(documents, on="document_id", how="left", maintain_order="left")
        .with_row_index("row")
        .with_columns(pl.col("row").cast(pl.Int32), pl.struct(SCOPE).rle_id().cast(pl.Int32).alias("scope"))
    )


def scope_table(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the scopes by number, with the range of rows of each, and a hash of all that its words follow from."""
    scopes = memories.group_by("scope", maintain_order=True).agg(
        pl.col(SCOPE).first(),
        pl.col("row").first().alias("first_row"),
        pl.len().cast(pl.Int32).alias("size"),
        pl.col("token_count").sum().alias("tokens"),
    )
    parts = (pl.col("search_text").fill_null(""), pl.col("title").fill_null(""), pl.col("languages").list.join(" "))
    texts = _with_languages(memories).select("scope", pl.concat_str(*parts, separator="\x1f"))
    keys = {scope: blake2b(digest_size=16) for scope in scopes["scope"]}
    for scope, text in texts.iter_rows():
        keys[scope].update(f"{len(text)} {text}".encode())
    return scopes.with_columns(words_key=pl.Series([key.hexdigest() for key in keys.values()], dtype=pl.String))


def following_rows(order: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns (row, next_row) of memories that follow each other, by row."""
    number = rows.select("memory_id", "row")
    return (
        order.join(number, on="memory_id")
        .join(number.rename({"memory_id": "next_id", "row": "next_row"}), on="next_id")
        .select("row", "next_row")
        .sort("row")
    )


def find_periods(memories: pl.DataFrame) -> Iterator[list[PeriodRow]]:
    """Returns the periods of memories, chunk by chunk; other processes begin to find them at once."""
    texts = FrameRows(memories.select("row", "text", own_clock()))
    return map_chunks(_periods_of_texts, texts, _TEXTS_PER_CHUNK, "index")


def period_table(periods: Iterable[list[PeriodRow]], known: pl.DataFrame | None = None) -> pl.DataFrame:
    """Returns (row, begins, ends) in years of what memories state, and of the day they were observed on, sorted.

    Args:
        periods: as `find_periods` gives them.
        known: those of other memories.
    """
    made = [row for chunk in periods for row in chunk]
    found = pl.DataFrame(made, schema=PERIODS, orient="row")
    return found if known is None else pl.concat([found, known]).sort(*PERIODS)


def _periods_of_texts(texts: Sequence[tuple[int, str | None, dt.datetime | None]]) -> list[PeriodRow]:
    return [
        (row, begins, ends)
        for row, text, observed in texts
        for begins, ends in sorted(_memory_periods(text or "", observed))
    ]


def _memory_periods(text: str, observed: dt.datetime | None) -> set[Period]:
    if observed is None:
        return set(stated_periods(text, None))
    return {*stated_periods(text, observed.date()), day_period(observed)}


# The tables of words: BM25 scores as postings, by scope and term.

K1, B = 1.2, 0.75
TITLE_WEIGHT = 3  # a title's words count as if each occurred so often: it says once what a passage is about


class ScopeWords(NamedTuple):
    """The words of a scope.

    Attributes:
        scope: its number.
        terms: (term, first, df) in order; postings of a term are first..first + df - 1 of the scope's.
        texts: of each posting the number of its text in the scope.
        scores: of each posting.
    """

    scope: int
    terms: pl.DataFrame
    texts: np.ndarray
    scores: np.ndarray


def score_words(memories: pl.DataFrame) -> Iterator[ScopeWords]:
    """Finds all words, then returns those of each scope, in order; other processes go on to score a large index's.

    Args:
        memories: in the order of the index, so those of a scope are together.
    """
    texts = FrameRows(_with_languages(memories).select("scope", "search_text", "title", "languages"))
    numbered = (part for chunk in map_chunks(_number_words, texts, _TEXTS_PER_CHUNK, "index") for part in chunk)
    scopes = [list(parts) for _, parts in groupby(numbered, key=attrgetter("scope"))]
    size = 1 if len(texts) >= MIN_CHUNKS * _TEXTS_PER_CHUNK else max(1, len(scopes))
    return (words for chunk in map_chunks(_score_scopes, scopes, size, "index") for words in chunk)


def word_tables(
    memories: pl.DataFrame, words: Iterable[ScopeWords], known: Iterable[ScopeWords] = ()
) -> dict[str, pl.DataFrame]:
    """Returns `terms` (scope, term, first, df) and the `postings` (row, score) they point into, both in order.

    Scores are Lucene's BM25 over each scope's own statistics. Postings of a term are rows first..first + df - 1.

    Args:
        memories: in the order of the index.
        words: of scopes, in order.
        known: of the others, in order.
    """
    named = [pl.DataFrame(schema={"scope": pl.Int32, "term": pl.String, "first": pl.Int64, "df": pl.Int32})]
    rows, scores, filled = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], 0
    first_rows = dict(memories.group_by("scope").agg(pl.col("row").first()).rows())
    for scope, terms_of_scope, texts, of_texts in heapq.merge(words, known, key=attrgetter("scope")):
        first = pl.col("first") + filled
        named.append(terms_of_scope.select(pl.lit(scope, pl.Int32).alias("scope"), "term", first, "df"))
        rows.append(texts + np.int32(first_rows[scope]))
        scores.append(of_texts)
        filled += len(texts)
    return {
        "terms": pl.concat(named),
        "postings": pl.DataFrame({"row": np.concatenate(rows), "score": np.concatenate(scores)}),
    }


class _NumberedWords(NamedTuple):
    """The words of texts of a scope: each once, the numbers of all texts one after the other, and where each starts."""

    scope: int
    words: list[str]
    numbers: np.ndarray
    starts: np.ndarray


def _with_languages(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns memories with the languages by which their words are read: where one is not clear, all of its scope."""
    of_scope = memories.group_by("scope").agg(languages=pl.col("language").drop_nulls().unique().sort())
    every = pl.when(pl.col("languages").list.len() > 0).then("languages").otherwise(pl.lit([ENGLISH]))
    own = pl.concat_list("language")
    languages = pl.when(pl.col("language").is_null()).then(every).otherwise(own)
    return memories.join(of_scope, on="scope", how="left", maintain_order="left").with_columns(languages=languages)


def _number_words(texts: Sequence[tuple[int, str | None, str | None, list[str]]]) -> list[_NumberedWords]:
    """Numbers the words of texts with their titles, in the text's languages; texts of a scope are together."""
    made = []
    for scope, of_scope in groupby(texts, key=itemgetter(0)):
        known, numbers, starts = dict[str, int](), list[int](), list[int]()
        of_titles = dict[tuple[str | None, ...], list[str]]()
        for _, text, title, languages in of_scope:
            key = (title, *languages)
            if key not in of_titles:
                of_titles[key] = text_terms(title or "", languages) * (TITLE_WEIGHT - 1)
            starts.append(len(numbers))
            words = (*text_terms(text or "", languages), *of_titles[key])
            numbers += [known.setdefault(word, len(known)) for word in words]
        made.append(_NumberedWords(scope, list(known), np.array(numbers, np.int32), np.array(starts, np.int64)))
    return made


def _score_scopes(scopes: Sequence[Sequence[_NumberedWords]]) -> list[ScopeWords]:
    return [_score_scope(parts) for parts in scopes]


def _score_scope(parts: Sequence[_NumberedWords]) -> ScopeWords:
    """Returns the words of a scope; postings are by term and text."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG: a line for each scope in a service's log
    documents, vocabulary = list[list[int]](), dict[str, int]()
    for part in parts:
        numbers = np.array([vocabulary.setdefault(word, len(vocabulary)) for word in part.words], np.int64)
        flat = numbers[part.numbers].tolist()
        documents += [flat[start:end] for start, end in pairwise([*part.starts.tolist(), len(flat)])]
    if not vocabulary:
        documents, vocabulary = [[0]], {"": 0}  # no query has this term
    model = bm25s.BM25(k1=K1, b=B, method="lucene")
    model.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    df = np.diff(model.scores["indptr"])
    names = sorted(vocabulary)
    order = np.fromiter((vocabulary[n] for n in names), np.int64, len(names))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    by_term = np.lexsort((model.scores["indices"], np.repeat(rank, df)))
    rows = model.scores["indices"][by_term].astype(np.int32)
    df = df[order].astype(np.int32)
    first = np.cumsum(df, dtype=np.int64) - df
    found = pl.DataFrame({"term": pl.Series(names, dtype=pl.String), "first": first, "df": df})
    return ScopeWords(parts[0].scope, found, rows, model.scores["data"][by_term].astype(np.float32))
