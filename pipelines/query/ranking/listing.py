"""Questions that ask for all of a kind: the category that they name has members, each described by a memory."""

import json
from collections.abc import Mapping

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.graph_types import Node
from palimpsest.query.scope.graph_scope import GraphScope
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.text.listing_cue import listed_nouns

MAX_MEMBERS = 50  # a category with more is no answer


def listed_memories(query: ScopeQuery) -> Mapping[str, str]:
    """Returns the category, by the id of the candidate that describes a member of it; none for any other question."""
    if query.weights.graph <= 0 or not (nouns := listed_nouns(query.text)):
        return {}
    try:
        graph = query.served.backend.graph(query.scope)
    except PalimpsestError:  # an index of an earlier version has no nodes
        return {}
    if graph is None:
        return {}
    described = _described_members(graph, nouns)
    passing = query.served.passing(sorted(described))
    return {memory_id: name for memory_id, name in described.items() if memory_id in passing}


def _described_members(graph: GraphScope, nouns: list[str]) -> dict[str, str]:
    named = graph.nodes_named(nouns)
    nodes = graph.nodes(sorted({i for ids in named.values() for i in ids}))
    categories = {i: node.name for i, node in nodes.items() if node.type == "category"}
    if not categories:
        return {}
    edges = graph.edges_of(sorted(categories), ["part_of"])
    category_of = {edge.source_id: categories[edge.target_id] for edge in edges if edge.target_id in categories}
    if len(category_of) > MAX_MEMBERS:
        return {}
    members = graph.nodes(sorted(category_of))
    found = {i: _description_memory(node) for i, node in members.items()}
    return {memory_id: category_of[i] for i, memory_id in sorted(found.items()) if memory_id}


def _description_memory(node: Node) -> str:
    return str(json.loads(node.metadata or "{}").get("description_memory_id") or "")
