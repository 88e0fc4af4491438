import numpy as np
import pytest

from palimpsest.query import Scope, open_index
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.ranking.conversation import nearby_word_scores, smooth
from palimpsest.query.ranking.rank import rank
from palimpsest.query.ranking.scoring import LineLayout, RowLayout
from palimpsest.query.scope.scope_arrays import Postings, TurnOrder, word_sums
from tests.query.made import memory, scope_query, tables, write

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


def test_a_turn_takes_a_share_of_its_neighbours_and_nothing_of_another_session():
    scores = np.array([1.0, 10.0, 4.0, 2.0, 0.0])
    assert smoothed(scores, ORDER, (0.5, 0.25)).tolist() == [
        1 + 0.5 * (4 + 2),
        10,
        4 + 0.5 * 1 + 0.25 * 2,
        2 + 0.5 * 1 + 0.25 * 4,
        0.5 * 10,
    ]


def test_a_short_turn_takes_on_as_much_less():
    order = TurnOrder.of(*FOLLOWING, np.array([5, 30, 30, 30, 10]))
    assert smoothed(np.array([1.0, 10.0, 4.0, 2.0, 0.0]), order, (0.5,)).tolist() == [
        1 + 0.2 * 3,
        10,
        4.5,
        2.5,
        0.4 * 5,
    ]
    city = Postings(np.array([0, 2], np.int32), np.array([1.0, 2.0], np.float32))
    assert nearby_words([city], order, (0.75,)).tolist() == pytest.approx([1 + 0.2 * 0.5, 0, 2, 0.75, 0])


def test_each_word_counts_once_in_the_turn_or_neighbor_that_scores_it_best():
    city = Postings(np.array([0, 2], np.int32), np.array([1.0, 2.0], np.float32))
    spring = Postings(np.array([2, 3, 4], np.int32), np.array([4.0, 1.0, 3.0], np.float32))
    assert nearby_words([city, spring], ORDER, (0.75, 0.25)).tolist() == [
        0.75 * 2 + 0.75 * 4,
        0.75 * 3,
        2 + 4,
        0.75 * 1 + 1,
        3,
    ]
    assert nearby_words([city, spring], ORDER, ()).tolist() == [1, 0, 6, 1, 3]


def test_words_of_what_is_no_candidate_do_not_count_nearby():
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


@pytest.fixture
def index(tmp_path):
    write(tables(TALK), tmp_path / "i.duckdb", strategies={"notes": "turns"})
    return tmp_path / "i.duckdb"


def test_an_answer_is_found_by_the_question_before_it(index):
    with open_index(index) as reader:
        flat = [m.memory_id for m in reader.search("which city in spring?", ANA, strategy="flat").memories]
        found = reader.search("which city in spring?", ANA, explain=True)
    results = {m.memory_id: m for m in found.memories}
    assert found.strategy == "turns" and list(results)[:2] == ["m3", "m1"]
    assert flat[:2] == ["m3", "m4"]
    assert "it was said near result 1" in results["m1"].why


def test_what_is_no_candidate_adds_nothing_to_its_neighbours(index, tmp_path):
    write(tables(TALK, updates=[("m5", "m3")]), tmp_path / "updated.duckdb")

    def helped(path):
        found = rank(scope_query(DuckDBBackend(path), "which city in spring?", "turns", ANA), 0)
        return {c.memory_id: [link.source for link in c.path] for c in found}

    before, after = helped(index), helped(tmp_path / "updated.duckdb")
    assert before["m1"] == ["m3"] and "m3" not in after and after["m1"] != ["m3"]


def test_a_scope_without_candidates_gives_no_ranking(index):
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
