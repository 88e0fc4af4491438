"""What is said around a sentence: the nearest sentence of a kind, and turns that answer a question."""

import pytest

from palimpsest.formation.rules import (
    Reply,
    SaidBefore,
    is_said,
    is_statement,
    is_unsolved,
    states_open_problem,
    states_problem,
)
from palimpsest.formation.session import Sentence, Turn

TURNS = (
    "The pump was broken. Why is it so?",
    "It is red. The pump is fixed, no problem. Yes.",
    "The gate is open. Is it? It leaks a lot. I fixed it now.",
    "I live in Ghent. No.",
    "The lamp is dead. I like tea.",
)
TESTS = (is_said, is_statement, is_unsolved, states_problem, states_open_problem)


def sentences_of_turns() -> list[tuple[Sentence, ...]]:
    return [Turn("ana", text, 0).sentences for text in TURNS]


@pytest.mark.parametrize("is_meant", TESTS)
def test_the_nearest_sentence_is_the_last_one_that_is_meant_in_this_turn_and_two_before(is_meant):
    sentences = sentences_of_turns()
    before = SaidBefore(sentences)
    for n, own in enumerate(sentences):
        for i in range(len(own)):
            said = [*(s for turn in sentences[max(0, n - 2) : n] for s in turn), *own[:i]]
            assert before.nearest(is_meant, n, i) == next((s for s in reversed(said) if is_meant(s)), None)


def test_a_turn_of_nobody_has_no_sentence_that_is_looked_back_at():
    ana = Turn("ana", "The pump was broken.", 0).sentences
    before = SaidBefore([ana, (), ana])
    assert before.nearest(states_problem, 2, 0) == ana[0]
    assert SaidBefore([(), (), (), ana]).nearest(is_said, 3, 0) is None


def test_each_sentence_is_tested_once_however_many_look_back():
    sentences = [Turn("ana", "I fixed it. " * 200, 0).sentences]
    tested = []

    def is_meant(sentence: Sentence) -> bool:
        tested.append(sentence)
        return False

    before = SaidBefore(sentences)
    assert [before.nearest(is_meant, 0, i) for i in range(200)] == [None] * 200
    assert len(tested) == 200


@pytest.mark.parametrize(
    ("answer", "question", "is_next", "answers"),
    [
        ("In May.", "When do you leave?", True, True),
        ("In May.", "When do you leave?", False, False),
        ("We leave in May.", "When do you leave?", False, True),
        ("No idea when we leave.", "When do you leave?", True, False),
        ("I think we leave in May.", "When do you leave?", True, False),
        ("Why? When do I leave?", "When do you leave?", True, False),
    ],
)
def test_a_turn_answers_where_it_comes_next_or_shares_a_word_and_is_sure(answer, question, is_next, answers):
    (sentence,) = Turn("ben", question, 0).sentences
    assert Reply(Turn("ana", answer, 0)).answers(sentence, is_next) is answers
