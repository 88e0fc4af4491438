"""What kind of thing a value is: by its tags, units, capitals, and the words before it."""

from collections.abc import Sequence

from palimpsest.relations.classify.features.parse import Parse
from palimpsest.relations.classify.features.quantities import quantities
from palimpsest.relations.classify.statements.statement import ValueType
from palimpsest.text.calendar_spans import MONTH_NAMES

_TIME_WORD_LIST = """
today tomorrow yesterday now currently morning afternoon evening night noon midnight week month year day hour minute
weekend spring summer autumn winter fall term semester quarter since until monday tuesday wednesday thursday friday
saturday sunday daily weekly monthly yearly always never sometimes often usually
"""
TIME_WORDS = frozenset(_TIME_WORD_LIST.split()) | frozenset(MONTH_NAMES)
"""Lemmas that name a time."""
_STATE_WORD_LIST = """
open closed pending approved rejected done live blocked paused active inactive available sold cancelled delayed ready
broken healthy ill sick vacant occupied married single divorced retired pregnant on off
"""
_STATE_WORDS = frozenset(_STATE_WORD_LIST.split())
_EMPLOYER_VERBS = frozenset({"work", "join", "employ", "hire"})
_PERSON_NOUN_LIST = """
manager boss lead leader head chair coach captain owner teacher doctor dentist vet editor director mayor partner wife
husband contact mentor supervisor tutor
"""
_PERSON_NOUNS = frozenset(_PERSON_NOUN_LIST.split())
_PLACE_PREPOSITIONS = frozenset({"in", "near", "to", "from"})
_DATES = frozenset({"date", "weekday", "month", "year"})


def value_type(parse: Parse, value: Sequence[int], verb: int) -> ValueType:
    """Returns the type of a value.

    Args:
        parse: of the text.
        value: the tokens of the value, in order.
        verb: the verb of the clause.
    """
    if not value:
        return ValueType.NONE
    kinds = {kind for kind, _ in quantities(" ".join(parse.words[value[0] : value[-1] + 2]))}
    if "clock" in kinds:
        return ValueType.CLOCK
    if kinds & _DATES:
        return ValueType.DATE
    if any(kind.startswith("count") for kind in kinds):
        return ValueType.COUNT
    if kinds:
        return ValueType.AMOUNT
    if any(parse.pos[i] == "PROPN" for i in value):
        return _type_of_name(parse, value, verb)
    if any(i == verb or parse.words[i] in _STATE_WORDS or parse.deps[i] == "acomp" for i in value):
        return ValueType.STATE
    return ValueType.CHOICE


def _type_of_name(parse: Parse, value: Sequence[int], verb: int) -> ValueType:
    first = next(i for i in value if parse.pos[i] == "PROPN")
    before = parse.words[first - 1] if first else ""
    if parse.lemmas[verb] in _EMPLOYER_VERBS:
        return ValueType.EMPLOYER
    if before in _PLACE_PREPOSITIONS:
        return ValueType.PLACE
    if parse.bag & _PERSON_NOUNS:
        return ValueType.PERSON
    return ValueType.NAME
