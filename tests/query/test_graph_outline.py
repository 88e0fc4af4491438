"""The shape of a graph: every node, each link once, and of too many links those of the most important nodes."""

import numpy as np
import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.graph.graph_answer import _strongest, _unordered, graph_outline


def test_of_too_many_links_each_node_keeps_those_to_its_most_important_neighbors():
    importance = np.array([0.9, 0.8, 0.1, 0.1, 0.1])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)]
    found = np.array(pairs)
    assert _strongest(found, importance, 7) == tuple(pairs)
    assert _strongest(found, importance, 5) == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 4))
    assert _strongest(found, importance, 0) == ()


def test_a_pair_is_one_link_whatever_its_direction_and_a_node_is_not_linked_to_itself():
    assert _unordered([(3, 1), (1, 3), (2, 2), (0, 4), (1, 3)], 5).tolist() == [[0, 4], [1, 3]]
    assert _unordered([], 0).tolist() == []


@pytest.mark.parametrize(("nodes", "links"), [(0, 1), (20_001, 1), (1, -1), (1, 100_001)])
def test_numbers_out_of_range_are_refused(nodes, links):
    with pytest.raises(ArgumentError):
        graph_outline([], nodes, links)
