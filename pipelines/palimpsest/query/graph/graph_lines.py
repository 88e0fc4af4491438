"""Facts, edges, ties and stages as lines that cite memories."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.query.context.history import Version, describe_reason
from palimpsest.query.graph.evidence import Evidence
from palimpsest.query.graph.graph_answer import GraphLine
from palimpsest.query.graph.relations import Stage, Tie, best_sentence
from palimpsest.query.request.graph_types import Edge, Fact, Node
from palimpsest.query.request.one_line import changed_line, one_line
from palimpsest.query.request.types import Memory, NewerText
from palimpsest.query.scope.graph_scope import Ends
from palimpsest.query.scope.served_graph import NodeFilter, ServedGraph

MENTIONED_WITH = "mentioned_with"
"""Type of the edge between nodes that a memory names together; made when it is read, not stored."""

MAX_NODES = 100
"""Nodes of a neighborhood."""

_MAX_WITH = 8  # nodes mentioned with one, those with most memories first
_ANY = NodeFilter()


@dataclass(frozen=True)
class Neighborhood:
    """Nodes with what is between them.

    Attributes:
        nodes: by id, with how many steps away each is.
        edges: between them.
        facts: of which a step was made, and those between them.
    """

    nodes: dict[str, tuple[Node, int]]
    edges: tuple[Edge, ...]
    facts: tuple[Fact, ...]


def find_neighbors(
    graph: ServedGraph, ids: Sequence[str], depth: int, types: Sequence[str] = (), wanted: NodeFilter = _ANY
) -> Neighborhood:
    """Returns the nodes up to `depth` steps from some nodes, breadth first, and what is between them.

    Args:
        graph: of a scope.
        ids: the nodes to start from.
        depth: steps, 0 or more.
        types: predicates of facts and types of edges to follow, `mentioned_with` among them; none means all.
        wanted: what the nodes reached must be; others are neither shown nor followed.
    """
    found = {i: (node, 0) for i, node in graph.nodes(ids).items()}
    frontier, followed = sorted(found), list[Edge]()
    for step in range(1, depth + 1):
        if not frontier or len(found) >= MAX_NODES:
            break
        links, together = _around(graph, frontier, types)
        followed += together
        new = [i for i in dict.fromkeys(i for ends in links for i in ends) if i not in found]
        if wanted:
            new = list(wanted.matching(_in_order(graph.nodes(new), new)))
        new = new[: MAX_NODES - len(found)]
        nodes = _in_order(graph.nodes(new), new)
        found |= {i: (node, step) for i, node in nodes.items()}
        frontier = sorted(nodes)
    edges = [*graph.edges_of(sorted(found), types, within=True), *_heaviest(followed)]
    facts = [f for f in graph.facts_of(sorted(found), within=True) if not types or f.predicate in types]
    return Neighborhood(
        found,
        tuple(e for e in edges if e.source_id in found and e.target_id in found),
        tuple(f for f in facts if all(i in found for i in f.ends)),
    )


def _in_order(nodes: Mapping[str, Node], ids: Sequence[str]) -> dict[str, Node]:
    return {i: nodes[i] for i in ids if i in nodes}


def _around(graph: ServedGraph, ids: Sequence[str], types: Sequence[str]) -> tuple[list[Ends], list[Edge]]:
    """Returns the ends of what links some nodes to others, and those of the links that are not stored."""
    edges, facts = graph.links_of(ids, types)
    if types and MENTIONED_WITH not in types:
        return [*edges, *facts], []
    linked = {frozenset(ends) for ends in (*edges, *facts)}
    together = [e for e in mentioned_with(graph, ids) if frozenset((e.source_id, e.target_id)) not in linked]
    return [*edges, *((e.source_id, e.target_id) for e in together), *facts], together


def mentioned_with(graph: ServedGraph, ids: Sequence[str]) -> list[Edge]:
    """Returns for each of some nodes the nodes that most of its memories name too, as edges."""
    found = graph.named_together(ids, _MAX_WITH, _CITED)
    pairs = [(min(f.ends), max(f.ends), f) for f in found]
    return _heaviest([Edge(a, b, MENTIONED_WITH, f.share, "memories", f.memory_ids) for a, b, f in pairs])


def _heaviest(edges: Sequence[Edge]) -> list[Edge]:
    """Returns the edge with most weight of each pair, the first of equals: both ends of a pair may find it."""
    best: dict[Ends, Edge] = {}
    for edge in sorted(edges, key=lambda e: -(e.weight or 0.0)):
        best.setdefault((edge.source_id, edge.target_id), edge)
    return [best[pair] for pair in sorted(best)]


def find_subgraph(graph: ServedGraph, memory_ids: Sequence[str]) -> Neighborhood:
    """Returns the nodes that some memories name, the edges between them, and the facts that the memories state."""
    of_memory = graph.nodes_of_memories(memory_ids)
    counts: dict[str, int] = {}
    for ids in of_memory.values():
        for i in ids:
            counts[i] = counts.get(i, 0) + 1
    facts = graph.facts_of_memories(memory_ids)
    stated = dict.fromkeys(i for f in facts for i in f.ends)
    others = sorted((i for i in counts if i not in stated), key=lambda i: (-counts[i], i))
    nodes = graph.nodes([*stated, *others][:MAX_NODES])
    edges = graph.edges_of(sorted(nodes), within=True)
    shown = set(memory_ids)
    return Neighborhood(
        {i: (node, 0) for i, node in nodes.items()},
        tuple(edges),
        tuple(f for f in facts if all(i in nodes for i in f.ends) and shown & set(f.memory_ids)),
    )


_CITED = 3  # memories of a line
_MAX_CHARS = 400  # of a quote


def fact_text(fact: Fact, nodes: Mapping[str, Node]) -> str:
    """Returns a fact in words: `Ida lives in Ghent (2026-02-03 to now)`."""
    predicate = fact.predicate.replace("_", " ")
    target = nodes.get(fact.object_id or "")
    what = target.name if target else fact.value or ""
    negated = "not " if fact.is_negated else ""
    notes = [fact.modality] if fact.modality not in (None, "stated", "past") else []
    since, until = (_day(t) for t in (fact.valid_from, fact.valid_until))
    notes += [f"{since or 'undated'} to {until or 'now'}"] if since or until else []
    text = " ".join(p for p in (nodes[fact.subject_id].name, f"{negated}{predicate}", what) if p)
    return one_line(f"{text} ({', '.join(map(str, notes))})" if notes else text)


def fact_line(fact: Fact, nodes: Mapping[str, Node]) -> GraphLine:
    """Returns a fact as a line."""
    time = fact.valid_from.date() if fact.valid_from else None
    return GraphLine(fact_text(fact, nodes), fact.memory_ids[:_CITED], "fact", time, fact.confidence or 0.0)


def edge_line(edge: Edge, nodes: Mapping[str, Node], shared: Sequence[str]) -> GraphLine:
    """Returns an edge as a line; one without memories of its own cites some of its nodes'."""
    text = f"{nodes[edge.source_id].name} {edge.type.replace('_', ' ')} {nodes[edge.target_id].name}"
    return GraphLine(one_line(text), (edge.memory_ids or tuple(shared))[:_CITED], "edge", None, edge.weight or 0.0)


def neighborhood_lines(graph: ServedGraph, found: Neighborhood) -> list[GraphLine]:
    """Returns the facts and then the edges of a neighborhood as lines, each with a citation."""
    nodes = {i: node for i, (node, _) in found.nodes.items()}
    bare = [e for e in found.edges if not e.memory_ids]
    members = graph.members_of(sorted({i for e in bare for i in (e.source_id, e.target_id)})) if bare else {}
    lines = [fact_line(f, nodes) for f in sorted(found.facts, key=_fact_order)]
    for edge in found.edges:
        mine, other = (members.get(i, {}) for i in (edge.source_id, edge.target_id))
        lines.append(edge_line(edge, nodes, sorted(mine.keys() & other.keys()) or sorted(mine) or sorted(other)))
    return [line for line in lines if line.memory_ids]


def tie_line(tie: Tie, evidence: Evidence, nodes: Mapping[str, Node], disputes: Mapping[str, NewerText]) -> GraphLine:
    """Returns a tie as a line: a fact between both where one is known, then what the memories state.

    Args:
        tie: of two things.
        evidence: of the question.
        nodes: of the answer, by id.
        disputes: what disputes memories of the answer, by the id of the disputed one.
    """
    quotes = [_quote_with_dispute(evidence, i, disputes) for i in tie.memory_ids]
    ends = [set(a.node_ids) for a in evidence.names.ends]
    stated = [
        f
        for f in evidence.facts.get(tie.memory_ids[0], ())
        if len(ends) == 2 and f.object_id and any(f.subject_id in a and f.object_id in b for a, b in (ends, ends[::-1]))
    ]
    facts = [fact_text(f, nodes) for f in stated[:1] if set(f.ends) <= nodes.keys()]
    first = evidence.memories[tie.memory_ids[0]]
    kind = "path" if len(tie.memory_ids) > 1 else "fact" if facts else "memory"
    text = " / ".join(quotes) + (f" = {facts[0]}" if facts else "")
    return GraphLine(text, _with_disputing(tie.memory_ids, disputes), kind, observed(first), round(tie.score, 6))


def stage_line(
    stage: Stage,
    evidence: Evidence,
    versions: Mapping[str, Sequence[Version]],
    disputes: Mapping[str, NewerText],
) -> GraphLine:
    """Returns a stage as a line: its day, what its memories state, and what disputes or replaced one of them."""
    text = " / ".join(_quote_with_dispute(evidence, i, disputes) for i in stage.memory_ids)
    why = next((v.why for v in versions.get(stage.main, ()) if v.memory.memory_id == stage.main and v.why), None)
    if why is not None:
        text += f" ({describe_reason(why)})"
    ids = _with_disputing(stage.memory_ids, disputes)
    return GraphLine(text, ids, "event", stage.time, round(stage.score, 6))


def quote(evidence: Evidence, memory: Memory) -> str:
    """Returns what a memory states, shortened, after who said it where that is known."""
    text = best_sentence(evidence, memory)
    text = text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
    return one_line(f"{memory.speaker}: {text}" if memory.speaker else text)


def _quote_with_dispute(evidence: Evidence, memory_id: str, disputes: Mapping[str, NewerText]) -> str:
    """Returns what a memory states; where it is disputed, with what the newer one says."""
    text = quote(evidence, evidence.memories[memory_id])
    return changed_line(text, disputes.get(memory_id))


def _with_disputing(memory_ids: tuple[str, ...], disputes: Mapping[str, NewerText]) -> tuple[str, ...]:
    """Returns the ids of a line's memories and of what disputes them, which it quotes too."""
    quoted = [by.memory_id for i in memory_ids if (by := disputes.get(i))]
    return tuple(dict.fromkeys((*memory_ids, *quoted)))


def observed(memory: Memory) -> dt.date | None:
    """Returns the day on which a memory was stated."""
    time = memory.observed_at or memory.valid_from
    return time.date() if time else None


def _fact_order(fact: Fact) -> tuple[bool, bool, float, str]:
    """Facts between nodes first, valid ones, then the newest."""
    time = fact.valid_from.timestamp() if fact.valid_from else 0.0
    return (fact.object_id is None, not fact.is_latest, -time, fact.fact_id)


def _day(time: dt.datetime | None) -> str:
    return time.date().isoformat() if time else ""
