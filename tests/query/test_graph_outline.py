"""The shape of a graph: every node, each link once, and of too many links those of the most important nodes."""

import numpy as np
import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.query.graph.graph_outline import _strongest, graph_outline


def test_of_too_many_links_each_node_keeps_those_to_its_most_important_neighbors():
    importance = np.array([0.9, 0.8, 0.1, 0.1, 0.1])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)]
    assert _strongest(pairs, importance, 7) == tuple(pairs)
    assert _strongest(pairs, importance, 5) == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 4))
    assert _strongest(pairs, importance, 0) == ()


@pytest.mark.parametrize(("nodes", "links"), [(0, 1), (20_001, 1), (1, -1), (1, 100_001)])
def test_numbers_out_of_range_are_refused(nodes, links):
    with pytest.raises(ArgumentError):
        graph_outline([], nodes, links)
