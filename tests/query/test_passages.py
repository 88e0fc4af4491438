import numpy as np
import pytest

from palimpsest.query.ranking.rank import softmax, spread
from palimpsest.query.scope.scope_graph import PassageGraph
from palimpsest.text.terms import candidate_name_keys, name_key

NAMES = ["Ada", "Bee Town", "Rush (band)", "Everywhere", "Once"]


def graph(size=40):
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


def test_edges_weigh_by_rarity_and_more_over_titles():
    g = graph()
    edges = dict(zip(zip(g.rows.tolist(), g.entities.tolist(), strict=True), range(len(g.rows)), strict=True))
    assert set(edges) == {(0, 0), (1, 0), (1, 1), (2, 1)}  # what is named once, or in over 5 of 40, links nothing
    # row 1: ln 20 to Ada, 3 ln 20 to Bee Town; Bee Town: 3 ln 20 to row 1, 9 ln 20 to the passage so titled
    assert g.to_entity[edges[1, 0]] == pytest.approx(0.25) and g.to_entity[edges[1, 1]] == pytest.approx(0.75)
    assert g.to_row[edges[1, 1]] == pytest.approx(0.25) and g.to_row[edges[2, 1]] == pytest.approx(0.75)
    assert g.linked.tolist() == [True, True, False, False, False]


def test_a_walk_returns_to_its_start_and_keeps_off_what_is_not_allowed():
    g, start, nothing, every = graph(), spread([1], [0], 40), np.zeros(5), np.ones(40, bool)
    rows, entities = g.walk(start, nothing, every, 1, 0.3)
    assert rows[0] == pytest.approx(0.7) and entities[0] == pytest.approx(0.3)
    rows, _ = g.walk(start, nothing, every, 2, 0.3)
    assert rows[1] == pytest.approx(0.3 * 0.5 * 0.3) and rows[2] == 0
    rows, _ = g.walk(start, nothing, every & (np.arange(40) != 1), 4, 0.3)
    assert rows[1] == 0 and rows[2] == 0 and rows[0] > 0


def test_a_walk_over_the_edges_in_use_is_the_walk_over_all_edges_to_the_last_bit():
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


def test_names_are_found_longest_first_and_need_a_capital():
    g = graph()
    assert g.named_in("Did Ada ever see Bee Town?") == [0, 1]
    assert g.named_in("Did the Abbot see ada or bee town?") == []
    assert g.named_in("Who of Rush left?") == [2]
    assert g.named_in("") == []


def test_who_writes_all_in_small_letters_names_things_so():
    g = graph()
    assert g.named_in("did anyone of rush ever see bee town?") == [1, 2]
    assert g.named_in("Was ada in rush by 1999?") == [2]  # one word of three letters is too short


def test_a_name_may_stand_for_several():
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


def test_keys_fold_case_accents_and_marks():
    assert name_key("Café Noir") == name_key("cafe noir!") != name_key("Cafe")
    assert [[end for end, _ in keys] for keys in candidate_name_keys("old Rome")] == [[2], [2]]


def test_shares_sum_to_one_and_nothing_stays_nothing():
    assert softmax(np.array([0.0, np.log(3)])) == pytest.approx([0.25, 0.75])
    assert spread([1, 3], [2, 2], 4).tolist() == [0, 0, 1, 0]
    assert spread([], [], 3).tolist() == [0, 0, 0]
