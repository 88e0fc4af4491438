"""The study of exported and imported answers, on homes of a few turns."""

import json
from collections.abc import Sequence

from palimpsest.query.request.types import Scope
from palimpsest_eval.golden.questions import Question
from palimpsest_eval.studies.export_round_trip import Answer, RoundTrip, ScopedQuestion, measure, sample
from tests.small_corpus import write_chats


def ask(*texts: str) -> Sequence[ScopedQuestion]:
    return [
        ScopedQuestion(Scope("chats", user), Question(id=f"{user}-{text}", question=text, type="single", evidence=()))
        for text in texts
        for user in ("ann", "bob")
    ]


def test_a_person_who_moves_to_an_empty_home_has_the_same_answers(tmp_path):
    corpus = write_chats(tmp_path / "corpus")
    found = measure(corpus, ask("When is the deadline of Heron?", "What is my locker code?"), tmp_path)
    assert (found.questions, found.same_texts, found.same_ids, found.same_contexts) == (4, 4, 4, 4)
    assert found.users == {"ann": 3, "bob": 2} and json.dumps(found.differing) == "[]"


def test_texts_in_another_order_are_another_answer():
    result = RoundTrip()
    result.count("q1", Answer(("a", "b"), ("x", "y"), "x y"), Answer(("b", "a"), ("y", "x"), "x y"))
    assert (result.questions, result.same_texts, result.same_ids, result.same_contexts) == (1, 0, 0, 1)
    assert result.differing == ["q1"]


def test_a_sample_is_the_same_whatever_the_order():
    questions = ask(*"abcdef")
    assert sample(questions, 4) == sample(questions[::-1], 4) and len(sample(questions, 4)) == 4
