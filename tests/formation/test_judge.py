"""How rules and the model decide together which sentences form something."""

import pytest

from palimpsest.formation.rules import form_items
from palimpsest.formation.sentence_model import (
    SENTENCE_CLASSES,
    STATED_ALONE,
    STATED_BY_RULES,
    Judgment,
    ngrams,
    read_sentence,
    sentence_model,
)
from palimpsest.formation.session import Session, Turn
from palimpsest_eval.runs.measure_formation import FACTS, score
from palimpsest_eval.training.train_sentences import golden_notes


def judgment(**probability):
    return Judgment(dict.fromkeys(SENTENCE_CLASSES, 0.0) | probability)


@pytest.mark.parametrize(
    ("probability", "by_rules", "kind"),
    [
        ({"fact": STATED_ALONE}, None, "fact"),
        ({"fact": STATED_ALONE - 0.01}, None, None),
        ({"fact": STATED_BY_RULES}, "fact", "fact"),
        ({"fact": STATED_BY_RULES - 0.01}, "fact", None),
        ({"fact": 0.3, "preference": 0.5}, None, "preference"),
        ({"none": 1.0}, "preference", "preference"),
        ({"none": 1.0}, "gap", "gap"),
        ({"decision": 0.7}, None, "decision"),
        ({"decision": 0.7}, "fact", "decision"),
    ],
)
def test_less_is_enough_for_a_fact_that_rules_find(probability, by_rules, kind):
    assert judgment(**probability).decide(by_rules) == kind


def session(*turns):
    start, read = 0, []
    for speaker, text in turns:
        read.append(Turn(speaker, text, start))
        start += len(text) + 1
    return Session("s", tuple(read))


def test_numbers_are_alike_and_marks_are_words():
    assert ngrams("At 9, twice!")[:5] == ["at", "0", ",", "twice", "!"]
    assert "at 0 ," in ngrams("At 11,")


def test_probabilities_of_a_sentence_do_not_depend_on_others():
    read = session(("ana", "I live in Ghent."), ("Assistant", "Nice."), ("ana", "My dentist is in Bruges. He is kind."))
    features = [read_sentence(read, n, i, None) for n, i in ((0, 0), (2, 0), (2, 1))]
    together = sentence_model().predict(features)
    assert together.tolist() == [sentence_model().predict([f])[0].tolist() for f in features]
    assert together.sum(axis=1).tolist() == pytest.approx([1, 1, 1], abs=0.005)


def test_a_session_forms_the_same_alone_and_among_others():
    one = session(("ana", "I live in Ghent with my sister Ida, and I work at Basin on Mondays."))
    other = session(("ben", "My dentist is in Bruges. He is kind."))
    assert next(form_items([one, other])) == next(form_items([one]))


def test_a_history_that_trained_the_model_keeps_its_precision():
    golden = golden_notes("noor")
    scores = score(golden, list(form_items([g.session for g in golden])))
    assert scores.precision(*FACTS) >= 0.9 and scores.recall(*FACTS) >= 0.5
