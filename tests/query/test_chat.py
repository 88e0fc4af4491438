import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.query import Scope, open_index
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.ranking.conversation import answer_rows, answer_word_scores, role_scores
from palimpsest.query.ranking.rank import rank
from palimpsest.query.scope.scope_arrays import Postings
from tests.query.made import memory, scope_query, tables, write

ANA = Scope("notes", "ana")
ASSISTANT = np.array([False, True, False, False, True])
AFTER = np.array([1, 2, 3, 4, -1])  # user, assistant, user, user, assistant
EVERYONE = np.ones(5, bool)


def test_the_answer_is_the_assistants_turn_after_one_that_is_not():
    assert answer_rows(AFTER, ASSISTANT, EVERYONE).tolist() == [1, -1, -1, 4, -1]
    assert answer_rows(AFTER, ASSISTANT, np.array([True, False, True, True, True])).tolist() == [-1, -1, -1, 4, -1]


def test_a_word_counts_once_in_the_question_or_by_a_share_in_its_answer():
    answers, shares = np.array([1, -1, -1, 4, -1]), np.array([0.5, 0.5, 0.5, 0.25, 0.5])
    cake = Postings(np.array([1, 2, 4], np.int32), np.array([4.0, 1.0, 4.0], np.float32))
    plum = Postings(np.array([0, 1], np.int32), np.array([3.0, 2.0], np.float32))
    assert answer_word_scores([cake, plum], answers, shares, EVERYONE).tolist() == [2 + 3, 6, 1, 1, 4]
    no_answer = np.array([True, False, True, True, True])
    assert answer_word_scores([cake, plum], answers, shares, no_answer).tolist() == [3, 0, 1, 1, 4]


def test_each_role_is_compared_with_itself():
    scores = np.concatenate([np.linspace(0, 1, 3000), np.linspace(1, 3, 3000)])
    assistant = np.arange(6000) >= 3000
    found = role_scores(scores, assistant, np.arange(6000))
    user, own = found[:3000], found[3000:]
    assert abs(user.mean() - own.mean()) < 0.1 * scores.std()
    assert [user.std(), own.std(), found.std()] == pytest.approx([scores.std()] * 3, rel=0.02)


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans(), st.booleans()), max_size=30))
def test_role_scores_keep_the_order_inside_a_role_and_leave_out_what_is_no_candidate(memories):
    scores, assistant, candidates = (np.array([m[i] for m in memories]) for i in range(3))
    rows = np.flatnonzero(candidates.astype(bool))
    assistant = assistant.astype(bool)
    found = role_scores(scores, assistant, rows)
    assert np.isfinite(found).all() and not np.delete(found, rows).any()
    for role in (rows[assistant[rows]], rows[~assistant[rows]]):
        order = role[np.argsort(scores[role])]
        assert (np.diff(found[order]) >= -1e-9).all()


def turn(ordinal, speaker, text, session="s1"):
    about = {"unit": "turn", "session_id": session, "document_id": f"d-{session}", "ordinal": ordinal}
    return memory(f"m{ordinal}", text, speaker=speaker, **about)


ADVICE = (
    "For a garden in shade take ferns. Water the garden in the morning, mulch the garden in spring, feed the garden. "
)
CHAT = [
    turn(0, "user", "My garden faces north and gets hardly any sun, so I want plants for it."),
    turn(1, "assistant", ADVICE * 3),
    turn(2, "user", "Thanks. I also bought a red bicycle on Monday."),
    turn(3, "assistant", "Enjoy the ride. Oil the chain, and keep it dry when you work in the garden."),
    turn(4, "user", "What is a good bread for soup?"),
    turn(5, "Assistant", "A rye loaf goes with most soups, with herbs out of the garden."),
]


@pytest.fixture
def reader(tmp_path):
    write(tables(CHAT), tmp_path / "i.duckdb", strategies={"notes": "turns"})
    with open_index(tmp_path / "i.duckdb") as reader:
        yield reader


def test_what_the_user_stated_comes_before_advice_that_repeats_it(reader):
    found = reader.search("Which way does my garden face?", ANA, explain=True)
    assert found.strategy == "turns"
    assert found.memories[0].memory_id == "m0"
    assert "it was said near result" in found.memories[0].why


def test_a_question_about_what_the_assistant_wrote_finds_the_answer_by_its_question(reader):
    found = reader.search("Which ferns did you suggest for my garden that faces north?", ANA, explain=True)
    assert [m.memory_id for m in found.memories[:2]] == ["m1", "m0"]
    assert "it was said near result" in found.memories[0].why
    stated = reader.search("Where do ferns go in my garden that faces north?", ANA)
    assert stated.memories[0].memory_id == "m0"


def test_an_answer_that_is_no_candidate_adds_nothing_to_its_question(reader, tmp_path):
    write(tables(CHAT, updates=[("m3", "m1")]), tmp_path / "updated.duckdb")

    def helped(backend):
        found = rank(scope_query(backend, "plants for a garden in shade", "turns", ANA), 0)
        return {c.memory_id: [link.source for link in c.path] for c in found}

    before, after = helped(reader.backend), helped(DuckDBBackend(tmp_path / "updated.duckdb"))
    assert before["m0"] == ["m1"] and after["m0"] == [] and "m1" not in after


def test_a_chat_with_short_answers_is_scored_as_a_conversation_between_people(tmp_path):
    def scores(name, speaker):
        write(tables([turn(0, "user", "Which bread fits soup?"), turn(1, speaker, "Rye.")]), tmp_path / name)
        return [c.score for c in rank(scope_query(DuckDBBackend(tmp_path / name), "bread", "turns", ANA), 0)]

    assert scores("a.duckdb", "assistant") == scores("b.duckdb", "Ben")


def test_a_scope_without_candidates_gives_no_ranking(reader):
    assert reader.search("garden", ANA, session="none").memories == []
