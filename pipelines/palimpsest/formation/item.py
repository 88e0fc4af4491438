"""An item of a note: what one session says that is worth keeping, with the words that say it."""

from dataclasses import dataclass
from typing import get_args

from palimpsest.core.memory_units import FormedKind as Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
SENTENCE_KINDS: tuple[Kind, ...] = ("fact", "preference", "decision", "solution", "gap")
"""What one sentence may form, by rules and model."""
RULES, LM = "rules", "lm"
"""Values of `extractor`."""


@dataclass(frozen=True)
class NoteItem:
    """An item of a note.

    Attributes:
        kind: what it is.
        statement: one sentence that can be read alone.
        span: place of the quote in the document.
        confidence: 0 to 1.
        evidence: places in the document of all words that it rests on; the quote's is one of them.
        is_saved: a person requests that it is remembered.
        alternatives: what else the evidence could mean.
        invalidation_conditions: what would make it wrong.
        related_note_ids: notes that it is connected with.
        extractor: who formed it.
    """

    kind: Kind
    statement: str
    span: tuple[int, int]
    confidence: float
    evidence: tuple[tuple[int, int], ...] = ()
    is_saved: bool = False
    alternatives: tuple[str, ...] = ()
    invalidation_conditions: tuple[str, ...] = ()
    related_note_ids: tuple[str, ...] = ()
    extractor: str = RULES
