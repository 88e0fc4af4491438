from dataclasses import replace

import numpy as np
import pytest

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.ranking.rank import DECAY, rank
from palimpsest.query.ranking.scoring import reciprocal_ranks, score_stats, standardize, top
from palimpsest.query.request.strategies import STRATEGIES, Weights
from palimpsest.query.request.types import Filters, Link, Scope, Seeds
from palimpsest.query.scope.scope_graph import idf_weight
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from tests.query.made import memory, scope_query, tables, write

TALK = ("Owls hunt at night.", "They eat mice.", "What about bees?", "Bees make honey.")
SCOPE = Scope("notes", "ana")


class FakeBackend:
    """Scores and links as given; candidates are all of them."""

    def view(self, scope):
        return None

    def __init__(self, scores, links=(), hidden=()):
        self.all, self.links, self.hidden = scores, links, hidden

    def seeds(self, scope, filters, vector, terms, weight, n):
        ids = sorted(i for i in self.all if i not in self.hidden)
        both = np.array([self.all[i] for i in ids], float).reshape(-1, 2)
        every = np.array(list(self.all.values()), float)
        return Seeds(ids, both[:, 0], both[:, 1], len(every), score_stats(every[:, 0]), score_stats(every[:, 1]))

    def scores(self, scope, vector, terms, ids):
        return np.array([self.all[i] for i in ids], float)

    def neighbors(self, scope, filters, ids, n):
        return [link for link in self.links if link.source in ids]


def ranked(backend, hops=0, strategy=None, **weights):
    chosen = strategy or Weights(**({"words": 1.0} | weights))
    return rank(ScopeQuery(ServedScope(backend, SCOPE, Filters()), "w", np.zeros(384), ["w"], chosen), hops)


def test_the_best_of_many_scores_are_those_of_sorting_all_of_them():
    rng = np.random.default_rng(5)
    for scores in (rng.standard_normal(300_000), rng.integers(0, 50, 300_000).astype(float)):
        best = np.lexsort((np.arange(len(scores)), -scores))  # ties to the lower index
        for n in (1, 100, 1000):
            assert sorted(top(scores, n)) == sorted(best[:n])


def test_scores_are_sums_of_z_scores_over_every_candidate():
    found = ranked(FakeBackend({"a": (0.9, 0.0), "b": (0.5, 4.0), "c": (0.1, 0.0), "d": (0.5, 0.0)}))
    # cosine: mean .5, std .2828; words: mean 1, std 1.7321
    assert {c.memory_id: round(c.score, 4) for c in found} == {"b": 1.7321, "a": 0.8369, "d": -0.5774, "c": -1.9916}
    assert [c.memory_id for c in found] == ["b", "a", "d", "c"]


def test_flat_ignores_words():
    found = ranked(FakeBackend({"a": (0.9, 0.0), "b": (0.5, 4.0), "c": (0.1, 0.0)}), words=0.0)
    assert [c.memory_id for c in found] == ["a", "b", "c"]


def test_words_alone_and_sums_of_reciprocal_ranks_score_every_memory(tmp_path):
    made = tables(
        [memory("m1", "owls owls"), memory("m2", "owls and bees"), memory("m3", "bees hum"), memory("m4", "x")]
    )
    write(made, tmp_path / "index.duckdb")
    backend = DuckDBBackend(tmp_path / "index.duckdb")

    def found(weights):
        return rank(scope_query(backend, "owls", weights, SCOPE), 1)

    words = {c.memory_id: (c.words, c.score) for c in found(STRATEGIES["words"])}
    assert [c.memory_id for c in found(STRATEGIES["words"])] == ["m1", "m2", "m3", "m4"]
    assert words["m3"] == words["m4"] and words["m1"][1] == pytest.approx(
        (words["m1"][0] - np.mean([w for w, _ in words.values()])) / np.std([w for w, _ in words.values()])
    )
    # m1 is first by both, m2 second by both; no word of the question is in the others
    rrf = {c.memory_id: c.score for c in found(Weights(words=1.0, fusion="ranks", graph=0.0))}
    raw = np.array([2 / 61, 2 / 62, 1 / 63, 1 / 64])
    assert sorted(rrf.values(), reverse=True) == pytest.approx(((raw - raw.mean()) / raw.std()).tolist())


def test_a_rank_is_one_over_sixty_and_its_place_and_nothing_for_what_has_no_score():
    assert reciprocal_ranks(np.array([0.5, 2.0, 0.0, 2.0]), floor=0.0).tolist() == [1 / 63, 1 / 61, 0.0, 1 / 62]


def test_the_weight_of_the_graph_is_how_much_of_what_it_adds_counts(tmp_path):
    made = tables([memory(f"m{i}", t, unit="turn", session_id="s", ordinal=i) for i, t in enumerate(TALK)])
    write(made, tmp_path / "index.duckdb")
    backend = DuckDBBackend(tmp_path / "index.duckdb")

    def scores(graph):
        weights = replace(STRATEGIES["turns"], graph=graph)
        found = rank(scope_query(backend, "owls", weights, SCOPE), 0)
        return {c.memory_id: (c.base, c.score) for c in found}

    none, half, full = scores(0.0), scores(0.5), scores(1.0)
    assert all(own == score for own, score in none.values())
    assert any(abs(own - score) > 0.1 for own, score in full.values())
    assert all(half[i][1] == pytest.approx((none[i][1] + full[i][1]) / 2) for i in none)


def test_flat_follows_no_link():
    scores = {"a": (0.9, 0.0), "b": (0.5, 0.0), "c": (0.1, 0.0)}
    backend = FakeBackend(scores, [Link("a", "c", "EXTEND", 1.0)])
    found = ranked(backend, 2, STRATEGIES["flat"])
    assert [c.memory_id for c in found] == ["a", "b", "c"]


def test_equal_scores_rank_by_id():
    assert [c.memory_id for c in ranked(FakeBackend({"b": (1, 1), "c": (1, 1), "a": (1, 1)}))] == ["a", "b", "c"]


def test_a_link_lifts_a_memory_towards_what_it_was_reached_from_and_never_past_it():
    scores = {"a": (0.9, 4.0), "b": (0.5, 0.0), "c": (0.1, 0.0), "d": (0.4, 0.0)}
    before = {c.memory_id: c.score for c in ranked(FakeBackend(scores))}
    after = ranked(FakeBackend(scores, [Link("a", "c", "EXTEND", 0.9)]), hops=1)
    lifted = {c.memory_id: c for c in after}["c"]
    assert lifted.score == pytest.approx(before["a"] * DECAY * 0.9)
    assert [link.kind for link in lifted.path] == ["EXTEND"] and lifted.base == pytest.approx(before["c"])
    assert [c.memory_id for c in after] == ["a", "c", "b", "d"]
    assert {c.memory_id: c.score for c in after if c.memory_id != "c"} == {k: v for k, v in before.items() if k != "c"}


def test_the_second_hop_decays_again_and_only_where_two_hops_are_asked_for():
    scores = {"a": (0.9, 4.0), "b": (0.2, 0.0), "c": (0.1, 0.0)}
    links = [Link("a", "b", "EXTEND", 1.0), Link("b", "c", "DERIVE", 1.0)]
    top_score = ranked(FakeBackend(scores))[0].score
    one = {c.memory_id: c for c in ranked(FakeBackend(scores, links), hops=1)}
    two = {c.memory_id: c for c in ranked(FakeBackend(scores, links), hops=2)}
    assert two["c"].score == pytest.approx(top_score * DECAY**2) and len(two["c"].path) == 2
    assert one["c"].path == ()


def test_a_memory_that_is_no_seed_joins_with_its_own_score():
    backend = FakeBackend({"a": (0.9, 4.0), "b": (0.5, 0.0), "z": (0.3, 0.0)}, [Link("a", "z", "EXTEND", 1.0)], {"z"})
    assert "z" not in {c.memory_id for c in ranked(backend)}
    assert {c.memory_id: c.base for c in ranked(backend, hops=1)}["z"] == pytest.approx(
        {c.memory_id: c.score for c in ranked(FakeBackend(backend.all))}["z"]
    )


def test_links_from_a_seed_below_average_lift_nothing():
    scores = {"a": (0.9, 4.0), "b": (0.1, 0.0), "c": (0.0, 0.0)}
    after = ranked(FakeBackend(scores, [Link("b", "c", "EXTEND", 1.0)]), hops=1)
    assert all(c.path == () for c in after)


def test_no_candidates_give_no_ranking():
    class Nothing(FakeBackend):
        def seeds(self, *args):
            return Seeds()

    assert ranked(Nothing({}), hops=2) == []


def test_entities_weigh_more_the_fewer_memories_name_them():
    # of 1000 memories: one mention links nothing, 2 tell most, 50 are the most that link
    found = idf_weight(np.array([1.0, 2.0, 50.0, 51.0]), 1000)
    assert found == pytest.approx([0, np.log(500) / np.log(1000), np.log(20) / np.log(1000), 0])
    assert idf_weight(np.array([5.0, 6.0]), 20)[1] == 0 < idf_weight(np.array([5.0, 6.0]), 20)[0]
    assert idf_weight(np.array([1.0]), 1) == pytest.approx([0])


def test_the_best_n_are_found_with_ties_going_to_the_lower_index():
    scores = np.array([1.0, 3.0, 2.0, 2.0, 2.0])
    assert sorted(top(scores, 2)) == [1, 2]
    assert sorted(top(scores, 3)) == [1, 2, 3]
    assert sorted(top(scores, 9)) == [0, 1, 2, 3, 4]


def test_scores_that_are_all_the_same_say_nothing():
    assert standardize(np.full(5, 0.1 + 0.2), score_stats(np.full(5, 0.1 + 0.2))).tolist() == [0.0] * 5
