"""The tables of words: BM25 scores as postings, by scope and term."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from palimpsest.core.batches.local_processes import map_chunks
from palimpsest.text.terms import terms

K1, B = 1.2, 0.75
_TEXTS_PER_CHUNK = 8192
TITLE_WEIGHT = 3  # a title's words count as if each occurred so often: it says once what a passage is about


def word_tables(memories: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns `terms` (scope, term, first, df) and the `postings` (row, score) they point into, both in order.

    Scores are Lucene's BM25 over each scope's own statistics. Postings of a term are rows first..first + df - 1.
    """
    named = [pl.DataFrame(schema={"scope": pl.Int32, "term": pl.String, "first": pl.Int64, "df": pl.Int32})]
    rows, scores, filled = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], 0
    words = _number_words_of_all(memories.select("search_text", "title").rows())
    sizes = memories.group_by("scope", maintain_order=True).len()
    first_row = 0
    for scope, size in sizes.iter_rows():
        found, row, score = _scope_words(words.part(first_row, first_row + size), first_row)
        first_row += size
        names = found.select(pl.lit(scope, pl.Int32).alias("scope"), "term", pl.col("first") + filled, "df")
        named.append(names)
        rows.append(row)
        scores.append(score)
        filled += len(row)
    return {
        "terms": pl.concat(named),
        "postings": pl.DataFrame({"row": np.concatenate(rows), "score": np.concatenate(scores)}),
    }


@dataclass(frozen=True)
class _NumberedWords:
    """The words of texts: each once, the numbers of all texts one after the other, and where those of each end."""

    words: list[str]
    numbers: np.ndarray
    ends: np.ndarray

    def part(self, first: int, last: int) -> "_NumberedWords":
        """Returns the words of the texts from `first` to before `last`, numbered anew."""
        ends = self.ends[first:last]
        start = int(self.ends[first - 1]) if first else 0
        used, numbers = np.unique(self.numbers[start : ends[-1]], return_inverse=True)
        return _NumberedWords([self.words[n] for n in used.tolist()], numbers, ends - start)


def _number_words_of_all(texts: Sequence[tuple[str | None, str | None]]) -> _NumberedWords:
    """Numbers the words of texts with their titles, in several processes where there are many."""
    known, numbers, sizes = dict[str, int](), [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for part in map_chunks(_number_words, texts, _TEXTS_PER_CHUNK, "index"):
        renumbered = np.array([known.setdefault(word, len(known)) for word in part.words], np.int32)
        numbers.append(renumbered[part.numbers])
        sizes.append(np.diff(part.ends, prepend=0))
    return _NumberedWords(list(known), np.concatenate(numbers), np.cumsum(np.concatenate(sizes)))


def _number_words(texts: Sequence[tuple[str | None, str | None]]) -> _NumberedWords:
    known, numbers, ends = dict[str, int](), list[int](), list[int]()
    of_titles: dict[str | None, list[str]] = {None: []}
    for text, title in texts:
        if title not in of_titles:
            of_titles[title] = list(terms(title or "")) * (TITLE_WEIGHT - 1)
        numbers += [known.setdefault(word, len(known)) for word in (*terms(text or ""), *of_titles[title])]
        ends.append(len(numbers))
    return _NumberedWords(list(known), np.array(numbers, np.int32), np.array(ends, np.int64))


def _scope_words(texts: _NumberedWords, first_row: int) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Returns a scope's terms in order, and rows and scores of their postings, by term and row."""
    import bm25s

    documents = [numbers.tolist() for numbers in np.split(texts.numbers, texts.ends[:-1])]
    vocabulary = {word: number for number, word in enumerate(texts.words)}
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
    rows = model.scores["indices"][by_term].astype(np.int32) + np.int32(first_row)
    df = df[order].astype(np.int32)
    first = np.cumsum(df, dtype=np.int64) - df
    found = pl.DataFrame({"term": pl.Series(names, dtype=pl.String), "first": first, "df": df})
    return found, rows, model.scores["data"][by_term].astype(np.float32)
