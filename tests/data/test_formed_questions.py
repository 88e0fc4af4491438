"""The questions about what conversations form: each quote is said once, in the session that it names."""

from collections import Counter, defaultdict

from palimpsest.eval.golden.questions import load_golden
from palimpsest.eval.studies.formed_questions import question_kind
from tests.data.demo_corpus import GOLDEN, rows

FOLDER = GOLDEN / "formation"
KINDS = {"fact", "preference", "decision", "solution"}


def test_each_quote_is_in_one_turn_of_its_session():
    turns = defaultdict(list)
    for file in sorted((FOLDER / "household").glob("*.jsonl")):
        for row in rows(file):
            turns[f"{file.name}#{row['session_id']}"].append(row["text"])
    for q in load_golden(FOLDER / "household_questions.jsonl"):
        for quote in (*q.evidence, *q.stale):
            assert sum(quote.quote in text for text in turns[quote.uri]) == 1, (q.id, quote)


def test_each_user_asks_for_every_kind_and_no_question_twice():
    questions = load_golden(FOLDER / "household_questions.jsonl")
    by_user = Counter((q.user, question_kind(q.id)) for q in questions)
    assert set(by_user) == {(user, kind) for user in ("petra", "yusuf") for kind in KINDS} and min(by_user.values()) > 7
    assert len({(q.user, q.question) for q in questions}) == len(questions) >= 150
