"""The tables of words: BM25 scores as postings, by scope and term."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.core.batches.frame_rows import FrameRows
from palimpsest.core.batches.local_processes import map_chunks
from palimpsest.text.terms import terms

K1, B = 1.2, 0.75
_TEXTS_PER_CHUNK = 8192
TITLE_WEIGHT = 3  # a title's words count as if each occurred so often: it says once what a passage is about


def number_words(memories: pl.DataFrame) -> Iterator[list["NumberedWords"]]:
    """Returns the words of the texts of memories, chunk by chunk; other processes begin to find them at once.

    Args:
        memories: in the order of the index, so those of a scope are together.
    """
    texts = FrameRows(memories.select("scope", "search_text", "title"))
    return map_chunks(_number_words, texts, _TEXTS_PER_CHUNK, "index")


def word_tables(memories: pl.DataFrame, numbered: Iterable[list["NumberedWords"]]) -> dict[str, pl.DataFrame]:
    """Returns `terms` (scope, term, first, df) and the `postings` (row, score) they point into, both in order.

    Scores are Lucene's BM25 over each scope's own statistics. Postings of a term are rows first..first + df - 1.

    Args:
        memories: in the order of the index.
        numbered: the words of the same memories.
    """
    named = [pl.DataFrame(schema={"scope": pl.Int32, "term": pl.String, "first": pl.Int64, "df": pl.Int32})]
    rows, scores, filled = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], 0
    parts = (part for chunk in numbered for part in chunk)
    first_rows = dict(memories.group_by("scope").agg(pl.col("row").first()).rows())
    for scope, of_scope in groupby(parts, key=attrgetter("scope")):
        found, row, score = _scope_words(of_scope)
        names = found.select(pl.lit(scope, pl.Int32).alias("scope"), "term", pl.col("first") + filled, "df")
        named.append(names)
        rows.append(row + np.int32(first_rows[scope]))
        scores.append(score)
        filled += len(row)
    return {
        "terms": pl.concat(named),
        "postings": pl.DataFrame({"row": np.concatenate(rows), "score": np.concatenate(scores)}),
    }


class NumberedWords(NamedTuple):
    """The words of texts of a scope: each once, the numbers of all texts one after the other, and where each starts."""

    scope: int
    words: list[str]
    numbers: np.ndarray
    starts: np.ndarray


def _number_words(texts: Sequence[tuple[int, str | None, str | None]]) -> list[NumberedWords]:
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
        made.append(NumberedWords(scope, list(known), np.array(numbers, np.int32), np.array(starts, np.int64)))
    return made


def _scope_words(parts: Iterable[NumberedWords]) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Returns a scope's terms in order, and numbers and scores of the texts in their postings, by term and text."""
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
    return found, rows, model.scores["data"][by_term].astype(np.float32)
