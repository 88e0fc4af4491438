"""Conversations: what is said near a turn counts for it, and stands beside it in an answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.query import Scope, open_index
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.context.pack import completes, neighbor_ids, pronoun_name
from palimpsest.query.ranking.conversation import (
    answer_rows,
    answer_word_scores,
    nearby_word_scores,
    role_scores,
    smooth,
)
from palimpsest.query.ranking.rank import rank
from palimpsest.query.ranking.scoring import LineLayout, RowLayout
from palimpsest.query.request.types import Filters, Memory
from palimpsest.query.scope.scope_arrays import Postings, ReadingOrder, TurnOrder, word_sums
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.made import at, index_fixture, memory, reader_fixture, scope_query, tables, write

ANA = Scope("notes", "ana")
# rows 0-4; said in the order 2, 0, 3 and, in another session, 1, 4
FOLLOWING = np.array([2, 0, 1]), np.array([0, 3, 4])
ORDER = TurnOrder.of(*FOLLOWING, np.full(5, 30))


def turn(memory_id, text, ordinal, session="s1", **columns):
    about = {"unit": "turn", "session_id": session, "document_id": f"d-{session}", "ordinal": ordinal}
    return memory(memory_id, text, **(about | columns))


def smoothed(scores, order, shares):
    line = np.zeros(order.length)
    line[order.places] = scores
    return smooth(line, order.line_weight, shares)[order.places]


def nearby_words(postings, order, shares, candidates=None):
    """Returns the scores of the candidates, and 0 for the others."""
    candidates = np.ones(len(order.places), bool) if candidates is None else candidates
    layout = LineLayout(candidates, order)
    placed = [layout.place(p) for p in postings]
    scores = nearby_word_scores(placed, word_sums(placed, layout.size), layout.smoothing_weight, shares)
    return np.where(candidates, scores[order.places], 0)


def test_a_turn_takes_a_share_of_its_neighbours_less_where_it_is_short():
    scores = np.array([1.0, 10.0, 4.0, 2.0, 0.0])
    expected = [1 + 0.5 * (4 + 2), 10, 4 + 0.5 * 1 + 0.25 * 2, 2 + 0.5 * 1 + 0.25 * 4, 0.5 * 10]
    assert smoothed(scores, ORDER, (0.5, 0.25)).tolist() == expected
    order = TurnOrder.of(*FOLLOWING, np.array([5, 30, 30, 30, 10]))
    found = smoothed(np.array([1.0, 10.0, 4.0, 2.0, 0.0]), order, (0.5,))
    assert found.tolist() == [1 + 0.2 * 3, 10, 4.5, 2.5, 0.4 * 5]
    city = Postings(np.array([0, 2], np.int32), np.array([1.0, 2.0], np.float32))
    assert nearby_words([city], order, (0.75,)).tolist() == pytest.approx([1 + 0.2 * 0.5, 0, 2, 0.75, 0])


def test_each_word_counts_once_where_it_scores_best_and_of_candidates_alone():
    city = Postings(np.array([0, 2], np.int32), np.array([1.0, 2.0], np.float32))
    spring = Postings(np.array([2, 3, 4], np.int32), np.array([4.0, 1.0, 3.0], np.float32))
    expected = [0.75 * 2 + 0.75 * 4, 0.75 * 3, 2 + 4, 0.75 * 1 + 1, 3]
    assert nearby_words([city, spring], ORDER, (0.75, 0.25)).tolist() == expected
    assert nearby_words([city, spring], ORDER, ()).tolist() == [1, 0, 6, 1, 3]
    city = Postings(np.array([2], np.int32), np.array([2.0], np.float32))
    assert nearby_words([city], ORDER, (0.5,), np.array([True, True, False, True, True])).tolist() == [0] * 5


def test_statistics_in_a_line_are_those_of_the_candidates():
    rng, allowed = np.random.default_rng(3), np.array([True, True, False, True, True])
    line, by_row = LineLayout(allowed, ORDER), RowLayout(allowed)
    scores = rng.standard_normal(4)
    in_line, in_rows = line.scatter(scores), by_row.scatter(scores)
    assert line.z(in_line)[line.places(line.rows)] == pytest.approx(by_row.z(in_rows)[by_row.rows])
    assert line.deviation(in_line) == pytest.approx(by_row.deviation(in_rows))
    assert sorted(line.best(in_line, 2)) == sorted(by_row.best(in_rows, 2))
    assert line.best(line.scatter(np.ones(4)), 2).tolist() == [0, 1]  # ties to the lower row
    assert line.best(line.scatter(-np.ones(4)), 9).tolist() == [0, 1, 3, 4]
    assert not line.z(line.scatter(np.ones(4))).any()


def test_a_large_scope_is_scored_in_float32_with_the_statistics_of_float64():
    rng, size = np.random.default_rng(9), 150_000
    pairs = np.flatnonzero(np.arange(size - 1) % 40 != 39)
    line = LineLayout(rng.random(size) < 0.9, TurnOrder.of(pairs, pairs + 1, np.full(size, 30)))
    cosines = rng.normal(0.2, 0.05, len(line.rows))
    scores = line.scatter(cosines)
    assert scores.dtype == np.float32 and line.z(scores).dtype == np.float32
    assert line.gather(line.z(scores)) == pytest.approx((cosines - cosines.mean()) / cosines.std(), abs=2e-5)


TALK = [
    turn("m3", "Which city did you visit in spring?", 0),
    turn("m1", "Porto, and with my sister and her boys we ate far too much cake and lost one good umbrella there.", 1),
    turn("m5", "Soup again.", 2),
    turn("m2", "What do you cook today?", 0, "s2"),
    turn("m4", "Something with the asparagus that spring brings.", 1, "s2"),
]


index = index_fixture(TALK, strategies={"notes": "turns"})


def test_an_answer_is_found_by_the_question_before_it_if_that_is_a_candidate(index, tmp_path):
    with open_index(index) as reader:
        flat = [m.memory_id for m in reader.search("which city in spring?", ANA, strategy="flat").memories]
        found = reader.search("which city in spring?", ANA, explain=True)
    results = {m.memory_id: m for m in found.memories}
    assert found.strategy == "turns" and list(results)[:2] == ["m3", "m1"]
    assert flat[:2] == ["m3", "m4"]
    assert "it was said near result 1" in results["m1"].why
    write(tables(TALK, updates=[("m5", "m3")]), tmp_path / "updated.duckdb")

    def helped(path):
        found = rank(scope_query(DuckDBBackend(path), "which city in spring?", "turns", ANA), 0)
        return {c.memory_id: [link.source for link in c.path] for c in found}

    before, after = helped(index), helped(tmp_path / "updated.duckdb")
    assert before["m1"] == ["m3"] and "m3" not in after and after["m1"] != ["m3"]
    with open_index(index) as reader:
        assert reader.search("spring", ANA, session="none").memories == []
        assert reader.search("spring", ("notes", "nobody")).memories == []


def test_scores_along_the_line_equal_those_computed_turn_by_turn():
    rng, size, shares = np.random.default_rng(7), 2000, (0.6, 0.36, 0.22)
    shuffled = rng.permutation(size)
    pairs = np.flatnonzero(np.arange(size - 1) % 9 != 8)
    order = TurnOrder.of(shuffled[pairs], shuffled[pairs + 1], rng.integers(1, 40, size))
    chosen = [np.sort(rng.choice(size, n, replace=False)) for n in (0, 1, 7, 300, size)]
    postings = [Postings(rows, rng.random(len(rows), np.float32)) for rows in chosen]
    candidates = rng.random(size) < 0.8
    around = [[(abs(offset), at) for offset, at in order.order.neighbors(row, len(shares))] for row in range(size)]
    assert max(map(len, around)) == 6

    words = np.zeros(size)
    for term in postings:
        own = np.zeros(size)
        own[term.rows] = np.where(candidates[term.rows], term.scores, 0)
        best = np.array([max([own[row], *(shares[d - 1] * own[at] for d, at in around[row])]) for row in range(size)])
        words += own + order.smoothing_weight * (best - own)
    found = nearby_words(postings, order, shares, candidates)
    assert np.allclose(found, np.where(candidates, words, 0), rtol=1e-12, atol=1e-12)

    scores = rng.standard_normal(size)
    added = np.array([sum(shares[d - 1] * scores[at] for d, at in around[row]) for row in range(size)])
    assert np.allclose(smoothed(scores, order, shares), scores + order.smoothing_weight * added, rtol=1e-12)


ASSISTANT = np.array([False, True, False, False, True])
AFTER = np.array([1, 2, 3, 4, -1])  # user, assistant, user, user, assistant
EVERYONE = np.ones(5, bool)


def test_an_answer_is_the_assistants_turn_after_a_question_and_shares_its_words():
    assert answer_rows(AFTER, ASSISTANT, EVERYONE).tolist() == [1, -1, -1, 4, -1]
    assert answer_rows(AFTER, ASSISTANT, np.array([True, False, True, True, True])).tolist() == [-1, -1, -1, 4, -1]
    answers, shares = np.array([1, -1, -1, 4, -1]), np.array([0.5, 0.5, 0.5, 0.25, 0.5])
    cake = Postings(np.array([1, 2, 4], np.int32), np.array([4.0, 1.0, 4.0], np.float32))
    plum = Postings(np.array([0, 1], np.int32), np.array([3.0, 2.0], np.float32))
    assert answer_word_scores([cake, plum], answers, shares, EVERYONE).tolist() == [2 + 3, 6, 1, 1, 4]
    no_answer = np.array([True, False, True, True, True])
    assert answer_word_scores([cake, plum], answers, shares, no_answer).tolist() == [3, 0, 1, 1, 4]
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


def turn_chat(ordinal, speaker, text, session="s1"):
    about = {"unit": "turn", "session_id": session, "document_id": f"d-{session}", "ordinal": ordinal}
    return memory(f"m{ordinal}", text, speaker=speaker, **about)


ADVICE = (
    "For a garden in shade take ferns. Water the garden in the morning, mulch the garden in spring, feed the garden. "
)
CHAT = [
    turn_chat(0, "user", "My garden faces north and gets hardly any sun, so I want plants for it."),
    turn_chat(1, "assistant", ADVICE * 3),
    turn_chat(2, "user", "Thanks. I also bought a red bicycle on Monday."),
    turn_chat(3, "assistant", "Enjoy the ride. Oil the chain, and keep it dry when you work in the garden."),
    turn_chat(4, "user", "What is a good bread for soup?"),
    turn_chat(5, "Assistant", "A rye loaf goes with most soups, with herbs out of the garden."),
]


reader = reader_fixture(CHAT, strategies={"notes": "turns"})


def test_a_statement_comes_before_advice_and_an_answer_is_found_by_its_question(reader):
    found = reader.search("Which way does my garden face?", ANA, explain=True)
    assert found.strategy == "turns"
    assert found.memories[0].memory_id == "m0"
    assert "it was said near result" in found.memories[0].why
    found = reader.search("Which ferns did you suggest for my garden that faces north?", ANA, explain=True)
    assert [m.memory_id for m in found.memories[:2]] == ["m1", "m0"]
    assert "it was said near result" in found.memories[0].why
    stated = reader.search("Where do ferns go in my garden that faces north?", ANA)
    assert stated.memories[0].memory_id == "m0"
    assert reader.search("garden", ANA, session="none").memories == []


def test_an_answer_that_is_no_candidate_adds_nothing_to_its_question(reader, tmp_path):
    write(tables(CHAT, updates=[("m3", "m1")]), tmp_path / "updated.duckdb")

    def helped(backend):
        found = rank(scope_query(backend, "plants for a garden in shade", "turns", ANA), 0)
        return {c.memory_id: [link.source for link in c.path] for c in found}

    before, after = helped(reader.backend), helped(DuckDBBackend(tmp_path / "updated.duckdb"))
    assert before["m0"] == ["m1"] and after["m0"] == [] and "m1" not in after


def test_a_chat_with_short_answers_is_scored_as_a_conversation_between_people(tmp_path):
    def scores(name, speaker):
        write(tables([turn_chat(0, "user", "Which bread fits soup?"), turn_chat(1, speaker, "Rye.")]), tmp_path / name)
        return [c.score for c in rank(scope_query(DuckDBBackend(tmp_path / name), "bread", "turns", ANA), 0)]

    assert scores("a.duckdb", "assistant") == scores("b.duckdb", "Ben")


BEN = Scope("notes", "ben")


def turn_beside(memory_id, text, ordinal, user_id="ana", **columns):
    place = {"unit": "turn", "session_id": "s1", "document_id": f"d-{user_id}", "ordinal": ordinal}
    return memory(memory_id, text, user_id, uri="talk.jsonl", **(place | {"speaker": "Ana"} | columns))


TALK_beside = [
    turn_beside("m5", "What did you plant in spring?", 0),
    turn_beside("m4", "Potatoes and beans.", 1),
    turn_beside("m3", "And where do the owls nest?", 2),
    turn_beside("m2", "In the old barn.", 3, speaker="Bo"),
    turn_beside("m1", "Good to know.", 4),
    turn_beside("b1", "Ben was there, too.", 2, "ben"),
]
PAGE = [
    memory(f"p{i}", text, document_id="d-page", ordinal=i)
    for i, text in enumerate(["Owls are birds.", "They hunt at night.", "They eat mice."])
]

reader_beside = reader_fixture([*TALK_beside, *PAGE])


def test_neighbors_come_nearest_first_and_end_where_the_session_does():
    order = ReadingOrder.of(np.array([0, 1, 2]), np.array([1, 2, 3]), 5)
    assert order.neighbors(1, 2) == [(-1, 0), (1, 2), (2, 3)]
    assert order.neighbors(0, 1) == [(1, 1)] and order.neighbors(4, 3) == []


def test_neighbors_of_a_turn_or_a_chunk_are_of_its_session_or_document_and_scope(reader_beside):
    backend = reader_beside.backend
    assert neighbor_ids(ServedScope(backend, ANA, Filters()), ["m3", "p0"], 2) == {
        "m3": [(-1, "m4"), (1, "m2"), (-2, "m5"), (2, "m1")],
        "p0": [(1, "p1"), (2, "p2")],
    }
    assert neighbor_ids(ServedScope(backend, BEN, Filters()), ["b1"]) == {}
    assert neighbor_ids(ServedScope(backend, Scope("notes", "nobody"), Filters()), ["m3"]) == {}
    assert neighbor_ids(ServedScope(backend, ANA, Filters()), []) == {}


def test_a_memory_that_is_no_candidate_is_no_neighbor(tmp_path):
    days = [m | {"observed_at": at(f"2024-05-0{m['ordinal'] + 1}")} for m in TALK_beside[:5]]
    write(tables(days, updates=[("m1", "m4")]), tmp_path / "i.duckdb")
    backend = DuckDBBackend(tmp_path / "i.duckdb")
    near = {
        name: [i for _, i in neighbor_ids(ServedScope(backend, ANA, filters), ["m3"], 1)["m3"]]
        for name, filters in {
            "now": Filters(),
            "history": Filters(history=True),
            "as of": Filters(as_of=at("2024-05-03")),
            "since": Filters(since=at("2024-05-04")),
            "elsewhere": Filters(session="s2"),
        }.items()
    }
    assert near == {"now": ["m2"], "history": ["m4", "m2"], "as of": ["m4"], "since": ["m2"], "elsewhere": []}


def test_a_context_has_the_reply_to_a_question_and_an_answer_lists_it_apart(reader_beside):
    found = reader_beside.search("Where do the owls nest?", ANA, k=1, strategy="hybrid", budget_tokens=400)
    assert [m.memory_id for m in found.memories] == ["m3"]
    assert [m.memory_id for m in found.beside] == ["m2"] and found.packed_ids == ("m3", "m2")
    assert "  context: (Bo) In the old barn. [memory:m2]" in found.context_with("full").splitlines()
    assert found.citations.ids == ("m3", "m2")
    bare = reader_beside.search("Where do the owls nest?", ANA, k=1, strategy="hybrid", budget_tokens=25)
    assert bare.packed_ids == ("m3",) and bare.beside == ()


def said(text, speaker="Ana"):
    return Memory("m", "notes", "ana", text, unit="turn", speaker=speaker, token_count=len(text.split()))


def test_what_completes_a_memory_is_a_reply_its_question_or_what_it_refers_back_to():
    asks, replies = said("When do you open?", "Bo"), said("At eight.")
    long_reply = said("On weekdays we open at eight, and on Saturdays not before ten in the morning.")
    assert completes(asks, 1, replies) and completes(replies, -1, asks)
    assert not completes(asks, -1, replies) and not completes(long_reply, -1, asks) and not completes(replies, 1, asks)
    assert completes(said("He is late again."), -1, long_reply)
    assert not completes(asks, 1, said("word " * 200))


def test_a_pronoun_at_the_start_of_a_turn_gets_the_one_name_of_the_turn_before():
    answer = said("She moved to Ghent.", "Joris")
    assert pronoun_name(answer, said("Joris, how is Ruth these days?", "Ana")) == "she = Ruth"
    assert pronoun_name(answer, said("How are Ruth and Gwen these days?", "Ana")) == ""
    assert pronoun_name(answer, said("Hello Joris, any news?", "Ana")) == ""
    assert pronoun_name(said("I moved.", "Joris"), said("How is Ruth?", "Ana")) == ""
