"""Facts, edges, ties and stages as lines that cite memories."""

import datetime as dt
from collections.abc import Mapping, Sequence

from palimpsest.query.context.history import Version, describe_reason
from palimpsest.query.graph.evidence import Evidence
from palimpsest.query.graph.graph_answer import GraphLine
from palimpsest.query.graph.neighborhood import Neighborhood
from palimpsest.query.graph.relations import Tie
from palimpsest.query.graph.timeline import Stage, best_sentence
from palimpsest.query.request.graph_types import Edge, Fact, Node
from palimpsest.query.request.one_line import changed_line, one_line
from palimpsest.query.request.types import Memory, NewerText
from palimpsest.query.scope.served_graph import ServedGraph

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
