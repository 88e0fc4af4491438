"""The invariants of nodes and edges: types of the contract, importance and weight from 0 to 1, no edge to itself."""

import polars as pl

from palimpsest.nodes.node_edges import EDGE_TYPES
from palimpsest.nodes.node_types import NODE_TYPES
from palimpsest_eval.gate.violations import Tables, Violation, report


def check_nodes(tables: Tables) -> list[Violation]:
    """11: every node has a type of the contract and an importance from 0 to 1, and every edge a type and a weight."""
    nodes, edges = tables["nodes"], tables["edges"]
    edge_id = pl.concat_str("source_id", "target_id", "type", separator="/")
    odd_types = nodes.filter(~pl.col("type").is_in(NODE_TYPES).fill_null(False))["node_id"]
    unscored = nodes.filter(~pl.col("importance").is_between(0.0, 1.0).fill_null(False))["node_id"]
    odd_edges = edges.filter(~pl.col("type").is_in(EDGE_TYPES).fill_null(False)).select(edge_id).to_series()
    unweighted = edges.filter(~pl.col("weight").is_between(0.0, 1.0).fill_null(False)).select(edge_id).to_series()
    loops = edges.filter(pl.col("source_id") == pl.col("target_id")).select(edge_id).to_series()
    return [
        *report(11, "node_types", "nodes: {n} have another type than the contract lists", odd_types),
        *report(11, "importance", "nodes: {n} have no importance from 0 to 1", unscored),
        *report(11, "edge_types", "edges: {n} have another type than the contract lists", odd_edges),
        *report(11, "edge_weights", "edges: {n} have no weight from 0 to 1", unweighted),
        *report(11, "edge_loops", "edges: {n} lead from a node to itself", loops),
    ]
