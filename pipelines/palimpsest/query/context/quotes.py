"""Quotes of a long memory: the sentences that answer the question, whole and in order, with what is left out marked.

Extractive compression without a language model: a sentence counts by the share of the question's words in it, those
most that few sentences of the results have, and by that of the sentences next to it: an answer often follows the
sentence that repeats the question. The window that it is in counts too: an answer may be in other words.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import REFLECTION
from palimpsest.query.ranking.scoring import score_stats, standardize
from palimpsest.query.request.types import Memory, one_line
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.text.terms import LONG_TOKENS, SentenceTerms, cut_sentences, term_key

ELISION = "[…]"
"""Marks in a quote what is left out."""
NEARBY = (0.6, 0.35)  # share of what sentences one and two away are worth
WINDOW_WEIGHT = 0.05  # of one deviation of a window's cosine, where all words of the question are worth 1
RANK_DECAY = 0.4  # the nth result's sentences count 1 / (1 + RANK_DECAY * n)
MIN_WORTH = 0.15  # of a sentence, relative to the best one of all results
_ELISION_TOKENS, _DIGITS_PER_TOKEN = 3, 2.5  # for estimates
_MAX_RUN_TOKENS = 16  # of the elision and the span of a part, more than of any text


@dataclass(frozen=True)
class Sentences:
    """The sentences of a memory that may be quoted in part.

    Attributes:
        spans: start and end of each in the memory's text.
        worth: what each is worth for the question, shape (n,).
    """

    spans: Sequence[tuple[int, int]]
    worth: np.ndarray


@dataclass(frozen=True)
class Quote:
    """What a context quotes of a memory that it does not contain whole.

    Attributes:
        memory_id: of the memory.
        spans: start and end of each part in the document's text, ascending.
    """

    memory_id: str
    spans: tuple[tuple[int, int], ...]


def quotable_sentences(query: ScopeQuery, memories: Sequence[Memory]) -> dict[str, Sentences]:
    """Returns the sentences of those memories of a scope that are long and literally in their documents, by id."""
    long = [m for m in memories if m.token_count > LONG_TOKENS and _is_literal(m)]
    if not long:
        return {}
    words, cosines = _read_words(query, long), _read_windows(query, long)
    weights = _sentence_weights(set(query.terms), words)
    total = sum(weights.values()) or 1.0
    out = {}
    for i, memory in enumerate(long):
        worth = _add_nearby(words[i].weigh(weights) / total)
        if cosines is not None and len(worth):
            middles = words[i].spans.mean(axis=1) / len(memory.text)
            worth = worth + WINDOW_WEIGHT * _interpolate(cosines[i], middles)
        out[memory.memory_id] = Sentences([(a, b) for a, b in words[i].spans.tolist()], worth)
    return out


def _read_words(query: ScopeQuery, memories: Sequence[Memory]) -> list[SentenceTerms]:
    """Returns the sentences of each memory: those stored by the build, else cut of its text."""
    if (view := query.served.view()) is None:
        return [cut_sentences(m.text, m.language) for m in memories]
    rows = rows_of(view.ids, [m.memory_id for m in memories])
    stored = view.sentence_terms(rows)
    found = zip(rows.tolist(), memories, strict=True)
    return [stored.get(row) or cut_sentences(m.text, m.language) for row, m in found]


def _read_windows(query: ScopeQuery, memories: Sequence[Memory]) -> list[np.ndarray] | None:
    """Returns for each memory by how many deviations each window's cosine is above the mean of all, 0 for those below.

    None where the store does not give the windows' cosines.
    """
    if (view := query.served.view()) is None:
        return None
    found = view.window_cosines(query.vector, rows_of(view.ids, [m.memory_id for m in memories]))
    if found is None:
        return None
    stats = score_stats(np.concatenate(found))
    return [np.maximum(standardize(cosines, stats), 0.0) for cosines in found]


def _sentence_weights(terms: Iterable[str], words: Sequence[SentenceTerms]) -> dict[str, float]:
    """Returns a weight for each term, the higher the fewer of the sentences have it.

    Over long memories the share of memories with a term says little: most have most of a question's words somewhere.
    """
    sentences, keys = sum(len(w.spans) for w in words), np.concatenate([w.keys for w in words])
    counts = {t: int(np.count_nonzero(keys == term_key(t))) for t in sorted(terms)}
    return {t: float(np.log1p(sentences / max(1, n))) for t, n in counts.items()}


def _interpolate(windows: np.ndarray, middles: np.ndarray) -> np.ndarray:
    """Returns a value for each sentence from those of the windows before and after its middle, shape (n,).

    Args:
        windows: a value for each window, which follow each other at even distances.
        middles: of the sentences, as shares of the text.
    """
    centers = (np.arange(len(windows)) + 0.5) / len(windows)
    values: np.ndarray = np.interp(middles, centers, windows)
    return values


def _is_literal(memory: Memory) -> bool:
    """Returns whether a part of the memory's text is the part of its document at the same place."""
    return memory.unit != REFLECTION and memory.span is not None and memory.span[1] - memory.span[0] == len(memory.text)


def _add_nearby(worth: np.ndarray) -> np.ndarray:
    out = worth.copy()
    for distance, share in enumerate(NEARBY, 1):
        out[distance:] += share * worth[:-distance]
        out[:-distance] += share * worth[distance:]
    return out


class QuoteDraft:
    """The sentences of one memory chosen so far.

    Args:
        memory: the memory.
        sentences: all of its sentences.

    Attributes:
        chosen: numbers of sentences, in the order in which they were chosen.
    """

    def __init__(self, memory: Memory, sentences: Sentences):
        self.memory, self._spans = memory, sentences.spans
        self._tokens_per_char = memory.token_count / max(1, len(memory.text))
        self.chosen: list[int] = []

    def tokens_with(self, sentence: int | None = None) -> float:
        """Returns about how many tokens the quote and its spans have with one more sentence, the citation left out."""
        runs = consecutive_runs(self.chosen if sentence is None else [*self.chosen, sentence])
        chars = sum(self._spans[last][1] - self._spans[first][0] for first, last in runs)
        digits = sum(len(self._place(first, last)) for first, last in runs)
        elisions = _ELISION_TOKENS * (len(runs) + 1)
        return self._tokens_per_char * chars + digits / _DIGITS_PER_TOKEN + len(runs) + elisions

    def may_fit(self, sentence: int, left: float) -> bool:
        """Returns whether one more sentence may fit: joining two runs saves one's span and elision at most."""
        start, end = self._spans[sentence]
        return self._tokens_per_char * (end - start) - _MAX_RUN_TOKENS <= left

    def text(self) -> str:
        """Returns the quote: the chosen sentences in their order, `ELISION` where text is left out."""
        return quote_spans(self.memory.text, self._local_spans())

    def quote(self) -> Quote:
        """Returns the parts in the document's text."""
        first = self.memory.char_start or 0
        return Quote(self.memory.memory_id, tuple((first + a, first + b) for a, b in self._local_spans()))

    def place(self) -> str:
        """Returns the parts as the table of sources names them: `12-34, 50-71`."""
        return ", ".join(self._place(first, last) for first, last in consecutive_runs(self.chosen))

    def _place(self, first: int, last: int) -> str:
        at = self.memory.char_start or 0
        return f"{at + self._spans[first][0]}-{at + self._spans[last][1]}"

    def _local_spans(self) -> list[tuple[int, int]]:
        return [(self._spans[first][0], self._spans[last][1]) for first, last in consecutive_runs(self.chosen)]


def consecutive_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Returns first and last of the numbers that follow each other, ascending."""
    runs: list[tuple[int, int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs


def quote_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Returns parts of a text in their order, with `[…]` for what is left out before, between and after them."""
    before = f"{ELISION} " if text[: spans[0][0]].strip() else ""
    after = f" {ELISION}" if text[spans[-1][1] :].strip() else ""
    return f"{before}{f' {ELISION} '.join(quoted_text(text[a:b]) for a, b in spans)}{after}"


def quoted_text(text: str) -> str:
    """Returns a part of a text as a context shows it: white space is not counted, and marks of ours cannot be faked."""
    return one_line(text.replace(ELISION, "(…)"))


def by_worth(ranked: Sequence[str], sentences: Mapping[str, Sentences]) -> list[tuple[str, int | None]]:
    """Returns what to pack, best first: (id, sentence) of long memories, (id, None) of those packed whole or not.

    Args:
        ranked: ids of memories, best first.
        sentences: of the long ones.
    """
    best = max((float(s.worth.max()) for i in ranked if (s := sentences.get(i)) and len(s.worth)), default=0.0)
    units: list[tuple[float, int, int, str, int | None]] = []
    for rank, memory_id in enumerate(ranked):
        weight = 1 / (1 + RANK_DECAY * rank)
        if memory_id not in sentences:
            units.append((-weight, rank, 0, memory_id, None))
            continue
        # Where no result has a word of the question, the first sentences say best what each is about.
        worth = sentences[memory_id].worth
        worth = worth / best if best > 0 else 1 / (1.0 + np.arange(len(worth)))
        units += [(-weight * v, rank, i, memory_id, i) for i, v in enumerate(worth.tolist()) if weight * v >= MIN_WORTH]
    return [(memory_id, sentence) for *_, memory_id, sentence in sorted(units, key=lambda unit: unit[:3])]


# What picks the sentences that a context quotes: the interface, and which compressor a name means.

ENVIRONMENT_VARIABLE = "PALIMPSEST_COMPRESSOR"
LANGUAGE_MODEL = "lm"


@dataclass(frozen=True)
class Compression:
    """What a compressor did.

    Attributes:
        name: of the compressor.
        read: how many sentences it read; 0 where all results fit the budget, or where none is long.
        picked: how many of them it picked.
        failed: why it picked none, and the quotes are those chosen by words; None where it did.
    """

    name: str
    read: int = 0
    picked: int = 0
    failed: str | None = None


class Compressor(Protocol):
    """Picks sentences for one question. Safe to share between threads."""

    @property
    def name(self) -> str:
        """What results name it by."""

    def pick(
        self, question: str, memories: Sequence[Memory], sentences: Mapping[str, Sentences]
    ) -> tuple[Mapping[str, Sentences], Compression]:
        """Returns the sentences with a worth of 1 where it picks them, else 0, and what it did.

        Where it fails, the sentences are returned as they are.

        Args:
            question: the query.
            memories: results, best first.
            sentences: of the long ones, by id, with what each is worth by its words.
        """


def open_compressor(name: str | None, home: Path | None) -> Compressor | None:
    """Returns the compressor that searches may use; None where there is none.

    Args:
        name: `lm` for the model of PALIMPSEST_LM; empty for none; None for what PALIMPSEST_COMPRESSOR names.
        home: where the ledger of paid answers is; without one nothing is stored.

    Raises:
        PalimpsestError: the name is another, or a setting of the language model is missing or wrong.
    """
    name = os.environ.get(ENVIRONMENT_VARIABLE, "") if name is None else name
    if not name:
        return None
    if name != LANGUAGE_MODEL:
        raise PalimpsestError(f"compressor: {name[:40]!r} must be {LANGUAGE_MODEL} or empty; fix it")
    from palimpsest.lm.settings import lm_settings
    from palimpsest.query.context.lm_compressor import LmCompressor

    return LmCompressor(lm_settings(), home)


def requested_compressor(compress: str, compressor: Compressor | None) -> Compressor | None:
    """Returns the compressor where a search asks for it.

    Raises:
        ArgumentError: it does, and there is none.
    """
    if compress != LANGUAGE_MODEL:
        return None
    if compressor is None:
        raise ArgumentError(
            "compress", f"no language model may read results here; set {ENVIRONMENT_VARIABLE}={LANGUAGE_MODEL}"
        )
    return compressor
