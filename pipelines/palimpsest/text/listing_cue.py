"""What a question asks to list: `Which customers do we have?`, `List all football clubs`."""

import re

from palimpsest.text.name_keys import name_words

_CUE = re.compile(
    r"^\W*(?:(?:which|what)(?: (?:other|of|all|the|our|my|are|kinds?))*|who are|list|name|show)"
    r"(?: (?:me|us|all|the|our|my|of|are))* (?P<rest>.+)",
    re.IGNORECASE,
)
_MAX_BEFORE = 2  # words before the noun: `notable`, `football`
_FUNCTION_WORDS = """
is are was were be been do does did has have had can could will would shall should may might must a an in on at to for
from by with and or when where why how that this these those
"""
_NO_ADJECTIVES = frozenset(_FUNCTION_WORDS.split())


def listed_nouns(question: str) -> list[str]:
    """Returns what a question may ask to list, as `name_words` writes it, the longest phrase first; often nothing.

    Only plurals: `Which book ...` asks for one.
    """
    found = _CUE.match(" ".join(question.split()))
    if found is None:
        return []
    words = name_words(found["rest"]).split()
    phrases = []
    for end in range(1, min(len(words), _MAX_BEFORE + 1) + 1):
        if words[end - 1] in _NO_ADJECTIVES:
            break
        if words[end - 1].endswith("s"):
            phrases += [" ".join(words[start:end]) for start in range(end)]
    return sorted(dict.fromkeys(phrases), key=lambda phrase: (-len(phrase.split()), phrase))
