import numpy as np
import pytest

from palimpsest.query.scope.node_graph import DECAY, NodeGraph

SHARP, FLAT = [1.0, 0.0], [0.0, 1.0]


@pytest.fixture
def graph():
    """Bees (0) has memories 0 and 1, Rent (1) has 2, Honey (2) is below Bees and has 3, Sugar (3) relates to Honey."""
    return NodeGraph.from_arrays(
        {
            "names": ["bees", "Rent Office", "honey", "sugar"],
            "types": ["topic", "organisation", "topic", "concept"],
            "called": np.array([0, 1, 1, 2, 3]),
            "aliases": ["bees", "Rent Office", "RO", "honey", "sugar"],
            "embedded": np.array([0, 1, 2]),
            "vectors": np.array([SHARP, FLAT, FLAT], "<f2"),
            "member_node": np.array([0, 0, 1, 2]),
            "member_row": np.array([0, 1, 2, 3]),
            "relevance": np.array([0.5, 1.0, 1.0, 1.0]),
            "source": np.array([2, 3]),
            "target": np.array([0, 2]),
            "weights": np.array([1.0, 0.5]),
        }
    )


def test_nodes_are_found_by_vector_words_and_name(graph):
    vector = np.array(SHARP, np.float32)
    assert graph.search(vector, "what stings?", ["sting"], (), 5).nodes.tolist() == [0]
    named = graph.search(vector, "Who runs the Rent Office?", ["rent", "office"], (), 5)
    assert named.nodes.tolist() == [0, 1] or named.nodes.tolist() == [1, 0]
    alias = graph.search(np.array(FLAT, np.float32), "Where is RO?", [], (), 1)
    assert alias.nodes.tolist() == [1]


def test_types_leave_out_other_nodes(graph):
    found = graph.search(np.array(SHARP, np.float32), "bees", ["bee"], ("organisation",), 5)
    assert 0 not in found.nodes.tolist()


def test_each_edge_costs_a_share_and_depth_ends_the_search(graph):
    found = graph.search(np.array(SHARP, np.float32), "bees", [], (), 1)
    assert graph.expand(found, 0).nodes.tolist() == [0]
    one, two = graph.expand(found, 1), graph.expand(found, 2)
    assert one.nodes.tolist() == [0, 2] and one.scores[1] == pytest.approx(DECAY * one.scores[0])
    assert two.nodes.tolist() == [0, 2, 3] and two.scores[2] == pytest.approx(DECAY * 0.5 * two.scores[1])


def test_memberships_name_their_node_row_and_relevance(graph):
    place, rows, relevance = graph.memberships(np.array([0, 2]))
    assert (place.tolist(), rows.tolist(), relevance.tolist()) == ([0, 0, 1], [0, 1, 3], [0.5, 1.0, 1.0])


def test_a_scope_without_nodes_has_none_to_find():
    empty = NodeGraph.from_arrays({})
    found = empty.expand(empty.search(np.array(SHARP, np.float32), "bees", ["bee"], (), 5), 2)
    assert len(found.nodes) == 0 and all(len(part) == 0 for part in empty.memberships(found.nodes))
