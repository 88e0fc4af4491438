"""The tables of words: BM25 scores as postings, by scope and term."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.core.batches.frame_rows import FrameRows
from palimpsest.core.batches.local_processes import MIN_CHUNKS, map_chunks
from palimpsest.text.terms import terms

K1, B = 1.2, 0.75
_TEXTS_PER_CHUNK = 8192
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
    texts = FrameRows(memories.select("scope", "search_text", "title"))
    numbered = (part for chunk in map_chunks(_number_words, texts, _TEXTS_PER_CHUNK, "index") for part in chunk)
    scopes = [list(parts) for _, parts in groupby(numbered, key=attrgetter("scope"))]
    size = 1 if len(texts) >= MIN_CHUNKS * _TEXTS_PER_CHUNK else max(1, len(scopes))
    return (words for chunk in map_chunks(_score_scopes, scopes, size, "index") for words in chunk)


def word_tables(memories: pl.DataFrame, words: Iterable[ScopeWords]) -> dict[str, pl.DataFrame]:
    """Returns `terms` (scope, term, first, df) and the `postings` (row, score) they point into, both in order.

    Scores are Lucene's BM25 over each scope's own statistics. Postings of a term are rows first..first + df - 1.

    Args:
        memories: in the order of the index.
        words: of its scopes, in order.
    """
    named = [pl.DataFrame(schema={"scope": pl.Int32, "term": pl.String, "first": pl.Int64, "df": pl.Int32})]
    rows, scores, filled = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], 0
    first_rows = dict(memories.group_by("scope").agg(pl.col("row").first()).rows())
    for scope, terms_of_scope, texts, of_texts in words:
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


def _number_words(texts: Sequence[tuple[int, str | None, str | None]]) -> list[_NumberedWords]:
    """Numbers the words of texts with their titles; texts of a scope are together."""
    made = []
    for scope, of_scope in groupby(texts, key=itemgetter(0)):
        known, numbers, starts = dict[str, int](), list[int](), list[int]()
        of_titles: dict[str | None, list[str]] = {None: []}
        for _, text, title in of_scope:
            if title not in of_titles:
                of_titles[title] = list(terms(title or "")) * (TITLE_WEIGHT - 1)
            starts.append(len(numbers))
            numbers += [known.setdefault(word, len(known)) for word in (*terms(text or ""), *of_titles[title])]
        made.append(_NumberedWords(scope, list(known), np.array(numbers, np.int32), np.array(starts, np.int64)))
    return made


def _score_scopes(scopes: Sequence[Sequence[_NumberedWords]]) -> list[ScopeWords]:
    return [_score_scope(parts) for parts in scopes]


def _score_scope(parts: Sequence[_NumberedWords]) -> ScopeWords:
    """Returns the words of a scope; postings are by term and text."""
    import bm25s

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
