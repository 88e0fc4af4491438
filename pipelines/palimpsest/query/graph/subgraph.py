"""The subgraph of a search: what its results name and state, how they relate, and the same as lines of a context."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import JsonObject
from palimpsest.query.graph.graph_answer import GraphAnswer, GraphLine
from palimpsest.query.graph.graph_lines import fact_line, find_subgraph
from palimpsest.query.request.types import Edge, Fact, Link, Memory, Node, one_line
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope

_RELATED = {"EXTEND": "adds to", "DERIVE": "follows from"}
_LABEL_CHARS = 50  # of a memory in the line of a relation


@dataclass(frozen=True)
class Subgraph:
    """What is between the results of a search.

    Attributes:
        nodes: that the results name or belong to.
        edges: between those nodes.
        facts: that the results state.
        relations: EXTEND and DERIVE between results, from the newer to the older.
        lines: the relations and then the facts in words, with the results that they cite.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    facts: tuple[Fact, ...] = ()
    relations: tuple[Link, ...] = ()
    lines: tuple[GraphLine, ...] = ()

    def to_json(self) -> JsonObject:
        """Returns `nodes`, `edges` and `facts` as `GraphAnswer.to_json` does, and `relations` between memories."""
        graph = GraphAnswer(self.nodes, self.edges, self.facts).to_json()
        relations: list[JsonObject] = [
            {"source": r.source, "target": r.target, "type": r.kind, "weight": round(r.weight, 6)}
            for r in self.relations
        ]
        return {name: graph[name] for name in ("nodes", "edges", "facts")} | {"relations": [*relations]}


def read_subgraph(scopes: Iterable[ServedScope], memories: Sequence[Memory]) -> Subgraph:
    """Returns what is between the results of a search.

    Args:
        scopes: the scopes that were searched, with the filters of the search.
        memories: the results.

    Raises:
        PalimpsestError: a build was made before nodes were indexed.
    """
    parts = []
    for served in scopes:
        mine = [m for m in memories if (m.collection, m.user_id, m.project_id) == served.scope]
        if mine:
            parts.append(_read_scope(served, mine))
    return Subgraph(
        tuple(n for part in parts for n in part.nodes),
        tuple(e for part in parts for e in part.edges),
        tuple(f for part in parts for f in part.facts),
        tuple(r for part in parts for r in part.relations),
        tuple(line for part in parts for line in part.lines),
    )


def _read_scope(served: ServedScope, memories: Sequence[Memory]) -> Subgraph:
    by_id = {m.memory_id: m for m in memories}
    relations = _relations(served, by_id)
    lines = [_relation_line(link, by_id) for link in relations]
    # Superseded memories of a node are no secret: only what the other filters leave out must not show.
    graph = ServedGraph.of(replace(served, filters=replace(served.filters, history=True)))
    if graph is None:
        return Subgraph(relations=tuple(relations), lines=tuple(lines))
    found = find_subgraph(graph, list(by_id))
    nodes = {i: node for i, (node, _) in found.nodes.items()}
    order = {i: n for n, i in enumerate(by_id)}
    facts = [replace(f, memory_ids=tuple(i for i in f.memory_ids if i in by_id)) for f in found.facts]
    facts.sort(key=lambda f: (min(order[i] for i in f.memory_ids), f.object_id is None, f.fact_id))
    lines += [fact_line(f, nodes) for f in facts]
    return Subgraph(tuple(nodes.values()), found.edges, tuple(found.facts), tuple(relations), tuple(lines))


def _relations(served: ServedScope, by_id: dict[str, Memory]) -> list[Link]:
    """Returns EXTEND and DERIVE between memories, once each, from the newer to the older."""
    found: dict[tuple[str, str, str], Link] = {}
    for link in served.neighbors(list(by_id), 0):
        if link.kind in _RELATED and link.target in by_id:
            newer, older = sorted((link.source, link.target), key=lambda i: _age(by_id[i]), reverse=True)
            found[newer, older, link.kind] = link._replace(source=newer, target=older)
    return [found[key] for key in sorted(found)]


def _age(memory: Memory) -> tuple[float, int, str]:
    time = memory.observed_at or memory.valid_from
    return (time.timestamp() if time else 0.0, memory.ordinal or 0, memory.memory_id)


def _relation_line(link: Link, by_id: dict[str, Memory]) -> GraphLine:
    newer, older = (_label(by_id[i]) for i in (link.source, link.target))
    text = f"“{newer}” {_RELATED[link.kind]} “{older}”"
    return GraphLine(text, (link.source, link.target), "relation", None, link.weight)


def _label(memory: Memory) -> str:
    text = one_line(memory.text)
    return text if len(text) <= _LABEL_CHARS else text[: _LABEL_CHARS - 1] + "…"


# The whole graph of some scopes, page by page.

MAX_NODES = 5_000
"""Of a page."""


@dataclass(frozen=True)
class GraphPage:
    """Nodes of a graph, and the edges and facts that lead from or to them.

    Attributes:
        graph: nodes, edges and facts.
        total: visible nodes of the whole graph.
        next_offset: of the next page; None after the last.
    """

    graph: GraphAnswer
    total: int
    next_offset: int | None

    def to_json(self) -> JsonObject:
        """Returns `nodes`, `edges`, `facts`, `total` and `next_offset`."""
        fields = self.graph.to_json()
        shown: JsonObject = {name: fields[name] for name in ("nodes", "edges", "facts")}
        return shown | {"total": self.total, "next_offset": self.next_offset}


def graph_page(graphs: Sequence[ServedGraph], offset: int, limit: int) -> GraphPage:
    """Returns a page of the nodes of some scopes, most important first in each scope.

    Args:
        graphs: of the scopes, in the order of the pages.
        offset: nodes to skip.
        limit: nodes of the page, 1 to `MAX_NODES`.

    Raises:
        ArgumentError: an argument is out of range.
    """
    if offset < 0:
        raise ArgumentError("offset", "must be 0 or more", offset)
    if not 1 <= limit <= MAX_NODES:
        raise ArgumentError("limit", f"must be 1 to {MAX_NODES:,}", limit)
    nodes: list[Node] = []
    edges: list[Edge] = []
    facts: list[Fact] = []
    total = 0
    for graph in graphs:
        ids = graph.visible_ids()
        chosen = ids[max(0, offset - total) : max(0, offset + limit - total)]
        total += len(ids)
        if chosen:
            shown = graph.nodes(chosen)
            nodes += [shown[i] for i in chosen]
            edges += [e for e in graph.edges_of(chosen) if {e.source_id, e.target_id} & shown.keys()]
            facts += [f for f in graph.facts_of(chosen) if set(f.ends) & shown.keys()]
    answer = GraphAnswer(tuple(nodes), tuple(edges), tuple(facts))
    return GraphPage(answer, total, offset + limit if offset + limit < total else None)
