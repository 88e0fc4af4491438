import numpy as np
import pytest

from palimpsest.query.ranking.rank import NONE, best_pairs
from palimpsest.query.scope.scope_arrays import Postings
from palimpsest.query.scope.scope_graph import PassageGraph

SIZE = 40
EVERY = np.ones(SIZE, bool)


def graph():
    """Ada in 0, 1 and 2; Bee in 0 and 3, the title of 3; Cor in 4 and 5."""
    nothing = np.zeros(0, np.int64)
    return PassageGraph.build(
        SIZE,
        (np.array([0, 1, 2, 0, 3, 4, 5]), np.array([0, 0, 0, 1, 1, 2, 2])),
        (np.array([3]), np.array([1])),
        np.array(["Ada", "Bee", "Cor"], object),
        (nothing, nothing),
    )


def postings(**terms):
    return [Postings(np.array(sorted(p), np.int32), np.array([p[r] for r in sorted(p)])) for p in terms.values()]


def own(**scores):
    out = np.zeros(SIZE)
    for row, score in scores.items():
        out[int(row[1:])] = score
    return out


def test_a_pair_scores_the_first_memory_and_the_words_that_only_the_second_has():
    terms = postings(born={1: 2.0, 4: 9.0}, ada={0: 1.0, 2: 3.0})
    found = best_pairs(graph(), np.array([0]), own(m0=5.0, m1=4.0), terms, 0.5, 0.0, EVERY)
    # 0 has `ada`, so 2 adds nothing and is in no pair; 1 adds half of 2.0, and both ends score 6 against 5 alone
    assert found.share[[0, 1]] == pytest.approx([1, 1]) and found.share[2] == 0 and found.share[4] == 0
    assert found.partners[[0, 1, 2]].tolist() == [1, 0, NONE] and found.names[[0, 1]].tolist() == [0, 0]


def test_a_title_adds_to_a_pair_without_words():
    found = best_pairs(graph(), np.array([0]), own(m0=5.0), postings(born={1: 1.0}), 1.0, 2.0, EVERY)
    assert found.share[3] == 1 and found.partners[3] == 0 and found.partners[0] == 3
    assert found.share[1] == pytest.approx(np.exp(-1))  # 5 + 1 against 5 + 2


def test_what_answers_alone_stays_ahead_of_pairs_that_are_behind():
    terms = postings(born={1: 1.0, 9: 5.0})
    found = best_pairs(graph(), np.array([9, 0]), own(m9=8.0, m0=5.0), terms, 1.0, 0.0, EVERY)
    assert found.share[9] == 1 and found.partners[9] == NONE
    assert found.share[[0, 1]] == pytest.approx(np.exp([-2, -2]))


def test_what_is_not_allowed_is_in_no_pair():
    terms = postings(born={1: 2.0, 2: 1.0})
    found = best_pairs(graph(), np.array([0]), own(m0=5.0), terms, 1.0, 0.0, np.arange(SIZE) != 1)
    assert found.share[1] == 0 and found.partners[0] == 2
    none = best_pairs(graph(), np.zeros(0, np.int64), own(), terms, 1.0, 0.0, EVERY)
    assert not none.share.any()
