"""Search terms of texts and of queries: one function for both, or a query would look for terms that no index has.

Unicode words in lower case, stemmed in their language (Snowball) and without accents. `snake_case` and `camelCase`
give their parts and the whole; ids and versions such as `RFC-2119` and `v2.0.1` are found whole and by part.
"""

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b

import numpy as np
import Stemmer

from palimpsest.text.languages import ENGLISH, HAN
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.words import SEARCH_STOPWORDS, strip_accents

MAX_QUERY_TERMS = 256
_MAX_TERM_CHARS = 64
_MAX_CACHED = 500_000


# Marks that are letters of their scripts, which `\w` leaves out: vowel signs of India, Thailand and Laos.
_LETTER = r"[\w\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd]"
WORD = re.compile(rf"{_LETTER}+")
_COMPOUND = re.compile(rf"{_LETTER}+(?:[-.]{_LETTER}+)*")
_CASE_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_DIGIT = re.compile(r"\d")
# Scripts whose words no space parts, and Korean, whose particles are joined to them.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]+)"
)

_lock = threading.Lock()  # a Stemmer must not be used by two threads at once


def terms(text: str, language: str | None = None) -> list[str]:
    """Returns the text's terms in order, repeats included.

    Args:
        text: the text.
        language: ISO 639-1; None means English. Only words of the same language have the same terms.
    """
    return _analyzer(language or ENGLISH).terms(text)


def text_terms(text: str, languages: Sequence[str]) -> list[str]:
    """Returns the text's terms in one language after the other; of each further one only what was not found before.

    Args:
        text: the text.
        languages: the text's, or all that it may be in.
    """
    found = terms(text, languages[0])
    for language in languages[1:]:
        known = set(found)
        found += [term for term in terms(text, language) if term not in known]
    return found


def query_terms(text: str, languages: Sequence[str] = (ENGLISH,)) -> list[str]:
    """Returns the distinct terms of a query in order of appearance, at most MAX_QUERY_TERMS.

    Args:
        text: the query.
        languages: those by which its words are read, one after the other.
    """
    return list(dict.fromkeys(term for language in languages for term in terms(text, language)))[:MAX_QUERY_TERMS]


@cache
def _analyzer(language: str) -> "_Analyzer":
    return _Analyzer(language)


class _Analyzer:
    """Splits texts of one language into terms.

    Snowball has stemmers for 30 languages; words of others are not stemmed. Only English words are left out as saying
    nothing: in other languages the scores of words do that. Runs of scripts without spaces are cut into pairs of
    characters that overlap, which find about as much as a dictionary does (Nie et al. 2000, for Chinese), and into
    single Han characters, since many are words.

    Args:
        language: ISO 639-1.
    """

    def __init__(self, language: str):
        self._is_english = language == ENGLISH
        self._stopwords = SEARCH_STOPWORDS if self._is_english else frozenset[str]()
        self._known: dict[str, tuple[str, ...]] = {}
        try:
            self._stemmer = Stemmer.Stemmer(language)
        except KeyError:
            self._stemmer = None

    def terms(self, text: str) -> list[str]:
        """See `terms`."""
        # Stemmers of other languages know endings by their accents.
        plain = strip_accents(text) if self._is_english else unicodedata.normalize("NFKC", text)
        out: list[str] = []
        for word in _COMPOUND.findall(plain):
            known = self._known.get(word)
            out.extend(self._word_terms(word) if known is None else known)
        return out

    def _word_terms(self, word: str) -> tuple[str, ...]:
        with _lock:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            found = tuple(self._split_compound(word))
            if len(word) <= _MAX_TERM_CHARS:
                self._known[word] = found
        return found

    def _split_compound(self, word: str) -> list[str]:
        parts = WORD.findall(word)
        out = [term for part in parts for run in _runs(part) for term in self._plain_terms(run)]
        if len(parts) > 1 and _DIGIT.search(word):
            out.append(strip_accents(word.lower()[:_MAX_TERM_CHARS]))
        return [term for term in out if term]

    def _plain_terms(self, word: str) -> list[str]:
        if _UNSPACED.fullmatch(word):
            plain = strip_accents(word)
            pairs = [plain[i : i + 2] for i in range(len(plain) - 1)]
            return [*pairs, *HAN.findall(plain)] or [plain]
        pieces = [p for p in word.split("_") if p]
        parts = [p for piece in pieces for p in _CASE_PARTS.findall(piece) or [piece]] if word.isascii() else pieces
        out = []
        if len(parts) > 1:
            out = [self._stem(p) for p in map(str.lower, parts) if len(p) > 1 and p not in self._stopwords]
        whole = word.lower()
        if whole not in self._stopwords:
            out.append(self._stem(whole))
        return out

    def _stem(self, word: str) -> str:
        word = word[:_MAX_TERM_CHARS]
        stem = word if self._stemmer is None else str(self._stemmer.stemWord(word))
        return stem if self._is_english else strip_accents(stem)


def _runs(word: str) -> list[str]:
    """Returns the runs of a word that are of scripts without spaces, and those between them."""
    return [word] if word.isascii() else [run for run in _UNSPACED.split(word) if run]


# The numbers under which names are looked up, in memories and in queries: of their words, without case and accents.

_MAX_NAME_WORDS = 8  # of a name that is looked up in a query
_MIN_LETTERS = 4  # of one word in small letters that may be a name


def name_key(name: str) -> int:
    """Returns the number under which a name is looked up: of its words, without case, accents and marks."""
    return _key(name_words(name))


def name_words(name: str) -> str:
    """Returns the words of a name, in small letters and without accents and marks: names that match have the same."""
    return " ".join(w for w, _ in _words(name))


def candidate_name_keys(text: str) -> list[list[tuple[int, int]]]:
    """Returns, for each word of a text, (end, key) of the names that may start there, longest first.

    A name of one word must be capitalised or a number; one of several words must start or end so: in small letters most
    words are no names. Where no word but the first is capitalised, the writer does not capitalise names: then any words
    may be a name, unless a stop word starts or ends them or they are one short word.
    """
    words = _words(text)
    plain = [w for w, _ in words]
    uncapitalized = not any(capital and word[0].isalpha() for word, capital in words[1:])
    return [
        [
            (end, _key(" ".join(plain[start:end])))
            for end in range(min(len(words), start + _MAX_NAME_WORDS), start, -1)
            if words[start][1] or words[end - 1][1] or (uncapitalized and _may_be_name(words[start:end]))
        ]
        for start in range(len(words))
    ]


def _may_be_name(words: Sequence[tuple[str, bool]]) -> bool:
    first, last = words[0][0], words[-1][0]
    if first in SEARCH_STOPWORDS or last in SEARCH_STOPWORDS:
        return False
    return len(words) > 1 or len(first) >= _MIN_LETTERS


def find_named_entities(text: str, entities_of_key: Callable[[int], Sequence[int]]) -> list[int]:
    """Returns the entities that a text names, ascending: at each place the longest known name.

    Args:
        text: the text.
        entities_of_key: returns the entities with a `name_key`, none where no entity has it.
    """
    found: set[int] = set()
    skip = 0
    for start, options in enumerate(candidate_name_keys(text)):
        if start < skip:
            continue
        for end, key in options:
            if entities := entities_of_key(key):
                found.update(entities)
                skip = end
                break
    return sorted(found)


def _words(text: str) -> list[tuple[str, bool]]:
    """Returns the words of a text in small letters, and whether each is capitalised or starts with a digit."""
    return [(w.lower(), w[0].isupper() or w[0].isdigit()) for w in WORD.findall(strip_accents(text))]


def _key(words: str) -> int:
    return int.from_bytes(hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


# The words of a memory's sentences as numbers: a build stores them, so that no query cuts texts or stems words.

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


def cut_sentences(text: str, language: str | None = None) -> SentenceTerms:
    """Returns the sentences of a memory's text and their words.

    They are those of `memory_sentence_spans`, joined where only the end of a full line parts them, and long ones split.

    Args:
        text: of the memory.
        language: of its words; see `terms`.
    """
    spans = [piece for a, b in _join_wrapped(text, memory_sentence_spans(text)) for piece in _split_long(text, a, b)]
    counts, keys = keys_of_sentences(((text[a:b], language) for a, b in spans))
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


def keys_of_sentences(texts: Iterable[tuple[str, str | None]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns how many distinct terms each text has, int32, and the `term_key`s of these, ascending in each, int64.

    Args:
        texts: each with its language; see `terms`.
    """
    found = [sorted(map(term_key, set(terms(text, language)))) for text, language in texts]
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


_REDUNDANCY = 0.7
"""Weight of the likeness to the nearest sentence chosen before."""
_MIN_TERMS = 3
"""A shorter sentence says too little alone, such as `Thank you`."""
_MAX_SENTENCES = 1000
"""Of a longer text only so many sentences are weighed, the last ones: it bounds time and memory."""


def summary_sentences(sentences: Sequence[str], n: int) -> list[int]:
    """Returns the places of the `n` sentences that sum up a text, ascending; ties go to the earlier one.

    Args:
        sentences: of the text, in order.
        n: how many at most.
    """
    first = max(0, len(sentences) - _MAX_SENTENCES)
    of_sentence = [Counter(terms(s)) for s in sentences[first:]]
    is_question = [s.rstrip().endswith("?") for s in sentences[first:]]
    rows = [i for i, counts in enumerate(of_sentence) if len(counts) >= _MIN_TERMS and not is_question[i]]
    if not rows or n < 1:
        return []
    vectors = _weights([of_sentence[i] for i in rows])
    centroid = vectors.sum(axis=0)
    relevance = vectors @ (centroid / (np.linalg.norm(centroid) or 1.0))
    chosen: list[int] = []
    nearest = np.zeros(len(rows))
    while len(chosen) < min(n, len(rows)):
        gain = relevance - _REDUNDANCY * nearest
        gain[chosen] = -np.inf
        best = int(np.argmax(np.round(gain, 9)))
        chosen.append(best)
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return sorted(first + rows[i] for i in chosen)


def _weights(counts: Sequence[Counter[str]]) -> np.ndarray:
    """Returns unit vectors of term weights, shape (sentences, terms) float64: 1 + log of count, times rarity."""
    known = sorted({t for c in counts for t in c})
    column = {t: i for i, t in enumerate(known)}
    frequency = Counter(t for c in counts for t in c)
    vectors = np.zeros((len(counts), len(known)))
    for row, found in enumerate(counts):
        for term, count in found.items():
            vectors[row, column[term]] = (1 + np.log(count)) * np.log1p(len(counts) / frequency[term])
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
