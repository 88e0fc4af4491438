"""The golden questions: every quote exists, nothing repeats, what changed is every about."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest

from tests.data.demo_corpus import COLLECTIONS, USERS, documents, fold, questions, register, spans, times_of_quote

MIN_QUESTIONS = 500
TYPES = {"single", "multi_hop", "temporal", "updated", "user_specific", "by_id", "unanswerable"}


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_question_has_its_fields_and_its_scope(collection: str):
    for q in questions(collection):
        assert set(q) <= {"id", "question", "type", "kind", "user", "as_of", "evidence", "stale"}, q
        assert "kind" not in q or q["type"] == "unanswerable", q
        assert q["id"].startswith(f"{collection}-") and q["type"] in TYPES and q["user"] in USERS[collection], q
        assert q["question"].strip().endswith("?") or q["type"] == "by_id", q
        assert (not q["evidence"]) == (q["type"] == "unanswerable"), q
        assert q["type"] != "multi_hop" or len(q["evidence"]) > 1, q
        assert q["type"] != "updated" or q["stale"], q
        if "as_of" in q:
            assert q["type"] in {"temporal", "multi_hop", "by_id"} and datetime.fromisoformat(q["as_of"]), q


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_quote_is_in_a_source_of_the_user_who_asks(collection: str):
    for q in questions(collection):
        for span in spans(q):
            assert times_of_quote(collection, q["user"], span), (q["id"], span)
            assert not set("*`[]#\n") & set(span["quote"]), ("markup in a quote", q["id"], span)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_what_must_not_be_returned_is_older_than_what_must(collection: str):
    for q in questions(collection):
        for old in q.get("stale", []):
            newest = [w for s in q["evidence"] for w in times_of_quote(collection, q["user"], s) if w]
            then = [w for w in times_of_quote(collection, q["user"], old) if w]
            assert newest and then and min(then) < max(newest), (q["id"], old)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_question_about_a_past_day_is_answered_by_earlier_memories(collection: str):
    for q in (q for q in questions(collection) if "as_of" in q):
        day = datetime.fromisoformat(q["as_of"]).replace(tzinfo=UTC)
        for span in q["evidence"]:
            assert any(w and w <= day for w in times_of_quote(collection, q["user"], span)), (q["id"], span)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_no_answer_is_a_fact_that_had_changed_by_the_day_of_the_question(collection: str):
    changes = [r for r in register() if r["label"] == "UPDATE" and r["collection"] == collection]
    for q in questions(collection):
        day = datetime.fromisoformat(q.get("as_of", "2026-12-31")).replace(tzinfo=UTC)
        for span, r in ((s, r) for s in q["evidence"] for r in changes if r["user"] == q["user"]):
            (old,) = r["older"]
            if old["uri"] == span["uri"] and (old["quote"] in span["quote"] or span["quote"] in old["quote"]):
                changed = min(w for w in times_of_quote(collection, q["user"], r["newer"]) if w)
                assert changed > day, (q["id"], r["id"])


def test_no_question_repeats_and_there_are_enough_of_every_type():
    every = [q for c in COLLECTIONS for q in questions(c)]
    seen = Counter((q["id"].split("-")[0], q["user"], q.get("as_of"), fold(q["question"]).casefold()) for q in every)
    assert not [k for k, n in seen.items() if n > 1]
    assert not [k for k, n in Counter(q["id"] for q in every).items() if n > 1]
    assert len(every) >= MIN_QUESTIONS
    kinds = Counter(q["type"] for q in every)
    assert all(kinds[t] >= 15 for t in TYPES), kinds


def test_pages_of_the_lexicon_have_titles_of_their_own_and_questions_need_one_to_four_of_them_or_five_and_more():
    pages = documents("lexicon")
    assert len({d.title for d in pages.values()}) == len(pages) >= 130
    assert all(70 <= len(d.text.split()) <= 160 for d in pages.values())
    needed = {"single": 1, "bridge": 2, "compare": 2, "three": 3, "four": 4, "none": 0, "changed": 1, "still": 1}
    for q in questions("lexicon"):
        pages_needed = len({s["uri"] for s in q["evidence"]})
        assert pages_needed == len(q["evidence"]), q
        assert pages_needed == needed.get(kind := q["id"].split("-")[1], pages_needed), q
        assert kind != "broad" or pages_needed >= 5, q
    kinds = Counter(q["id"].split("-")[1] for q in questions("lexicon"))
    steps = {"single": 40, "bridge": 45, "compare": 20, "three": 25, "four": 10, "none": 71}
    assert kinds == steps | {"changed": 10, "still": 3, "broad": 11}


def test_the_same_question_has_other_answers_for_other_users():
    answers: dict[str, dict[str, str]] = defaultdict(dict)
    for q in (q for q in questions("diary") if q["evidence"] and "as_of" not in q):
        answers[fold(q["question"]).casefold()][q["user"]] = json.dumps(q["evidence"])
    shared = [by for by in answers.values() if len(by) > 1]
    assert len(shared) >= 8 and all(len(set(by.values())) == len(by) for by in shared)
