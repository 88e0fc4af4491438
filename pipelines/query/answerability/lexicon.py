"""Whether a word is a case of another one: drum of instrument, blue of color, bought of buy; from WordNet 3.0.

`palimpsest.eval.abstention.lexicon_table` makes the table.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from palimpsest.store.home import SHIPPED

TABLE_FILE = "models/word_kinds.npz"
SAME, DERIVED = 0, 1
"""Distances: of a synonym, and of what a word derives from. Those above are of kinds, by level."""
_LIKENESS = (0.9, 0.8, 0.8, 0.75, 0.7, 0.65, 0.6)
"""By distance."""
_CACHED_WORDS = 20_000
_ENDINGS = (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("ses", "s"), ("xes", "x"), ("es", "e"), ("s", ""))
_VERB_ENDINGS = (("ied", "y"), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""))


class AnswerKind(IntEnum):
    """What a noun after `which` asks for."""

    NONE = 0
    NAME = 1
    MONEY = 2
    PERSON = 3


class _Table:
    def __init__(self) -> None:
        with np.load(SHIPPED / TABLE_FILE, allow_pickle=False) as arrays:
            self.words, self.starts = arrays["words"], arrays["starts"]
            self.senses, self.distances, self.answers = arrays["senses"], arrays["distances"], arrays["answers"]

    def row(self, word: str) -> int | None:
        key = np.uint64(word_key(word))
        at = int(np.searchsorted(self.words, key))
        return at if at < len(self.words) and self.words[at] == key else None


@lru_cache(maxsize=1)
def _table() -> _Table:
    return _Table()


def word_key(word: str) -> int:
    """Returns the key of a word in the table."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=_CACHED_WORDS)
def _rows(word: str) -> tuple[int, ...]:
    """Returns the rows of a word and of what it may be a form of."""
    forms = [word]
    for ending, base in (*_ENDINGS, *_VERB_ENDINGS):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word[: -len(ending)]
            forms.append(stem + base)
            if not base and len(stem) > 3 and stem[-1] == stem[-2]:
                forms.append(stem[:-1])
    rows = (_table().row(form) for form in dict.fromkeys(forms))
    return tuple(r for r in rows if r is not None)


@lru_cache(maxsize=_CACHED_WORDS)
def _reach(word: str) -> dict[int, int]:
    table, out = _table(), dict[int, int]()
    for row in _rows(word):
        span = slice(table.starts[row], table.starts[row + 1])
        for sense, distance in zip(table.senses[span].tolist(), table.distances[span].tolist(), strict=True):
            out[sense] = min(out.get(sense, distance), distance)
    return out


@lru_cache(maxsize=_CACHED_WORDS)
def _own(word: str) -> frozenset[int]:
    return frozenset(sense for sense, distance in _reach(word).items() if distance <= DERIVED)


def is_known(word: str) -> bool:
    """Returns whether the table has a word or what it is a form of."""
    return bool(_rows(word))


def answer_kind(word: str) -> AnswerKind:
    """Returns what a noun asks for: `landlord` for a name."""
    return next((AnswerKind(_table().answers[row]) for row in _rows(word)), AnswerKind.NONE)


def case_likeness(words: Sequence[str], others: Sequence[str]) -> dict[tuple[int, int], float]:
    """Returns how far some of `others` are cases of `words`: 0.9 of a synonym, less of kinds further below.

    Returns:
        The likeness by place in `words` and in `others`; pairs that are not in it have none.
    """
    reached = [_reach(other) for other in others]
    out = dict[tuple[int, int], float]()
    for at, word in enumerate(words):
        if own := _own(word):
            for i in [i for i, reach in enumerate(reached) if not own.isdisjoint(reach)]:
                out[at, i] = _LIKENESS[min(reached[i][s] for s in own if s in reached[i])]
    return out
