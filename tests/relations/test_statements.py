"""Statements of parsed texts: what each clause says about one slot of one subject, and how two texts compare."""

import pytest

from palimpsest.relations.classify.features.parse import Parse, parse_texts
from palimpsest.relations.classify.statements.compare_statements import compare_statements
from palimpsest.relations.classify.statements.read_statements import MAX_STATEMENTS, read_statements
from palimpsest.relations.classify.statements.statement import Modality, Statement, ValueType


def parse(text: str) -> Parse:
    return next(parse_texts([text]))


def only(text: str) -> Statement:
    (statement,) = read_statements(parse(text))
    return statement


@pytest.mark.parametrize(
    ("text", "subject", "value", "value_type"),
    [
        ("Maria has been living in Porto since May.", {"maria"}, {"porto"}, ValueType.PLACE),
        ("The gym costs 29 euros.", {"gym"}, {"29", "euro"}, ValueType.AMOUNT),
        ("The deadline of Heron is 9 May.", {"deadline", "heron"}, {"9", "may"}, ValueType.DATE),
        ("Tessa works at Corvane.", {"tessa"}, {"corvane"}, ValueType.EMPLOYER),
        ("The shop is closed.", {"shop"}, {"close"}, ValueType.STATE),
        ("My sister drinks tea.", {"sister"}, {"tea"}, ValueType.CHOICE),
    ],
)
def test_a_clause_has_a_subject_and_a_typed_value(
    text: str, subject: set[str], value: set[str], value_type: ValueType
) -> None:
    found = only(text)
    assert subject <= found.subject
    assert value <= found.value | found.slot
    assert found.value_type is value_type


def test_a_stated_change_is_about_what_changed_and_not_about_who_changed_it() -> None:
    found = only("The team moved the rehearsal from nine to ten.")
    assert found.subject == {"rehearsal"} and found.is_changed and {"nine", "ten"} <= found.value


def test_when_a_value_begins_is_a_time_and_not_the_value() -> None:
    found = only("Maria has been living in Porto since May.")
    assert "may" in found.time and "may" not in found.value


def test_an_exception_is_a_condition() -> None:
    assert "august" in only("Rehearsals are on Tuesdays, except in August.").condition
    assert "rain" in only("Practice moves indoors if it rains.").condition


@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("Jon lives in Graz.", Modality.STATED),
        ("Jon lived in Graz.", Modality.PAST),
        ("Jon might live in Graz.", Modality.SUPPOSED),
        ("Jon wants a flat in Graz.", Modality.WISHED),
        ("Jon plans a move to Graz.", Modality.PLANNED),
        ("Apparently Jon lives in Graz.", Modality.REPORTED),
        ("Does Jon live in Graz?", Modality.ASKED),
        ("Jon moved to Graz.", Modality.STATED),
    ],
)
def test_a_clause_states_or_says_something_weaker(text: str, modality: Modality) -> None:
    assert only(text).modality is modality


def test_negation_and_ends_are_read() -> None:
    assert only("Jon does not eat meat.").is_negated
    assert only("Jon stopped eating meat.").is_ended


def test_clauses_are_statements_of_their_own_and_their_number_is_limited() -> None:
    found = read_statements(parse("Jon drinks tea, and his sister prefers coffee."))
    assert [s.subject & {"jon", "sister"} for s in found] == [{"jon"}, {"sister"}]
    many = read_statements(parse(" ".join("Jon drinks tea." for _ in range(20))))
    assert len(many) == MAX_STATEMENTS


def test_texts_are_compared_by_their_closest_statements() -> None:
    older = parse("The gym costs 29 euros a month.")
    changed = compare_statements(older, parse("Nice weather today. The gym costs 32 euros a month."))
    other = compare_statements(older, parse("Nice weather today. The pool opens at nine."))
    assert changed["statement_closeness"] > other["statement_closeness"]
    assert changed["slot_same"] and not other["slot_same"]
    assert changed["value_type_same"]
    assert changed.keys() == other.keys() == compare_statements(parse("."), parse("?")).keys()


def test_slots_are_compared_by_word_vectors() -> None:
    older = parse("Ada dwells in Linz.")
    near, far = (compare_statements(older, parse(t)) for t in ("Ada resides in Graz.", "Ada sings in Graz."))
    assert near["slot_cosine"] > far["slot_cosine"]
