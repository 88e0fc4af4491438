"""What changed in a caller's graph from one build to the next: only the difference is sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.query.graph.graph_page import MAX_NODES
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.positions import Positions

MAX_PAGES = 4
"""Of `MAX_NODES` nodes, the most important first: of a larger graph the rest is not followed."""
_UNSTABLE = ("updated_at", "access_count", "x", "y")  # a new node moves others: that alone is no change


@dataclass(frozen=True)
class GraphState:
    """A graph as its parts by id, and a hash of each: what was sent need not be kept."""

    nodes: Mapping[str, JsonObject] = field(default_factory=dict)
    edges: Mapping[str, JsonObject] = field(default_factory=dict)

    def hashes(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns a hash of each node and edge, by id."""
        nodes, edges = ({i: _hash(part) for i, part in parts.items()} for parts in (self.nodes, self.edges))
        return nodes, edges


Hashes = tuple[Mapping[str, str], Mapping[str, str]]


def read_graph(view: CallerView, positions: Positions) -> GraphState:
    """Returns the graph of a caller's own scopes."""
    nodes: dict[str, JsonObject] = {}
    edges: dict[str, JsonObject] = {}
    scopes = view.own_scopes()
    for page in range(MAX_PAGES if scopes else 0):
        found = view.reader.graph_page(scopes, page * MAX_NODES, MAX_NODES)
        fields = found.to_json()
        placed = positions.place(view.reader.build_id, view.scopes(), cast(list[JsonObject], fields["nodes"]))
        nodes |= {str(n["id"]): n for n in placed}
        edges |= {_edge_id(e): e for e in cast(list[JsonObject], fields["edges"])}
        if found.next_offset is None:
            break
    return GraphState(nodes, edges)


def difference(before: Hashes, now: GraphState) -> JsonObject | None:
    """Returns nodes and edges that are new or changed, and the ids of those that are gone; None where nothing is.

    Args:
        before: hashes of what the caller was sent.
        now: the graph.
    """
    nodes, edges = now.hashes()
    changed = {
        "nodes": cast(list[JsonValue], [now.nodes[i] for i, h in sorted(nodes.items()) if before[0].get(i) != h]),
        "edges": cast(
            list[JsonValue],
            [{"id": i, **now.edges[i]} for i, h in sorted(edges.items()) if before[1].get(i) != h],
        ),
    }
    removed: JsonObject = {
        "nodes": sorted(before[0].keys() - nodes.keys()),
        "edges": sorted(before[1].keys() - edges.keys()),
    }
    return {**changed, "removed": removed} if any(changed.values()) or any(removed.values()) else None


def _edge_id(edge: JsonObject) -> str:
    return content_id("edge", str(edge["source"]), str(edge["target"]), str(edge["type"]), str(edge.get("fact_id")))


def _hash(part: JsonObject) -> str:
    stable = {name: value for name, value in part.items() if name not in _UNSTABLE}
    return content_id(json.dumps(stable, sort_keys=True, default=str))
