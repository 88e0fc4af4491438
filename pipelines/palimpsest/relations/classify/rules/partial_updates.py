"""What an update would lose: what an older memory states besides the replaced value."""

import re

from palimpsest.relations.classify.rules.reading import MAX_SENTENCES, Reading, Span
from palimpsest.relations.classify.rules.sentences import Sentence
from palimpsest.text.words import stem_words

_MIN_CONTENT_WORDS = 3  # `Lovely.` and `It rained.` are no loss
_REQUEST = re.compile(r"\b(?:can|could|will|would) you\b|\bplease\b", re.IGNORECASE)  # a question that states a wish
_MIN_REPEATED_SHARE = 0.5  # of a sentence's content words in the newer text: it is part of what changed


def loses_statements(newer: Reading, older: Reading, replaced: Span) -> bool:
    """Returns whether the older memory states something besides what the newer one replaces.

    Args:
        newer: the newer memory.
        older: the older memory.
        replaced: the char span of the older text that is replaced.
    """
    if len(older.sentences) < 2:
        return False
    start, end = replaced
    rest = [s for s in older.sentences[:MAX_SENTENCES] if s.end <= start or s.start >= end]
    return len(older.sentences) > MAX_SENTENCES or any(_is_lost(s, newer) for s in rest)


def _repeated_share(s: Sentence, newer: Reading) -> float:
    stems = stem_words(s.content)
    return len(stems & newer.stems) / len(stems) if stems else 0.0


def _is_lost(s: Sentence, newer: Reading) -> bool:
    is_statement = not s.question or bool(_REQUEST.search(s.text))
    return is_statement and len(s.content) >= _MIN_CONTENT_WORDS and _repeated_share(s, newer) < _MIN_REPEATED_SHARE
