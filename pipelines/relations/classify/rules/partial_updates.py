"""What an update would take along: an older memory is retired whole, so what else it states must not be lost."""

import re

from palimpsest.relations.classify.rules.facts import Sentence
from palimpsest.relations.classify.rules.reading import MAX_SENTENCES, Reading
from palimpsest.text.words import stem_words

Span = tuple[int, int]
_STATES = 3  # content words: `Lovely.` and `It rained.` are no loss
_REQUEST = re.compile(r"\b(?:can|could|will|would) you\b|\bplease\b", re.IGNORECASE)  # tells what is wanted, and when
_SAID = 0.5  # of a sentence's content words in the newer text: it is part of what changed


def takes_more_along(newer: Reading, older: Reading, replaced: Span | None = None) -> bool:
    """Tells whether the older memory states something beside what the newer one replaces.

    Args:
        newer: the newer memory.
        older: the older memory.
        replaced: chars of the older text that are replaced; where None, the sentence that has most in common.
    """
    if len(older.sentences) < 2:
        return False
    start, end = replaced or _span(touched(newer, older))
    rest = [s for s in older.sentences[:MAX_SENTENCES] if s.end <= start or s.start >= end]
    return len(older.sentences) > MAX_SENTENCES or any(_is_lost(s, newer) for s in rest)


def touched(newer: Reading, older: Reading) -> Sentence:
    """Returns the sentence of the older memory that has most in common with the newer one, the first of several."""
    return max(older.sentences[:MAX_SENTENCES], key=lambda s: (_shared(s, newer), -s.start))


def _shared(s: Sentence, newer: Reading) -> float:
    stems = stem_words(s.content)
    return len(stems & newer.stems) / len(stems) if stems else 0.0


def _is_lost(s: Sentence, newer: Reading) -> bool:
    tells = not s.question or bool(_REQUEST.search(s.text))
    return tells and len(s.content) >= _STATES and _shared(s, newer) < _SAID


def _span(s: Sentence) -> Span:
    return s.start, s.end
