"""The questions about what conversations form: each quote is said once, in the session that it names."""

from collections import Counter, defaultdict

import pytest

from palimpsest.store.home import data_folder
from palimpsest_eval.golden.questions import load_golden
from palimpsest_eval.runs.formed_questions import QUESTIONS, question_kind
from palimpsest_eval.runs.measure_formation import conversations_of
from palimpsest_eval.training.train_sentences import TRAINING_USERS, golden_notes
from tests.data.demo_corpus import rows

KINDS = {"fact", "preference", "decision", "solution"}


def questions_of(user):
    return [q for q in load_golden(data_folder() / QUESTIONS[user]) if q.user == user]


@pytest.mark.parametrize("user", QUESTIONS)
def test_each_quote_is_in_one_turn_of_its_session(user):
    turns = defaultdict(list)
    for row in rows(conversations_of(user)):
        turns[f"{user}.jsonl#{row['session_id']}"].append(row["text"])
    for q in questions_of(user):
        for quote in (*q.evidence, *q.stale):
            assert sum(quote.quote in text for text in turns[quote.uri]) == 1, (q.id, quote)


@pytest.mark.parametrize("user", QUESTIONS)
def test_each_user_asks_for_every_kind_and_no_question_twice(user):
    questions = questions_of(user)
    by_kind = Counter(question_kind(q.id) for q in questions)
    assert set(by_kind) >= KINDS and min(by_kind[kind] for kind in KINDS) > 7
    assert len({q.question for q in questions}) == len(questions) >= 60


@pytest.mark.parametrize("user", [*TRAINING_USERS, "emeka"])
def test_golden_notes_quote_the_sessions_that_they_name(user):
    golden = golden_notes(user)
    assert len(golden) >= 20 and sum(len(g.items) for g in golden) >= 120


def test_no_conversation_trains_and_judges():
    assert not {"emeka", "yusuf", "petra"} & set(TRAINING_USERS)
