"""The follow-up questions: every quote exists, their subjects are in their turns, enough of every kind."""

from collections import Counter

import pytest

from palimpsest.query.request.dependence import find_dependence
from palimpsest.query.request.resolve_turns import resolve_text
from palimpsest_eval.golden.questions import load_questions
from tests.data.demo_corpus import COLLECTIONS, DATA, WITH_FOLLOW_UPS, default_user, times_of_quote

PREFIX = "follow_up_"
KINDS = {"person", "thing", "ellipsis", "other", "time", "switch"}


def follow_ups(collection):
    return [q for q in load_questions(DATA, collection) if q.turns]


@pytest.mark.parametrize("collection", WITH_FOLLOW_UPS)
def test_every_follow_up_has_turns_and_quotes_of_its_user(collection):
    questions = follow_ups(collection)
    assert len(questions) >= 50
    for q in questions:
        assert q.type.removeprefix(PREFIX) in KINDS and 1 <= len(q.turns) <= 5, q
        for quote in (*q.evidence, *q.stale):
            span = {"uri": quote.uri, "quote": quote.quote}
            assert times_of_quote(collection, q.user or default_user(collection), span), (q.id, span)


def test_there_are_enough_of_every_kind_none_repeats_and_a_change_of_subject_is_left_as_it_is():
    every = [q for c in COLLECTIONS for q in follow_ups(c)]
    kinds = Counter(q.type.removeprefix(PREFIX) for q in every)
    assert len(every) >= 140 and all(kinds[k] >= 20 for k in KINDS), kinds
    assert len({(q.user, q.as_of, q.question, q.turns) for q in every}) == len(every)
    for q in (q for c in COLLECTIONS for q in follow_ups(c) if q.type == f"{PREFIX}switch"):
        assert resolve_text(q.question, q.turns).text == q.question, q


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_golden_question_without_turns_is_complete(collection):
    alone = [q for q in load_questions(DATA, collection) if not q.turns and q.answerable]
    assert [q.id for q in alone if not find_dependence(q.question).is_complete] == []
