"""Questions that ask for all of a kind: the category that they name has members, each described by a memory."""

import json

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.request.graph_types import Node
from palimpsest.query.scope.graph_scope import GraphScope
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.text.listing_cue import listed_nouns

MAX_MEMBERS = 50  # a category with more is no answer


def listed_memories(query: ScopeQuery) -> set[str]:
    """Returns the ids of the candidates that describe the members of a category that a question asks to list.

    None for any other question.
    """
    if query.weights.graph <= 0 or not (nouns := listed_nouns(query.text)):
        return set()
    try:
        graph = query.served.backend.graph(query.scope)
    except PalimpsestError:  # an index of an earlier version has no nodes
        return set()
    return query.served.passing(sorted(_described_members(graph, nouns))) if graph is not None else set()


def _described_members(graph: GraphScope, nouns: list[str]) -> set[str]:
    named = graph.nodes_named(nouns)
    nodes = graph.nodes(sorted({i for ids in named.values() for i in ids}))
    categories = sorted(i for i, node in nodes.items() if node.type == "category")
    edges = graph.edges_of(categories, ["part_of"]) if categories else []
    members = sorted({edge.source_id for edge in edges if edge.target_id in categories})
    if not 0 < len(members) <= MAX_MEMBERS:
        return set()
    return {_description_memory(node) for node in graph.nodes(members).values()} - {""}


def _description_memory(node: Node) -> str:
    return str(json.loads(node.metadata or "{}").get("description_memory_id") or "")
