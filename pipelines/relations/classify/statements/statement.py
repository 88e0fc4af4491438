"""A statement: what one clause says about one slot of one subject."""

from dataclasses import dataclass
from enum import Enum


class Modality(Enum):
    """Whether a clause says that something is so, or something weaker."""

    STATED = "stated"
    PAST = "past"
    PLANNED = "planned"
    WISHED = "wished"
    REPORTED = "reported"
    SUPPOSED = "supposed"
    ASKED = "question"


class ValueType(Enum):
    """What kind of thing fills a slot; values of one type may exclude each other."""

    AMOUNT = "amount"
    COUNT = "count"
    DATE = "date"
    CLOCK = "clock"
    NAME = "name"
    PLACE = "place"
    EMPLOYER = "employer"
    PERSON = "person"
    STATE = "state"
    CHOICE = "choice"
    NONE = "none"


EXCLUSIVE = frozenset(ValueType) - {ValueType.CHOICE, ValueType.NONE}
"""Types of which a slot holds one value at a time more often than not: another one takes the place of the first."""


@dataclass(frozen=True)
class Statement:
    """One clause.

    Attributes:
        subject: content lemmas of what the clause is about.
        slot: lemmas that name the property: verb and particle, or the noun before a form of `be`.
        value: lemmas of what fills it.
        value_type: of the value.
        time: lemmas of when it is so.
        condition: lemmas of where, for whom or under what condition alone it is so.
        is_negated: the clause negates its verb.
        is_ended: the verb says that something is over.
        is_changed: the verb says that something changed, and `value` is what it became.
        modality: of the clause.
    """

    subject: frozenset[str]
    slot: frozenset[str]
    value: frozenset[str]
    value_type: ValueType
    time: frozenset[str]
    condition: frozenset[str]
    is_negated: bool
    is_ended: bool
    is_changed: bool
    modality: Modality
