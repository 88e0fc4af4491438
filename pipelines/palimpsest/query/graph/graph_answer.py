"""An answer over the graph: nodes, edges, facts, paths, and lines that cite the memories they rest on."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from palimpsest.core.types import JsonObject, JsonValue
from palimpsest.query.request.types import Edge, Fact, Node


@dataclass(frozen=True)
class GraphLine:
    """A line of an answer.

    Attributes:
        text: what it says, without citations.
        memory_ids: what it rests on.
        kind: `fact`, `memory`, `path` or `event`.
        time: when it happened or was stated; None where that is unknown.
        score: lines of one answer are ranked by it.
    """

    text: str
    memory_ids: tuple[str, ...]
    kind: str
    time: dt.date | None = None
    score: float = 0.0

    @property
    def cited(self) -> str:
        """The line with its citations."""
        return " ".join([self.text, *(f"[memory:{i}]" for i in self.memory_ids)])


@dataclass(frozen=True)
class PathStep:
    """A step of a path.

    Attributes:
        source_id: the node it leads from.
        target_id: the node it leads to.
        type: the predicate of a fact, the type of an edge, or `mentioned_with` for a memory that names both.
        memory_ids: the memories that show it.
    """

    source_id: str
    target_id: str
    type: str
    memory_ids: tuple[str, ...]


@dataclass(frozen=True)
class GraphAnswer:
    """An answer over the graph.

    Attributes:
        nodes: every node that it names.
        edges: between them.
        facts: of them.
        paths: from the first thing that the question names to the second, best first.
        lines: the answer in words, in order.
        names: what the question was understood to be about.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    facts: tuple[Fact, ...] = ()
    paths: tuple[tuple[PathStep, ...], ...] = ()
    lines: tuple[GraphLine, ...] = ()
    names: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """Returns a JSON object: `nodes`, `edges`, `facts`, `paths`, `lines` and `names`; dates are ISO 8601.

        A fact whose object is a node is an edge too: `type` is its predicate and `fact_id` names it.
        """
        between = [f for f in self.facts if f.object_id]
        return {
            "nodes": [node_json(n) for n in self.nodes],
            "edges": [edge_json(e) for e in self.edges] + [_fact_edge_json(f) for f in between],
            "facts": [fact_json(f) for f in self.facts],
            "paths": [
                [
                    {"source": s.source_id, "target": s.target_id, "type": s.type, "memory_ids": list(s.memory_ids)}
                    for s in path
                ]
                for path in self.paths
            ],
            "lines": [_plain(asdict(line)) for line in self.lines],
            "names": list(self.names),
        }


def node_json(node: Node) -> JsonObject:
    """Returns a node with `id`, `type` and `name` first."""
    fields = asdict(node)
    return {"id": fields.pop("node_id"), **_plain(fields)}


def edge_json(edge: Edge) -> JsonObject:
    """Returns an edge with `source`, `target` and `type`."""
    fields = asdict(edge)
    return {"source": fields.pop("source_id"), "target": fields.pop("target_id"), **_plain(fields)}


def fact_json(fact: Fact) -> JsonObject:
    """Returns a fact with `subject`, `predicate`, and `object` or `value`."""
    fields = asdict(fact)
    return {"subject": fields.pop("subject_id"), "object": fields.pop("object_id"), **_plain(fields)}


def _fact_edge_json(fact: Fact) -> JsonObject:
    shown = ("fact_id", "memory_ids", "valid_from", "valid_until", "is_latest", "is_negated")
    fields = asdict(fact)
    edge: JsonObject = {"source": fact.subject_id, "target": fact.object_id, "type": fact.predicate}
    return edge | {"weight": _value(fact.confidence), "provenance": "fact"} | _plain({n: fields[n] for n in shown})


def unique_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Returns nodes without repeats, by id."""
    return tuple(node for _, node in sorted({n.node_id: n for n in nodes}.items()))


def _plain(fields: dict[str, object]) -> JsonObject:
    return {name: _value(value) for name, value in fields.items()}


def _value(value: object) -> JsonValue:
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(v) for v in value]
    return value if isinstance(value, (int, str)) else None


# An answer over the graph as text for people.

_MAX_LINES = 60  # of an answer; JSON has all
_MAX_DESCRIPTION = 300


def answer_text(answer: GraphAnswer) -> str:
    """Returns the lines of an answer, each with its day and its citations; of a node, what it is first."""
    if not answer.lines and not answer.nodes:
        return "nothing found in this scope; palimpsest scopes lists whose memories there are"
    lines = []
    if not answer.names:  # a neighborhood, not a question
        first = answer.nodes[0]
        also = f", also {', '.join(first.aliases)}" if first.aliases else ""
        read = "" if first.access_count is None else f", read {first.access_count} times"
        lines.append(
            f"{first.name} ({first.type}{also}): {first.memory_count} memories{read}, {len(answer.nodes)} nodes here"
        )
        if first.description:
            lines.append(f"  {' '.join(first.description.split())[:_MAX_DESCRIPTION]}")
    for line in answer.lines[:_MAX_LINES]:
        day = "" if line.time is None or (line.kind == "fact" and not answer.names) else f"{line.time.isoformat()}  "
        lines.append(f"{day}{line.cited}")
    if len(answer.lines) > _MAX_LINES:
        lines.append(f"and {len(answer.lines) - _MAX_LINES} more; --json has all")
    return "\n".join(lines)
