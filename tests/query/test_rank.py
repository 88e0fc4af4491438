"""Scores, and what is added to them: by strategy, by other results, by age."""

import datetime as dt
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import palimpsest.query.ranking.rank as module
from palimpsest.memories.vector_space import BGE_SMALL, MINILM, Space
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.ranking.merge import diversify
from palimpsest.query.ranking.rank import (
    DECAY,
    KIND_WEIGHT,
    NONE,
    Candidate,
    best_pairs,
    lift_requested_kinds,
    rank,
    register_scorer,
    softmax,
    spread,
)
from palimpsest.query.ranking.scoring import (
    RowLayout,
    Scored,
    base_scores,
    expected_maximum,
    prior_scores,
    recency,
    reciprocal_ranks,
    score_stats,
    standardize,
    top,
    without_window_bias,
)
from palimpsest.query.reader import open_index
from palimpsest.query.request import strategies
from palimpsest.query.request.strategies import NAMED, STRATEGIES, TRAITS, Weights, register_strategy, resolve_strategy
from palimpsest.query.request.types import CollectionInfo, Filters, Link, Memory, Scope, Seeds
from palimpsest.query.scope.scope_arrays import Flags, Postings, Priors
from palimpsest.query.scope.scope_graph import PassageGraph, ScopeLinks, idf_weight
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.scope.view import FormedRows
from palimpsest.text.terms import candidate_name_keys, name_key
from tests.query.made import at, memory, read_index, reader_fixture, scope_query, tables, write

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


def test_the_best_of_many_are_found_with_ties_to_the_lower_index():
    rng = np.random.default_rng(5)
    for scores in (rng.standard_normal(300_000), rng.integers(0, 50, 300_000).astype(float)):
        best = np.lexsort((np.arange(len(scores)), -scores))  # ties to the lower index
        for n in (1, 100, 1000):
            assert sorted(top(scores, n)) == sorted(best[:n])
    scores = np.array([1.0, 3.0, 2.0, 2.0, 2.0])
    assert sorted(top(scores, 2)) == [1, 2]
    assert sorted(top(scores, 3)) == [1, 2, 3]
    assert sorted(top(scores, 9)) == [0, 1, 2, 3, 4]


def test_scores_are_sums_of_z_scores_and_flat_ignores_words_and_links():
    found = ranked(FakeBackend({"a": (0.9, 0.0), "b": (0.5, 4.0), "c": (0.1, 0.0), "d": (0.5, 0.0)}))
    # cosine: mean .5, std .2828; words: mean 1, std 1.7321
    assert {c.memory_id: round(c.score, 4) for c in found} == {"b": 1.7321, "a": 0.8369, "d": -0.5774, "c": -1.9916}
    assert [c.memory_id for c in found] == ["b", "a", "d", "c"]
    found = ranked(FakeBackend({"a": (0.9, 0.0), "b": (0.5, 4.0), "c": (0.1, 0.0)}), words=0.0)
    assert [c.memory_id for c in found] == ["a", "b", "c"]
    scores = {"a": (0.9, 0.0), "b": (0.5, 0.0), "c": (0.1, 0.0)}
    backend = FakeBackend(scores, [Link("a", "c", "EXTEND", 1.0)])
    found = ranked(backend, 2, STRATEGIES["flat"])
    assert [c.memory_id for c in found] == ["a", "b", "c"]
    assert [c.memory_id for c in ranked(FakeBackend({"b": (1, 1), "c": (1, 1), "a": (1, 1)}))] == ["a", "b", "c"]
    assert standardize(np.full(5, 0.1 + 0.2), score_stats(np.full(5, 0.1 + 0.2))).tolist() == [0.0] * 5
    assert reciprocal_ranks(np.array([0.5, 2.0, 0.0, 2.0]), floor=0.0).tolist() == [1 / 63, 1 / 61, 0.0, 1 / 62]


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


def test_a_link_lifts_a_memory_but_not_from_below_average_nor_from_nothing():
    backend = FakeBackend({"a": (0.9, 4.0), "b": (0.5, 0.0), "z": (0.3, 0.0)}, [Link("a", "z", "EXTEND", 1.0)], {"z"})
    assert "z" not in {c.memory_id for c in ranked(backend)}
    assert {c.memory_id: c.base for c in ranked(backend, hops=1)}["z"] == pytest.approx(
        {c.memory_id: c.score for c in ranked(FakeBackend(backend.all))}["z"]
    )
    scores = {"a": (0.9, 4.0), "b": (0.1, 0.0), "c": (0.0, 0.0)}
    after = ranked(FakeBackend(scores, [Link("b", "c", "EXTEND", 1.0)]), hops=1)
    assert all(c.path == () for c in after)

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


ANA = Scope("notes", "ana")
TEXTS = {"a": "owls hunt mice", "b": "owls hunt mice", "c": "owls hunt bats", "d": "bees hum"}
MEMORIES = {ANA: {i: Memory(i, "notes", "ana", text) for i, text in TEXTS.items()}}


def candidates(diversity=1.0, **scores):
    query = ScopeQuery(ServedScope(None, ANA, Filters()), "w", np.zeros(384), ["w"], Weights(diversity=diversity))
    return [(query, Candidate(i, score, 0.5, 1.0, score)) for i, score in scores.items()]


def test_the_next_result_is_the_one_that_adds_most_and_equals_keep_their_order():
    # after a: b says all of it again (1), c two words of four (1/2), d nothing
    found = diversify(candidates(a=4.0, b=3.9, c=3.8, d=3.2), MEMORIES, 3)
    assert [(c.memory_id, c.score) for _, c in found] == [("a", 4.0), ("c", pytest.approx(3.3)), ("d", 3.2)]
    # b repeats a wholly, and its score is reduced by that
    assert [c.memory_id for _, c in diversify(candidates(a=4.0, b=3.9, d=2.0), MEMORIES, 3)] == ["a", "b", "d"]
    best = candidates(0.0, a=4.0, b=4.0, c=3.8, d=3.2)
    assert diversify(best, MEMORIES, 4) == best
    assert diversify([], MEMORIES, 4) == []
    assert all(w.diversity == 0 for w in STRATEGIES.values())


def test_a_collection_may_ask_for_diversity_and_results_stay_in_the_order_of_their_scores(tmp_path):
    texts = ["The owls hunt mice.", "The owls hunt mice!", "Owls hunt.", "Bees hum at noon.", "Owls nest in barns."]
    made = tables([memory(f"m{i}", t) for i, t in enumerate(texts)])
    with read_index(tmp_path, made, strategies={"notes": "hybrid"}, weights={"notes": {"diversity": 5.0}}) as reader:
        plain = reader.search("Do the owls hunt mice?", ANA, k=3, strategy="hybrid", all_results=True).memories
        apart = reader.search("Do the owls hunt mice?", ANA, k=3, all_results=True).memories
    assert {m.memory_id for m in plain[:2]} == {"m0", "m1"}
    assert apart[0].memory_id == plain[0].memory_id and len({"m0", "m1"} & {m.memory_id for m in apart}) == 1
    assert [m.score for m in apart] == sorted((m.score for m in apart), reverse=True)


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


def test_a_pair_scores_both_ends_and_a_title():
    terms = postings(born={1: 2.0, 4: 9.0}, ada={0: 1.0, 2: 3.0})
    found = best_pairs(graph(), np.array([0]), own(m0=5.0, m1=4.0), terms, 0.5, 0.0, EVERY)
    # 0 has `ada`, so 2 adds nothing and is in no pair; 1 adds half of 2.0, and both ends score 6 against 5 alone
    assert found.share[[0, 1]] == pytest.approx([1, 1]) and found.share[2] == 0 and found.share[4] == 0
    assert found.partners[[0, 1, 2]].tolist() == [1, 0, NONE] and found.names[[0, 1]].tolist() == [0, 0]
    found = best_pairs(graph(), np.array([0]), own(m0=5.0), postings(born={1: 1.0}), 1.0, 2.0, EVERY)
    assert found.share[3] == 1 and found.partners[3] == 0 and found.partners[0] == 3
    assert found.share[1] == pytest.approx(np.exp(-1))  # 5 + 1 against 5 + 2


def test_what_answers_alone_stays_ahead_and_what_is_not_allowed_is_in_no_pair():
    terms = postings(born={1: 1.0, 9: 5.0})
    found = best_pairs(graph(), np.array([9, 0]), own(m9=8.0, m0=5.0), terms, 1.0, 0.0, EVERY)
    assert found.share[9] == 1 and found.partners[9] == NONE
    assert found.share[[0, 1]] == pytest.approx(np.exp([-2, -2]))
    terms = postings(born={1: 2.0, 2: 1.0})
    found = best_pairs(graph(), np.array([0]), own(m0=5.0), terms, 1.0, 0.0, np.arange(SIZE) != 1)
    assert found.share[1] == 0 and found.partners[0] == 2
    none = best_pairs(graph(), np.zeros(0, np.int64), own(), terms, 1.0, 0.0, EVERY)
    assert not none.share.any()


NAMES = ["Ada", "Bee Town", "Rush (band)", "Everywhere", "Once"]


def graph_of_names(size=40):
    """Rows 0-3. Ada in 0, 1; Bee Town in 1, 2 and the title of 2; Everywhere in 3-9; Once in 3."""
    rows = [0, 1, 1, 2, *range(3, 10), 3]
    entities = [0, 0, 1, 1, *[3] * 7, 4]
    keys = sorted((name_key(n), i) for i, n in enumerate(["Ada", "Bee Town", "Rush", "Everywhere", "Once"]))
    return PassageGraph.build(
        size,
        (np.array(rows), np.array(entities)),
        (np.array([2]), np.array([1])),
        np.array(NAMES, object),
        (np.array([k for k, _ in keys]), np.array([e for _, e in keys])),
    )


def test_names_are_edges_by_rarity_over_which_a_walk_returns_to_its_start():
    g = graph_of_names()
    edges = dict(zip(zip(g.rows.tolist(), g.entities.tolist(), strict=True), range(len(g.rows)), strict=True))
    assert set(edges) == {(0, 0), (1, 0), (1, 1), (2, 1)}  # what is named once, or in over 5 of 40, links nothing
    # row 1: ln 20 to Ada, 3 ln 20 to Bee Town; Bee Town: 3 ln 20 to row 1, 9 ln 20 to the passage so titled
    assert g.to_entity[edges[1, 0]] == pytest.approx(0.25) and g.to_entity[edges[1, 1]] == pytest.approx(0.75)
    assert g.to_row[edges[1, 1]] == pytest.approx(0.25) and g.to_row[edges[2, 1]] == pytest.approx(0.75)
    assert g.linked.tolist() == [True, True, False, False, False]
    g, start, nothing, every = graph_of_names(), spread([1], [0], 40), np.zeros(5), np.ones(40, bool)
    rows, entities = g.walk(start, nothing, every, 1, 0.3)
    assert rows[0] == pytest.approx(0.7) and entities[0] == pytest.approx(0.3)
    rows, _ = g.walk(start, nothing, every, 2, 0.3)
    assert rows[1] == pytest.approx(0.3 * 0.5 * 0.3) and rows[2] == 0
    rows, _ = g.walk(start, nothing, every & (np.arange(40) != 1), 4, 0.3)
    assert rows[1] == 0 and rows[2] == 0 and rows[0] > 0
    rng = np.random.default_rng(7)
    mentions, titles = rng.integers(0, (60, 90), (400, 2)).T, rng.integers(0, (60, 90), (30, 2)).T
    no_keys = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    g = PassageGraph.build(60, tuple(mentions), tuple(titles), np.array(["x"] * 90, object), no_keys)
    rows, entities = start = spread(rng.random(5), [3, 9, 20, 31, 59], 60), g.linked * rng.random(90)
    allowed = rng.random(60) < 0.8
    for _ in range(3):
        out = np.bincount(g.entities, rows[g.rows] * g.to_entity, 90)
        back = np.bincount(g.rows, entities[g.entities] * g.to_row, 60) * allowed
        rows, entities = 0.3 * back + (1 - 0.3) * start[0], 0.3 * out + (1 - 0.3) * start[1]
    found = g.walk(*start, allowed, 3, 0.3)
    assert len(g.rows) > 150 and np.array_equal(found[0], rows) and np.array_equal(found[1], entities)


def test_names_are_found_longest_first_by_capitals_and_in_small_letters():
    g = graph_of_names()
    assert g.named_in("Did Ada ever see Bee Town?") == [0, 1]
    assert g.named_in("Did the Abbot see ada or bee town?") == []
    assert g.named_in("Who of Rush left?") == [2]
    assert g.named_in("") == []
    g = graph_of_names()
    assert g.named_in("did anyone of rush ever see bee town?") == [1, 2]
    assert g.named_in("Was ada in rush by 1999?") == [2]  # one word of three letters is too short
    keys = np.array([name_key("Rush"), name_key("Rush")])
    nothing = np.zeros(0, np.int64)
    g = PassageGraph.build(
        9,
        (nothing, nothing),
        (nothing, nothing),
        np.array(["Rush (band)", "Rush (film)"], object),
        (keys, np.array([0, 1])),
    )
    assert g.named_in("Who directed Rush?") == [0, 1]
    assert name_key("Café Noir") == name_key("cafe noir!") != name_key("Cafe")
    assert [[end for end, _ in keys] for keys in candidate_name_keys("old Rome")] == [[2], [2]]
    assert softmax(np.array([0.0, np.log(3)])) == pytest.approx([0.25, 0.75])
    assert spread([1, 3], [2, 2], 4).tolist() == [0, 0, 1, 0]
    assert spread([], [], 3).tolist() == [0, 0, 0]


# Memory 3 rests on 0; memory 4 on 1 and 2.
ROWS = FormedRows(np.array([3, 4, 4]), np.array([0, 1, 2]), np.array([1, 0, 0]), ("decision", "preference"))


VIEW = SimpleNamespace(formed=lambda: ROWS)


def query(text, has_formed=True):
    return SimpleNamespace(text=text, served=SimpleNamespace(has_formed=has_formed))


def scored(rows):
    zeros = np.zeros(5)
    layout = RowLayout(Flags.from_rows(rows, 5).values)
    return Scored(np.arange(5).astype(str), layout, zeros, zeros, zeros, zeros, lambda row: ())


def test_only_candidates_of_the_kind_that_is_asked_for_gain():
    assert ROWS.of_kinds({"preference"}).tolist() == [0, 3]
    assert ROWS.of_kinds({"decision"}).tolist() == [4]
    assert ROWS.of_kinds({"gap"}).tolist() == []
    lifted = lift_requested_kinds(scored([0, 1, 2, 4]), VIEW, query("What do I prefer?"))
    assert lifted.total.tolist() == [KIND_WEIGHT, 0, 0, 0, 0]
    lifted = lift_requested_kinds(scored(range(5)), VIEW, query("What have we decided?"))
    assert lifted.total.tolist() == [0, 0, 0, 0, KIND_WEIGHT]
    same = scored(range(5))
    assert lift_requested_kinds(same, VIEW, query("Who is my dentist?")) is same
    assert lift_requested_kinds(same, VIEW, query("What do I prefer?", has_formed=False)) is same


def test_the_expected_maximum_of_normal_values_is_blom_s_approximation():
    # By tables of order statistics: 0, .564, .846, 1.163, 1.539.
    found = expected_maximum(np.array([10, 1, 2, 3, 5]))
    assert found == pytest.approx([1.547, 0.0, 0.589, 0.869, 1.180], abs=0.002)
    assert found == pytest.approx([1.539, 0.0, 0.564, 0.846, 1.163], abs=0.03)


def best_of(windows: np.ndarray, seed: int, spread: float) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.array([0.2 + spread * draw.standard_normal(n).max() for n in windows])


def test_memories_that_fit_alike_score_alike_whatever_their_number_of_windows():
    windows = np.repeat([1, 8], 2000)
    cosines = best_of(windows, 7, 0.1)
    assert cosines[2000:].mean() - cosines[:2000].mean() > 0.13
    fair = without_window_bias(cosines, windows)
    assert fair[2000:].mean() - fair[:2000].mean() == pytest.approx(0.0, abs=0.01)
    windows = np.repeat([1, 8], 50)
    cosines = np.tile([0.1, 0.5], 50)
    assert without_window_bias(cosines, windows) == pytest.approx(cosines)
    windows = np.repeat([1, 4], 20)
    cosines = np.repeat([0.5, 0.3], 20)
    assert without_window_bias(cosines, windows) is not None
    assert without_window_bias(cosines, windows) == pytest.approx(cosines)


@pytest.mark.parametrize("windows", [[1] * 20, [1] * 15 + [4] * 5, [3] * 20])
def test_without_several_memories_of_different_lengths_nothing_changes_the_order(windows):
    cosines = np.linspace(0.1, 0.9, 20)
    found = without_window_bias(cosines, np.array(windows))
    assert np.diff(found) == pytest.approx(np.diff(cosines))


def info(embedder, **weights):
    return CollectionInfo("notes", False, "ann", "turns", weights, space=Space(embedder, "a space", 384))


@pytest.mark.parametrize("embedder", [MINILM, "openai:x", "./model"])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_an_embedder_of_which_nothing_is_known_is_weighted_as_minilm(strategy, embedder):
    assert resolve_strategy(strategy, info(embedder)) == (strategy, STRATEGIES[strategy])


def test_a_better_model_counts_more_against_words_unless_weights_are_given():
    trust, minilm = TRAITS[BGE_SMALL].trust, STRATEGIES["turns"]
    name, weights = resolve_strategy("auto", info(BGE_SMALL))
    assert name == "turns" and weights.vector + weights.words == pytest.approx(minilm.vector + minilm.words)
    assert weights.vector / weights.words == pytest.approx(trust * minilm.vector / minilm.words)
    assert (weights.time, weights.shares, weights.nearby) == (minilm.time, minilm.shares, minilm.nearby)
    _, weights = resolve_strategy("graph", info(BGE_SMALL))
    assert weights.spreading.cosine * TRAITS[BGE_SMALL].spread == pytest.approx(STRATEGIES["graph"].spreading.cosine)
    assert resolve_strategy("words", info(BGE_SMALL))[1].vector == 0
    _, weights = resolve_strategy("auto", info(BGE_SMALL, vector=2.0, words=0.5))
    assert (weights.vector, weights.words) == (2.0, 0.5)
    given = Weights(vector=3.0)
    assert resolve_strategy(given, info(BGE_SMALL)) == ("weights", given)


def shortest_id_last(view, query):
    """Prefers memories late in the order of ids, by as much as the weight of links."""
    b = base_scores(view, query)
    total = b.base + np.arange(len(view.ids), dtype=float)
    return Scored(view.ids, b.layout, b.cosines, b.words, b.base, total, lambda row: ())


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(module, "_SCORERS", dict(module._SCORERS))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    register_scorer("late", shortest_id_last)
    register_strategy("late", Weights(scorer="late", words=0.0, vector=1e-6))


def test_a_registered_strategy_searches_an_index_by_its_name_and_names_in_use_are_refused(registered, tmp_path):
    with read_index(tmp_path, tables([memory(f"m{i}", f"The launch is on day {i}.") for i in range(4)])) as reader:
        found = reader.search("launch", ANA, strategy="late", hops=0)
        users = reader.search("launch", ANA, strategy="late", hops=1, session="none")
    assert found.strategy == "late" and [m.memory_id for m in found.memories] == ["m3", "m2", "m1", "m0"]
    assert users.memories == []
    with pytest.raises(ValueError, match="already in use"):
        register_scorer("late", shortest_id_last)
    for name in ("late", "hybrid", "auto"):
        with pytest.raises(ValueError, match="already in use"):
            register_strategy(name, Weights())
    with pytest.raises(ValueError, match="register it first"):
        module.scorer_named("nobody's")


class StubView:
    """A view of three memories over nothing but arrays."""

    ids = np.array(["a", "b", "c"], object)

    def allowed(self, filters):
        return np.array([True, True, False])

    def cosines(self, vector):
        return np.array([0.9, 0.1, 0.5])

    def windows(self):
        return None

    def cached(self, name, load):
        return load()

    def links(self):
        return ScopeLinks.from_arrays({}, 3)

    def postings(self, terms):
        return [Postings(np.zeros(0, np.int32), np.zeros(0, np.float32)) for _ in terms]


class StubBackend:
    def view(self, scope):
        return StubView()

    def reasons(self, scope, ids):
        return {}


def test_a_registered_scorer_ranks_any_view(registered):
    served = ServedScope(StubBackend(), ANA, Filters())
    found = rank(ScopeQuery(served, "x", np.zeros(384), ["x"], Weights(scorer="late", vector=1e-6)), hops=0)
    assert [c.memory_id for c in found] == ["b", "a"]


DAY = 86_400.0
LAMP_TEXTS = ("The lamp stands in the attic.", "The lamp stands in the cellar.", "Bees make honey.")


def make_priors(observed, importance=None, support=None):
    size = len(observed)
    return Priors(
        np.array(observed, float),
        np.array([np.nan] * size if importance is None else importance, float),
        np.array([0] * size if support is None else support),
    )


def test_what_is_as_old_as_most_is_half_as_new_as_the_newest_and_undated_is_neither():
    # ages 0, 10, 20, 30 and 40 days: the median is 20
    days = np.array([40.0, 30.0, 20.0, 10.0, 0.0, np.nan]) * DAY
    assert recency(days).tolist() == pytest.approx([1.0, 2**-0.5, 0.5, 2**-1.5, 0.25, 0.5])
    # on day 20: of 0, 10 and 20 the median is 10; what came later is new, and counts for no median
    assert recency(days, 20 * DAY).tolist() == [1.0, 1.0, 1.0, 0.5, 0.25, 0.5]
    assert recency(days, -DAY).tolist() == [1.0] * 5 + [0.5]
    assert recency(np.array([np.nan, np.nan])).tolist() == [0.5, 0.5]


def test_terms_are_weighed_and_centred_over_the_candidates_alone():
    priors = make_priors([np.nan] * 4, importance=[1.0, np.nan, 0.0, 0.9], support=[0, 1, 3, 99])
    rows = np.array([0, 1, 2])
    # support 0, 1 and 3 count 0, 1/2 and 3/4: mean 5/12
    found = prior_scores(priors, rows, Weights(frequency=2.0))
    assert found.tolist() == pytest.approx([-10 / 12, 2 / 12, 8 / 12, 0.0])
    assert prior_scores(priors, rows, Weights(importance=1.0)).tolist() == pytest.approx([0.5, 0.0, -0.5, 0.0])
    assert prior_scores(priors, rows, Weights(recency=1.0)).tolist() == [0.0] * 4
    endless = make_priors([np.nan] * 3, importance=[np.inf, -np.inf, 7.0])
    found = prior_scores(endless, np.arange(3), Weights(importance=3.0))
    assert found.tolist() == pytest.approx([1.0, -2.0, 1.0])  # as 1, 0 and 1
    assert prior_scores(priors, rows[:0], Weights(recency=1.0)).tolist() == [0.0] * 4


LAMPS = [memory(f"m{i}", t, observed_at=at(f"2024-0{i + 1}-01")) for i, t in enumerate(LAMP_TEXTS)]
reader = reader_fixture(LAMPS)
weighted = reader_fixture(LAMPS, strategies={"notes": "hybrid"}, weights={"notes": {"recency": 50.0}})


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_any_strategy_can_prefer_what_is_new(reader, strategy):
    plain, new = (
        [m.memory_id for m in reader.search("Where is the lamp?", ANA, strategy=weights).memories]
        for weights in (STRATEGIES[strategy], replace(STRATEGIES[strategy], recency=50.0))
    )
    assert plain[0] in ("m0", "m1") and new == ["m2", "m1", "m0"]


def test_a_collections_weights_are_those_of_auto_and_leave_named_strategies_as_they_are(weighted):
    assert all(isinstance(getattr(Weights(), name), float) for name in NAMED)
    assert weighted.backend.collections()["notes"].weights == {"recency": 50.0}
    found = {s: weighted.search("Where is the lamp?", ANA, strategy=s).memories[0] for s in ("auto", "hybrid")}
    then = weighted.search("Where is the lamp?", ANA, now=dt.date(2024, 1, 15)).memories[0]
    assert found["auto"].memory_id == "m2" and found["hybrid"].memory_id != "m2"
    assert then.memory_id == "m0"  # the others are not known yet


def test_what_came_later_does_not_change_how_what_was_known_is_ranked(tmp_path):
    later = [memory(f"n{i}", "The van is red.", observed_at=at(f"202{i + 5}-01-01")) for i in range(4)]
    weights, scored = Weights(words=0.0, vector=1e-9, scorer="alone", recency=1.0), []
    for name, memories in (("before", LAMPS), ("after", LAMPS + later)):
        write(tables(memories), tmp_path / name)
        with open_index(tmp_path / name) as reader:
            found = reader.search("lamp", ANA, strategy=weights, as_of=dt.date(2024, 3, 1)).memories
        scored.append({m.memory_id: round(m.score, 4) for m in found})
    assert scored[0] == scored[1] and scored[0]["m2"] > scored[0]["m1"] > scored[0]["m0"]


def test_explain_lists_each_term_as_it_was_on_the_day_of_the_question(reader):
    options = {"strategy": Weights(recency=1.0, importance=1.0), "explain": True}
    today, then, plain = (
        {m.memory_id: m.why for m in reader.search("lamp", ANA, **(options | more)).memories}
        for more in ({}, {"as_of": dt.date(2024, 2, 1)}, {"strategy": "hybrid"})
    )
    # ages 0, 29 and 60 days: the median is 29
    assert "newness 1.00, importance 0.50)" in today["m2"] and "newness 0.50, importance" in today["m1"]
    assert "newness 0.98," not in today["m1"] and "m2" not in then and "support" not in today["m2"]
    assert all("newness" not in why for why in plain.values())
