"""Words as cases of other words, by the table that is shipped."""

import pytest

from palimpsest.query.answerability.lexicon import AnswerKind, answer_kind, case_likeness, is_known


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("instrument", "drum"),
        ("color", "blue"),
        ("race", "marathon"),
        ("buy", "bought"),
        ("bite", "bitten"),
        ("price", "costs"),
        ("designer", "designed"),
        ("high", "height"),
    ],
)
def test_a_case_a_synonym_a_form_and_a_derivation_are_alike(word, other):
    assert case_likeness([word], ["zyx", other])[0, 1] >= 0.6


def test_a_kind_is_no_case_of_its_case_and_nothing_is_like_an_unknown_word():
    assert case_likeness(["drum"], ["instrument"]) == {}
    assert case_likeness(["zyxomma"], ["drum", "zyxomma"]) == {} and not is_known("zyxomma")
    assert case_likeness([], ["drum"]) == {} and case_likeness(["drum"], []) == {}


def test_the_closer_kind_is_more_alike():
    got = case_likeness(["instrument"], ["instruments", "drum"])
    assert got[0, 0] > got[0, 1]


def test_nouns_ask_for_names_and_sums():
    assert answer_kind("landlord") is AnswerKind.PERSON and answer_kind("hotels") is AnswerKind.NAME
    assert answer_kind("deposit") is AnswerKind.MONEY or answer_kind("fee") is AnswerKind.MONEY
    assert answer_kind("afternoon") is AnswerKind.NONE and answer_kind("zyxomma") is AnswerKind.NONE
