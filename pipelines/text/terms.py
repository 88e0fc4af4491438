"""Words of texts and of queries: one function for both, or a query would look for terms that no index holds.

Unicode words, folded to plain lower-case letters and stemmed (Snowball). `snake_case` and `camelCase` give their parts
beside the whole; ids and versions such as `RFC-2119` and `v2.0.1` stay findable whole and by part.
"""

import re
import threading
import unicodedata

import Stemmer

MAX_QUERY_TERMS = 256
_MAX_TERM_CHARS = 64
_MAX_CACHED = 500_000

# Articles, pronouns, auxiliaries and question words. Prepositions that tell times apart (from, before, after, until)
# stay: they are what "from 2004 to 2005" is found by.
_STOPWORDS = """
a an and are as at be but by did do does for had has have he her him his how i if in into is it its me my no not of on
or our she such that the their them then there these they this to us was we were what when where which who whom whose
why will with you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())

_WORD = re.compile(r"\w+(?:[-.]\w+)*")
PLAIN = re.compile(r"\w+")
_CASE_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_DIGIT = re.compile(r"\d")

_stemmer = Stemmer.Stemmer("english")
_lock = threading.Lock()  # a Stemmer must not be used by two threads at once
_cache: dict[str, tuple[str, ...]] = {}


def fold(text: str) -> str:
    """Returns the text without accents and compatibility forms, in its own case."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def terms(text: str) -> list[str]:
    """Returns the text's terms in order, repeats included."""
    out: list[str] = []
    for word in _WORD.findall(fold(text)):
        found = _cache.get(word)
        out.extend(_word_terms(word) if found is None else found)
    return out


def query_terms(text: str) -> list[str]:
    """Returns the distinct terms of a query in order of appearance, at most MAX_QUERY_TERMS."""
    return list(dict.fromkeys(terms(text)))[:MAX_QUERY_TERMS]


def _word_terms(word: str) -> tuple[str, ...]:
    with _lock:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        made = tuple(_split(word))
        if len(word) <= _MAX_TERM_CHARS:
            _cache[word] = made
    return made


def _split(word: str) -> list[str]:
    plain = PLAIN.findall(word)
    out = [term for part in plain for term in _plain_terms(part)]
    if len(plain) > 1 and _DIGIT.search(word):
        out.append(word.lower()[:_MAX_TERM_CHARS])
    return out


def _plain_terms(word: str) -> list[str]:
    pieces = [p for p in word.split("_") if p]
    parts = [p for piece in pieces for p in _CASE_PARTS.findall(piece) or [piece]] if word.isascii() else pieces
    out = []
    if len(parts) > 1:
        out = [_stem(p) for p in map(str.lower, parts) if len(p) > 1 and p not in STOPWORDS]
    whole = word.lower()
    if whole not in STOPWORDS:
        out.append(_stem(whole))
    return out


def _stem(word: str) -> str:
    return _stemmer.stemWord(word[:_MAX_TERM_CHARS])
