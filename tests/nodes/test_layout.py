"""Where nodes are drawn: the same in every run, linked nodes near one another, none on top of another."""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.nodes.layout import lay_out, node_positions


def test_two_groups_that_one_link_joins_lie_apart_and_no_two_nodes_overlap():
    pairs = [(i, j) for g in (0, 10) for i in range(g, g + 10) for j in range(i + 1, g + 10)] + [(0, 10)]
    at = lay_out(20, *np.array(pairs).T)
    inside = np.linalg.norm(at[:10] - at[:10].mean(axis=0), axis=1).mean()
    between = np.linalg.norm(at[:10].mean(axis=0) - at[10:].mean(axis=0))
    assert between > inside
    distances = np.linalg.norm(at[:, None] - at[None], axis=2)[np.triu_indices(20, 1)]
    assert distances.min() > 0.3


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=80))
def test_any_graph_has_finite_positions_which_do_not_depend_on_the_order_of_its_links(count, pairs):
    pairs = [(a, b) for a, b in pairs if a < count and b < count and a != b]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    at = lay_out(count, *ends)
    assert at.shape == (count, 2) and np.isfinite(at).all()
    assert np.array_equal(at, lay_out(count, *ends[::-1, ::-1]))
    assert len(np.unique(at, axis=0)) == count


def test_nodes_without_links_are_a_compact_grid_below_all_others():
    at = lay_out(30, *np.array([(0, 1), (1, 2), (2, 0), (3, 4)]).T)
    linked, single = at[:5], at[5:]
    assert single[:, 1].max() < linked[:, 1].min() - 1
    width, height = np.ptp(single, axis=0)
    assert (width, height) == (7, 3) and len(np.unique(single, axis=0)) == 25
    assert lay_out(1, *np.empty((2, 0), np.int64)).tolist() == [[0, 0]]


def test_each_scope_is_laid_out_by_itself():
    scope = {"collection": "c", "project_id": ""}
    nodes = pl.DataFrame(
        [{"node_id": f"{u}{i}", "user_id": u, "type": "person", **scope} for u in "ab" for i in range(5)]
    )
    links = [{"source_id": f"{u}0", "target_id": f"{u}{i}"} for u in "ab" for i in range(1, 5)]
    facts = pl.DataFrame(schema={"subject_id": pl.String, "object_id": pl.String})
    both = node_positions(nodes, pl.DataFrame(links), facts)
    alone = node_positions(nodes.filter(user_id="a"), pl.DataFrame(links), facts)
    assert both.filter(user_id="a").equals(alone) and both["node_id"].to_list() == sorted(nodes["node_id"])
    assert node_positions(nodes.head(0), pl.DataFrame(links), facts).is_empty()
