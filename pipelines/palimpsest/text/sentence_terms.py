"""The words of a memory's sentences as numbers: a build stores them, so that no query cuts texts or stems words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import terms

LONG_TOKENS = 256
"""Tokens up to which a memory is always quoted whole; the sentences of longer ones are stored."""
_MAX_CHARS = 600  # of a sentence: text without end marks is split between words
_MIN_LINE_CHARS = 40  # of a line that was wrapped
_LINE_END = re.compile(r"(?:(?<![ \t])[ \t]++)?\n[ \t]*+")
_FIRST_WORD = re.compile(r"[\"'\u201c\u2018(`\[]*\w\S*")
_COLUMNS = re.compile(r"\s{2}|\|")
_END_MARKS = ".!?:;\u2026"


@dataclass(frozen=True)
class SentenceTerms:
    """The sentences of one text and their words.

    Attributes:
        spans: start and end of each sentence in the text, shape (n, 2) int32.
        counts: how many distinct terms each has, shape (n,) int32.
        keys: `term_key`s of these, the sentences one after the other, shape (sum of counts,) int64.
    """

    spans: np.ndarray
    counts: np.ndarray
    keys: np.ndarray

    def weigh(self, weights: dict[str, float]) -> np.ndarray:
        """Returns for each sentence the sum of the weights of the terms in it, shape (n,) float64."""
        return sum_weights(self.counts, self.keys, weights)


def cut_sentences(text: str) -> SentenceTerms:
    """Returns the sentences of a memory's text and their words.

    They are those of `memory_sentence_spans`, joined where only the end of a full line parts them, and long ones split.
    """
    spans = [piece for a, b in _join_wrapped(text, memory_sentence_spans(text)) for piece in _split_long(text, a, b)]
    counts, keys = keys_of_sentences(text[a:b] for a, b in spans)
    return SentenceTerms(np.array(spans, "<i4").reshape(-1, 2), counts, keys)


def _join_wrapped(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the spans with those joined whose line ended because the next word had no room in its paragraph."""
    joined: list[tuple[int, int]] = []
    width, paragraph_end = 0, -1
    for start, end in spans:
        if start >= paragraph_end:
            paragraph_end = text.find("\n\n", start)
            paragraph_end = len(text) if paragraph_end < 0 else paragraph_end
            first = text.rfind("\n", 0, start) + 1
            width = max(len(line.rstrip()) for line in text[first:paragraph_end].split("\n"))
        if joined and _is_wrapped(text, joined[-1][1], start, width):
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _is_wrapped(text: str, end: int, start: int, width: int) -> bool:
    """Returns whether a sentence that begins at `start` goes on what ends at `end`, in a paragraph of such a width."""
    if _LINE_END.fullmatch(text[end:start]) is None or text[end - 1] in _END_MARKS:
        return False
    line = text[text.rfind("\n", 0, end) + 1 : end]
    word = _FIRST_WORD.match(text, start)
    if word is None or len(line) < _MIN_LINE_CHARS or _COLUMNS.search(line.strip()):
        return False
    return len(line) + 1 + len(word.group()) > width


def _split_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields a sentence's span, or those of pieces of at most `_MAX_CHARS` that end before a space where one is."""
    while end - start > _MAX_CHARS:
        stop = text.rfind(" ", start + 1, start + _MAX_CHARS)
        stop = stop if stop > start else start + _MAX_CHARS
        yield start, stop
        start = stop + 1 if text[stop] == " " else stop
    if text[start:end].strip():
        yield start, end


def keys_of_sentences(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns how many distinct terms each text has, int32, and the `term_key`s of these, ascending in each, int64."""
    found = [sorted(map(term_key, set(terms(text)))) for text in texts]
    return np.array([len(keys) for keys in found], "<i4"), np.array([k for keys in found for k in keys], "<i8")


@lru_cache(maxsize=500_000)
def term_key(term: str) -> int:
    """Returns the number of a term, signed 64 bits."""
    digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def sum_weights(counts: np.ndarray, keys: np.ndarray, weights: dict[str, float]) -> np.ndarray:
    """Returns for each sentence the sum of the weights of the terms in it, added in their order; shape (n,) float64.

    Args:
        counts: see `SentenceTerms`.
        keys: see `SentenceTerms`.
        weights: of terms.
    """
    sums = np.zeros(len(counts))
    sentence = np.repeat(np.arange(len(counts)), counts)
    for term, weight in weights.items():
        sums[sentence[keys == term_key(term)]] += weight  # a term is at most once in a sentence
    return sums


def join_sentences(parts: Sequence[SentenceTerms]) -> SentenceTerms:
    """Returns the sentences of several texts one after the other; spans stay those in their own texts."""
    empty = SentenceTerms(np.zeros((0, 2), "<i4"), np.zeros(0, "<i4"), np.zeros(0, "<i8"))
    joined = [empty, *parts]
    return SentenceTerms(*(np.concatenate([getattr(p, name) for p in joined]) for name in ("spans", "counts", "keys")))
