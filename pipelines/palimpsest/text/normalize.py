"""Folding: the forms in which spellings of one word are equal."""

import re
import unicodedata

_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")


def fold(text: str) -> str:
    """Returns the text in lower case, without accents, with single spaces: for comparing names and words.

    Only the general combining marks are dropped: the vowel signs of other scripts distinguish words.
    """
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.lower()))
    return " ".join(text.lower().split())


def strip_accents(text: str) -> str:
    """Returns the text without accents and compatibility forms, in its own case: for search terms.

    Unlike `fold` it keeps case, which splits `camelCase` and marks names, and drops every combining mark of every
    script, so that a query typed without them finds the text.
    """
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
