"""What people say of the graph itself: nodes and edges that they add, edit, merge or delete.

Lines of kind `graph` in `decisions.jsonl`, and of kind `graph_undo` that take one back. Unlike other decisions they
have the text that a person wrote, and the scope: a delete of a user, project or collection removes its lines.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from palimpsest.core.files import remove_lines
from palimpsest.core.ids import SCOPE, JsonObject, ScopeKey, content_id, scope_parts
from palimpsest.core.needles import RowSearch

NodeType = Literal[
    "person", "organisation", "place", "product", "project", "event", "category", "topic", "concept", "date"
]
EdgeType = Literal["subtopic_of", "related_to", "part_of", "depends_on", "precedes"]
NODE_TYPES: tuple[NodeType, ...] = get_args(NodeType)
EDGE_TYPES: tuple[EdgeType, ...] = get_args(EdgeType)
GraphAction = Literal["add_node", "edit_node", "merge_nodes", "delete_node", "add_edge", "delete_edge"]
ACTIONS = get_args(GraphAction)
GRAPH_KINDS = ("graph", "graph_undo")
PROPERTIES = "properties"
"""Field of a node's metadata with what documents and people state of it: a JSON object."""


@dataclass(frozen=True)
class NodeValues:
    """Values of a node or an edge that a person gives; None leaves a value as it is.

    Attributes:
        type: of the node, or of the edge; of an edge to delete, None means every type.
        weight: of an edge, from 0 to 1.
        properties: (key, value) of the metadata of a node, ascending; an empty value removes the key.
    """

    name: str | None = None
    type: str | None = None
    description: str | None = None
    aliases: tuple[str, ...] = ()
    importance: float | None = None
    weight: float | None = None
    properties: tuple[tuple[str, str | float | bool], ...] = ()

    def to_row(self) -> JsonObject:
        """Returns the values that are given."""
        given = {name: value for name, value in vars(self).items() if value is not None and value != ()}
        return given | ({"properties": dict(self.properties)} if self.properties else {})


@dataclass(frozen=True)
class GraphDecision:
    """One line about the graph of a scope.

    Attributes:
        node_id: the node, or the source of an edge.
        other_id: the node that is merged into it, or the target of an edge.
        at: when it was decided, ISO 8601.
    """

    action: GraphAction
    scope: ScopeKey
    node_id: str
    other_id: str = ""
    values: NodeValues = field(default_factory=NodeValues)
    at: str = ""

    @property
    def decision_id(self) -> str:
        """The id by which it is undone: the same decision in the same scope has the same."""
        values = json.dumps(self.values.to_row(), sort_keys=True, ensure_ascii=False)
        return content_id("graph", *scope_parts(*self.scope), self.action, self.node_id, self.other_id, values)

    def to_row(self) -> JsonObject:
        """Returns the line of the decisions file, without its time."""
        row: JsonObject = {"kind": "graph", "target": self.decision_id, "action": self.action}
        row |= dict(zip(SCOPE, self.scope, strict=True)) | {"node_id": self.node_id}
        return row | ({"other_id": self.other_id} if self.other_id else {}) | self.values.to_row()

    def undo_row(self) -> JsonObject:
        """Returns the line that takes it back, without its time."""
        return {"kind": "graph_undo", "target": self.decision_id, **dict(zip(SCOPE, self.scope, strict=True))}


def parse_graph_decision(row: Mapping[str, Any]) -> GraphDecision:
    """Returns the decision of a line.

    Raises:
        ValueError: the action or a number is none; a KeyError or TypeError where a field is missing.
    """
    if row["action"] not in ACTIONS:
        raise ValueError(row["action"])
    name, type_, description = (None if row.get(k) is None else str(row[k]) for k in ("name", "type", "description"))
    importance, weight = (None if row.get(k) is None else float(row[k]) for k in ("importance", "weight"))
    if not all(n is None or 0.0 <= n <= 1.0 for n in (importance, weight)):
        raise ValueError("not from 0 to 1")
    properties = tuple(sorted(dict(row.get("properties") or {}).items()))
    if not all(isinstance(value, str | float | int) for _, value in properties):
        raise ValueError("a property is no text, number or boolean")
    collection, user_id, project_id = (str(row[c]) for c in SCOPE)
    return GraphDecision(
        row["action"],
        (collection, user_id, project_id),
        str(row["node_id"]),
        str(row.get("other_id") or ""),
        NodeValues(name, type_, description, tuple(map(str, row.get("aliases") or ())), importance, weight, properties),
        str(row.get("at") or ""),
    )


class GraphDecisionReader:
    """Collects the decisions that apply, line by line: an undo removes one, and deciding it again puts it last."""

    def __init__(self) -> None:
        """Makes a reader of no line."""
        self._applied: dict[str, GraphDecision] = {}

    def read(self, row: Mapping[str, Any]) -> None:
        """Reads a line of one of `GRAPH_KINDS`."""
        if row["kind"] == "graph":
            decision = parse_graph_decision(row)
            self._applied.pop(decision.decision_id, None)
            self._applied[decision.decision_id] = decision
        else:
            self._applied.pop(str(row["target"]), None)

    @property
    def applied(self) -> tuple[GraphDecision, ...]:
        """The decisions that apply, in the order in which they were made."""
        return tuple(self._applied.values())


def graph_key(decisions: Iterable[GraphDecision], collection: str) -> str:
    """Returns a hash of the decisions about a collection, empty without any; the time of each is part of it."""
    parts = [f"{d.decision_id} {d.at}" for d in decisions if d.scope[0] == collection]
    return content_id(*parts) if parts else ""


def forget_graph_decisions(
    path: Path, probes: RowSearch, collection: str | None, user: str | None, project: str | None, whole_scope: bool
) -> int:
    """Removes the decisions about a deleted scope, and those that contain deleted text; returns how many lines.

    Args:
        path: the decisions file.
        probes: ids, lines and names that were deleted.
        collection: of the scope, None for any.
        user: of the scope, None for any.
        project: of the scope, None for any.
        whole_scope: the scope is deleted with all it has; otherwise only lines with deleted text are removed.
    """
    wanted = tuple(zip(SCOPE, (collection, user, project), strict=True))

    def find(lines: list[str]) -> set[int]:
        rows = [json.loads(line) for line in lines]
        about_graph = {i for i, row in enumerate(rows) if row["kind"] in GRAPH_KINDS}
        gone = {i for i in about_graph if whole_scope and all(v is None or rows[i].get(c) == v for c, v in wanted)}
        return gone | about_graph & set(probes.rows_in(lines))

    return remove_lines(path, find)
