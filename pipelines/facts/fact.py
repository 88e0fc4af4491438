"""A fact: subject, predicate, and another entity or a value, as one clause of a memory states it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mentioned:
    """An entity where a text names it, in characters of the text."""

    entity_id: str
    start: int
    end: int


@dataclass(frozen=True, order=True)
class Fact:
    """What one clause states of an entity.

    Attributes:
        subject: id of an entity.
        predicate: of the vocabulary of `predicates`, else the verb and its preposition: `supply`, `keep_to`.
        object_entity: id of the other entity; None where the fact has a value.
        value: the words that fill the predicate; empty where there is another entity.
        start, end: the clause, in characters of the text.
        is_negated: the clause denies it.
        modality: `stated`, `past` or `planned`; what is wished, supposed, reported or asked is no fact.
        confidence: in [0, 1].
    """

    subject: str
    predicate: str
    object_entity: str | None
    value: str
    start: int
    end: int
    is_negated: bool
    modality: str
    confidence: float
