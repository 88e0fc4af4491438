"""Search terms of texts and of queries: one function for both, or a query would look for terms that no index has.

Unicode words without accents, in lower case and stemmed (Snowball). `snake_case` and `camelCase` give their parts and
the whole; ids and versions such as `RFC-2119` and `v2.0.1` are found whole and by part.
"""

import re
import threading

import Stemmer

from palimpsest.text.normalize import strip_accents
from palimpsest.text.stopwords import SEARCH_STOPWORDS

MAX_QUERY_TERMS = 256
_MAX_TERM_CHARS = 64
_MAX_CACHED = 500_000


WORD = re.compile(r"\w+")
_COMPOUND = re.compile(r"\w+(?:[-.]\w+)*")
_CASE_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_DIGIT = re.compile(r"\d")

_stemmer = Stemmer.Stemmer("english")
_lock = threading.Lock()  # a Stemmer must not be used by two threads at once
_cache: dict[str, tuple[str, ...]] = {}


def terms(text: str) -> list[str]:
    """Returns the text's terms in order, repeats included."""
    out: list[str] = []
    for word in _COMPOUND.findall(strip_accents(text)):
        cached = _cache.get(word)
        out.extend(_word_terms(word) if cached is None else cached)
    return out


def query_terms(text: str) -> list[str]:
    """Returns the distinct terms of a query in order of appearance, at most MAX_QUERY_TERMS."""
    return list(dict.fromkeys(terms(text)))[:MAX_QUERY_TERMS]


def _word_terms(word: str) -> tuple[str, ...]:
    with _lock:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        found = tuple(_split_compound(word))
        if len(word) <= _MAX_TERM_CHARS:
            _cache[word] = found
    return found


def _split_compound(word: str) -> list[str]:
    parts = WORD.findall(word)
    out = [term for part in parts for term in _plain_terms(part)]
    if len(parts) > 1 and _DIGIT.search(word):
        out.append(word.lower()[:_MAX_TERM_CHARS])
    return out


def _plain_terms(word: str) -> list[str]:
    pieces = [p for p in word.split("_") if p]
    parts = [p for piece in pieces for p in _CASE_PARTS.findall(piece) or [piece]] if word.isascii() else pieces
    out = []
    if len(parts) > 1:
        out = [_stem(p) for p in map(str.lower, parts) if len(p) > 1 and p not in SEARCH_STOPWORDS]
    whole = word.lower()
    if whole not in SEARCH_STOPWORDS:
        out.append(_stem(whole))
    return out


def _stem(word: str) -> str:
    return str(_stemmer.stemWord(word[:_MAX_TERM_CHARS]))
