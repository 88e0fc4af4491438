"""Reads the nodes of a scope from an index, as `query.scope.node_graph` takes them."""

import duckdb
import numpy as np

from palimpsest.query.backends.part_query import Query, Range
from palimpsest.query.scope.node_graph import EDGE_TYPES
from palimpsest.query.scope.scope_arrays import Arrays

_NODES = "SELECT node, name, type, aliases FROM nodes WHERE scope = $scope ORDER BY node"
_VECTORS = """
    SELECT v.node, v.vector FROM node_vectors v WHERE v.node BETWEEN $first_node AND $last_node ORDER BY v.node"""
_MEMBERS = """
    SELECT node, row, relevance FROM node_members WHERE node BETWEEN $first_node AND $last_node ORDER BY node, row"""
_EDGES = f"""
    SELECT source, target, weight FROM edges
    WHERE scope = $scope AND type IN ({", ".join(f"'{t}'" for t in EDGE_TYPES)}) ORDER BY source, target, type"""


def read_nodes(query: Query, at: Range) -> Arrays:
    """Returns names, types, vectors, memories and edges of the nodes of a scope."""
    try:
        nodes = query(_NODES, at.scope).fetchall()
    except duckdb.CatalogException:
        return {}  # an index of an earlier version has no nodes
    if not nodes:
        return {}
    first, last = nodes[0][0], nodes[-1][0]  # those of a scope follow each other
    between = {"first_node": first, "last_node": last}
    vectors = query(_VECTORS, between).fetchall()
    members, edges = query(_MEMBERS, between).fetchnumpy(), query(_EDGES, at.scope).fetchnumpy()
    called = [(node - first, alias) for node, name, _, more in nodes for alias in dict.fromkeys((name, *(more or ())))]
    arrays: Arrays = {
        "names": [name for _, name, _, _ in nodes],
        "types": [kind for _, _, kind, _ in nodes],
        "called": np.array([node for node, _ in called], "<i4"),
        "aliases": [alias for _, alias in called],
        "member_node": np.asarray(members["node"] - first, "<i4"),
        "member_row": np.asarray(members["row"] - at.first, "<i4"),
        "relevance": np.asarray(members["relevance"], "<f4"),
        "source": np.asarray(edges["source"] - first, "<i4"),
        "target": np.asarray(edges["target"] - first, "<i4"),
        "weights": np.asarray(np.ma.filled(edges["weight"], 1.0), "<f4"),
    }
    if vectors:
        arrays["embedded"] = np.array([node - first for node, _ in vectors], "<i4")
        arrays["vectors"] = np.stack([np.frombuffer(vector, "<f2") for _, vector in vectors])
    return arrays
