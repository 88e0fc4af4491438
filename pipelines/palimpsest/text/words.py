"""The content words of a text, and their stems: what two memories are compared by."""

import re

from palimpsest.text.normalize import fold
from palimpsest.text.stopwords import CALENDAR_WORDS, STOPWORDS

_NOT_CONTENT = STOPWORDS | CALENDAR_WORDS
_WORD = re.compile(r"[^\W_](?:[\w\-./]*[^\W_])?")
_TRANSCRIBER_MARK = re.compile(r"\{\w+\}")
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "s", "e")
_MIN_STEM_CHARS = 3


def is_content_word(word: str) -> bool:
    """Returns whether a folded word is no function word, filler or calendar word, and has 3 letters or a digit."""
    return word not in _NOT_CONTENT and (len(word) > 2 or any(c.isdigit() for c in word))


def content_words(text: str) -> frozenset[str]:
    """Returns the folded content words of a text; transcribers' marks such as `{laugh}` are not words."""
    return frozenset(w for w in _WORD.findall(_TRANSCRIBER_MARK.sub(" ", fold(text))) if is_content_word(w))


def stem_words(words: frozenset[str]) -> frozenset[str]:
    """Returns the words without the commonest English endings.

    Not the Snowball stems of `terms`: the rules that compare two memories were written for these.
    """
    return frozenset(map(_stem, words))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS:
            return word[: -len(ending)]
    return word
