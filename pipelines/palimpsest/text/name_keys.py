"""The numbers under which names are looked up, in memories and in queries: of their words, without case and accents."""

import hashlib
from collections.abc import Callable, Sequence

from palimpsest.text.normalize import strip_accents
from palimpsest.text.stopwords import SEARCH_STOPWORDS
from palimpsest.text.terms import WORD

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
