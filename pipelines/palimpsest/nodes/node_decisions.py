"""What a person decides of nodes and edges: checked against the published build, written down, and undone.

A decision is a line in `<home>/decisions.jsonl`; the next build applies it, and so does every one after it.
"""

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE, JsonObject, JsonRecord, ScopeKey, content_id, scope_parts
from palimpsest.entities.entity_decisions import decide_names
from palimpsest.nodes.node_types import DEFAULT_TYPE
from palimpsest.store.builds import published
from palimpsest.store.decisions import append_made, append_undone, read_decisions
from palimpsest.store.graph_decisions import EDGE_TYPES, NODE_TYPES, PROPERTIES, GraphDecision, NodeValues
from palimpsest.store.home import Home
from palimpsest.text.words import fold

# Applies what people decided of nodes and edges, in the order in which they decided it.

PROVENANCE = "decision"
DEFAULT_IMPORTANCE = 0.5
_EDGE_KEY = ("source_id", "target_id", "type")


@dataclass(frozen=True)
class NodeTables:
    """The tables `nodes`, `edges` and `node_memories`, and `belonging`: (node_id, memory_id) of all nodes."""

    nodes: pl.DataFrame
    edges: pl.DataFrame
    node_memories: pl.DataFrame
    belonging: pl.DataFrame


def decided_node_id(scope: ScopeKey, name: str) -> str:
    """Returns the id of a node that a person adds: names that differ only in case and accents are one."""
    return content_id("node", *scope_parts(*scope), "decided", fold(name))


def apply_decisions(tables: NodeTables, decisions: Iterable[GraphDecision], scopes: set[ScopeKey]) -> NodeTables:
    """Returns the tables with the decisions applied; one about a node that is not there any more changes nothing.

    Args:
        tables: the nodes and edges that the texts show.
        decisions: in the order in which they were made.
        scopes: those with memories; decisions about others change nothing.
    """
    for decision in decisions:
        if decision.scope in scopes:
            tables = _APPLY[decision.action](tables, decision)
    return tables


def _add_node(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    if _has(tables, decision.node_id):
        return tables
    values = decision.values
    row = {
        **dict(zip(SCOPE, decision.scope, strict=True)),
        "node_id": decision.node_id,
        "type": values.type or DEFAULT_TYPE,
        "name": values.name,
        "description": values.description,
        "aliases": list(values.aliases),
        "importance": DEFAULT_IMPORTANCE if values.importance is None else values.importance,
        "memory_count": 0,
        "metadata": _with_decision(None, decision),
    }
    new = pl.DataFrame([row], schema={c: t for c, t in tables.nodes.schema.items() if c in row})
    time = pl.lit(decision.at).str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    new = new.with_columns(created_at=time, updated_at=time)
    return replace(tables, nodes=pl.concat([tables.nodes, new], how="diagonal"))


def _edit_node(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    values, is_it = decision.values, pl.col("node_id") == decision.node_id
    if not _has(tables, decision.node_id):
        return tables
    given = {
        name: pl.lit(value)
        for name in ("name", "type", "description", "importance")
        if (value := getattr(values, name)) is not None
    }
    row = tables.nodes.filter(is_it).row(0, named=True)
    names = {*(row["aliases"] or ()), *values.aliases, row["name"]}
    aliases = sorted(names - {values.name or row["name"]})
    columns = {
        **given,
        "aliases": pl.lit(aliases, dtype=pl.List(pl.String)),
        "metadata": pl.lit(_with_decision(row["metadata"], decision)),
    }
    changed = tables.nodes.with_columns(
        pl.when(is_it).then(value).otherwise(name).alias(name) for name, value in columns.items()
    )
    return replace(tables, nodes=changed)


def _merge_nodes(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    keep, other = decision.node_id, decision.other_id
    if keep == other or not (_has(tables, keep) and _has(tables, other)):
        return tables
    rows = {r["node_id"]: r for r in tables.nodes.filter(pl.col("node_id").is_in([keep, other])).iter_rows(named=True)}
    belonging = tables.belonging.with_columns(pl.col("node_id").replace({other: keep})).unique()
    moved = tables.belonging.filter(node_id=other).select("memory_id")
    scope = [pl.lit(value).alias(column) for column, value in zip(SCOPE, decision.scope, strict=True)]
    members = moved.with_columns(*scope, node_id=pl.lit(keep), relevance=pl.lit(1.0))
    kept, gone = rows[keep], rows[other]
    aliases = sorted({*(kept["aliases"] or ()), *(gone["aliases"] or ()), gone["name"]} - {kept["name"]})
    merged = {
        "aliases": pl.lit(aliases, dtype=pl.List(pl.String)),
        "description": pl.lit(kept["description"] or gone["description"], dtype=pl.String),
        "importance": pl.lit(max(kept["importance"], gone["importance"])),
        "memory_count": pl.lit(belonging.filter(node_id=keep).height),
        "created_at": pl.lit(min(_known(kept["created_at"], gone["created_at"]), default=None)),
        "updated_at": pl.lit(max(_known(kept["updated_at"], gone["updated_at"]), default=None)),
        "metadata": pl.lit(_with_decision(kept["metadata"], decision)),
    }
    is_it = pl.col("node_id") == keep
    nodes = tables.nodes.filter(pl.col("node_id") != other).with_columns(
        pl.when(is_it).then(value).otherwise(name).cast(tables.nodes.schema[name]).alias(name)
        for name, value in merged.items()
    )
    ends = pl.col("source_id", "target_id")
    edges = tables.edges.with_columns(ends.replace({other: keep})).filter(pl.col("source_id") != pl.col("target_id"))
    own = tables.node_memories.filter(pl.col("node_id") != other)
    together = pl.concat([own, members.select(own.columns)]).unique(
        ["node_id", "memory_id"], keep="first", maintain_order=True
    )
    return NodeTables(nodes, edges, together, belonging)


def _delete_node(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    gone = decision.node_id
    return NodeTables(
        tables.nodes.filter(pl.col("node_id") != gone),
        tables.edges.filter((pl.col("source_id") != gone) & (pl.col("target_id") != gone)),
        tables.node_memories.filter(pl.col("node_id") != gone),
        tables.belonging.filter(pl.col("node_id") != gone),
    )


def _add_edge(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    row: dict[str, object] = {
        **dict(zip(SCOPE, decision.scope, strict=True)),
        **dict(zip(_EDGE_KEY, (decision.node_id, decision.other_id, decision.values.type), strict=True)),
        "weight": 1.0 if decision.values.weight is None else decision.values.weight,
        "provenance": PROVENANCE,
        "memory_ids": [],
    }
    added = pl.DataFrame([row], schema={c: t for c, t in tables.edges.schema.items() if c in row})
    return replace(tables, edges=pl.concat([tables.edges, added], how="diagonal"))


def _delete_edge(tables: NodeTables, decision: GraphDecision) -> NodeTables:
    ends, type_ = (decision.node_id, decision.other_id), decision.values.type
    forward = (pl.col("source_id") == ends[0]) & (pl.col("target_id") == ends[1])
    backward = (pl.col("source_id") == ends[1]) & (pl.col("target_id") == ends[0]) & (pl.col("type") == "related_to")
    is_type = pl.lit(True) if type_ is None else pl.col("type") == type_
    return replace(tables, edges=tables.edges.filter(~((forward | backward) & is_type)))


_APPLY = {
    "add_node": _add_node,
    "edit_node": _edit_node,
    "merge_nodes": _merge_nodes,
    "delete_node": _delete_node,
    "add_edge": _add_edge,
    "delete_edge": _delete_edge,
}


def _known(*times: dt.datetime | None) -> list[dt.datetime]:
    return [t for t in times if t is not None]


def _has(tables: NodeTables, node_id: str) -> bool:
    return not tables.nodes.filter(node_id=node_id).is_empty()


def _with_decision(metadata: str | None, decision: GraphDecision) -> str:
    values = json.loads(metadata or "{}")
    properties = values.pop(PROPERTIES, {}) | dict(decision.values.properties)
    stated = {key: value for key, value in sorted(properties.items()) if value != ""}
    values["decisions"] = [*values.get("decisions", []), decision.decision_id]
    return json.dumps(values | ({PROPERTIES: stated} if stated else {}), ensure_ascii=False)


MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS = 200, 2_000
_MAX_LISTED = 5


@dataclass(frozen=True)
class KnownNode:
    """A node of the published build, or one that a decision adds."""

    node_id: str
    name: str
    type: str


@dataclass(frozen=True)
class Decided(JsonRecord):
    """What was decided of which names, and the id by which it is undone."""

    decision_id: str
    action: str
    names: Sequence[str]
    applied: str = "by the next build"


def add_node(home: Home, scope: ScopeKey, name: str, values: NodeValues) -> Decided:
    """Records a new node.

    Raises:
        PalimpsestError: the scope is not published, a value is none, or the scope has a node of this name.
    """
    given = NodeValues(**{**vars(values), "name": name.strip()})
    _check_values(given)
    if not given.name:
        raise PalimpsestError("graph node add: NAME is empty; write one")
    known = [n for n in _known_nodes(home, scope) if fold(n[0].name) == fold(given.name)]
    if known:
        node = known[0][0]
        raise PalimpsestError(f"graph node add: {name!r} is a {node.type} already; change it with graph node edit")
    return _record(home, GraphDecision("add_node", scope, decided_node_id(scope, given.name), values=given), [name])


def edit_node(home: Home, scope: ScopeKey, name: str, values: NodeValues) -> Decided:
    """Records other values of a node.

    Raises:
        PalimpsestError: no node or several have the name, or nothing is given to change.
    """
    _check_values(values)
    if not values.to_row():
        raise PalimpsestError(
            "graph node edit: nothing to change; give --name, --type, --description, --alias, --importance"
            " or --property"
        )
    node = find_node(home, scope, name)
    return _record(home, GraphDecision("edit_node", scope, node.node_id, values=values), [node.name])


def merge_nodes(home: Home, scope: ScopeKey, name: str, other: str) -> Decided:
    """Records that a second node is the first one. Two entities become one name, as `entity --same` makes them.

    Raises:
        PalimpsestError: a name is of no node or of several, or both are one node.
    """
    first, second = find_node(home, scope, name), find_node(home, scope, other)
    if first.node_id == second.node_id:
        raise PalimpsestError(f"graph node merge: {name!r} and {other!r} are one node already")
    build = published(home)
    entities = set(build.table(scope[0], "entities")["entity_id"]) if build else set()
    if {first.node_id, second.node_id} <= entities:
        decide_names(home, scope, first.name, second.name, "same")
        return Decided("", "merge_nodes", [first.name, second.name])
    return _record(home, GraphDecision("merge_nodes", scope, first.node_id, second.node_id), [first.name, second.name])


def delete_node(home: Home, scope: ScopeKey, name: str) -> Decided:
    """Records that a node is not shown, and no edge of it; its memories and facts stay.

    Raises:
        PalimpsestError: no node or several have the name.
    """
    node = find_node(home, scope, name)
    return _record(home, GraphDecision("delete_node", scope, node.node_id), [node.name])


def add_edge(home: Home, scope: ScopeKey, source: str, target: str, values: NodeValues) -> Decided:
    """Records an edge from one node to another.

    Raises:
        PalimpsestError: a name is of no node or of several, both are one, or a value is none.
    """
    return _edge(home, scope, source, target, "add_edge", values)


def delete_edge(home: Home, scope: ScopeKey, source: str, target: str, type_: str | None) -> Decided:
    """Records that there is no edge between two nodes: of one type, or of any.

    Raises:
        PalimpsestError: a name is of no node or of several, or both are one.
    """
    return _edge(home, scope, source, target, "delete_edge", NodeValues(type=type_))


def undo(home: Home, decision_id: str) -> Decided:
    """Takes a decision about nodes and edges back.

    Raises:
        PalimpsestError: no decision that applies has this id.
    """
    with home.lock():
        found = next((d for d in read_decisions(home.decisions).graph if d.decision_id == decision_id), None)
        if found is None:
            raise PalimpsestError(
                f"graph undo: no decision {decision_id!r} applies; palimpsest graph decisions lists them"
            )
        append_undone(home.decisions, found)
    return Decided(decision_id, f"undo of {found.action}", [])


def find_node(home: Home, scope: ScopeKey, name: str) -> KnownNode:
    """Returns the node that a name, an alias or an id refers to in a scope.

    A name counts before an alias, and a topic only where nothing else has the name.

    Raises:
        PalimpsestError: none does, or several do; the message lists them.
    """
    known = _known_nodes(home, scope)
    by_id = [n for n, _ in known if n.node_id == name]
    by_name = [n for n, _ in known if fold(n.name) == fold(name)]
    by_alias = [n for n, aliases in known if fold(name) in map(fold, aliases)]
    found = by_id or by_name or by_alias
    found = [n for n in found if n.type != "topic"] or found
    where = "/".join(scope_parts(*scope))
    if not found:
        raise PalimpsestError(f"graph: no node {name!r} in {where}; write its name as graph node shows it")
    if len(found) > 1:
        listed = ", ".join(f"{n.node_id} ({n.type} {n.name})" for n in found[:_MAX_LISTED])
        raise PalimpsestError(f"graph: {name!r} is {len(found)} nodes in {where}; write the id of one: {listed}")
    return found[0]


def _edge(home: Home, scope: ScopeKey, source: str, target: str, action: str, values: NodeValues) -> Decided:
    if values.type is not None and values.type not in EDGE_TYPES:
        raise PalimpsestError(f"--type: {values.type!r} is no type of an edge; use {', '.join(EDGE_TYPES)}")
    ends = [find_node(home, scope, name) for name in (source, target)]
    if ends[0].node_id == ends[1].node_id:
        raise PalimpsestError(f"graph edge: {source!r} and {target!r} are one node; name two")
    decision = GraphDecision(
        "add_edge" if action == "add_edge" else "delete_edge", scope, ends[0].node_id, ends[1].node_id, values
    )
    return _record(home, decision, [n.name for n in ends])


def _record(home: Home, decision: GraphDecision, names: Sequence[str]) -> Decided:
    with home.lock():
        if decision.decision_id in {d.decision_id for d in read_decisions(home.decisions).graph}:
            raise PalimpsestError(f"graph: {decision.decision_id} was decided already; graph undo takes it back")
        append_made(home.decisions, decision)
    return Decided(decision.decision_id, decision.action, names)


def _known_nodes(home: Home, scope: ScopeKey) -> list[tuple[KnownNode, Sequence[str]]]:
    """Returns the nodes of the published build with their aliases, and those that decisions add since.

    Raises:
        PalimpsestError: the collection is not published.
    """
    build = published(home)
    if build is None or scope[0] not in build.collections:
        raise PalimpsestError(f"graph: collection {scope[0]} is not published in {home.path}; run palimpsest build")
    rows = build.table(scope[0], "nodes").filter(**dict(zip(SCOPE, scope, strict=True)))
    known: list[tuple[KnownNode, Sequence[str]]] = [
        (KnownNode(i, n, t), tuple(a or ()))
        for i, n, t, a in rows.select("node_id", "name", "type", "aliases").iter_rows()
    ]
    ids = {n.node_id for n, _ in known}
    for d in read_decisions(home.decisions).graph:
        if d.action == "add_node" and d.scope == scope and d.node_id not in ids:
            known.append((KnownNode(d.node_id, str(d.values.name), d.values.type or ""), d.values.aliases))
    return known


def _check_values(values: NodeValues) -> None:
    if values.type is not None and values.type not in NODE_TYPES:
        raise PalimpsestError(f"--type: {values.type!r} is no type of a node; use {', '.join(NODE_TYPES)}")
    if values.name is not None and not values.name.strip():
        raise PalimpsestError("--name is empty; write one")
    for option, text, limit in (
        ("NAME", values.name or "", MAX_NAME_CHARS),
        ("--description", values.description or "", MAX_DESCRIPTION_CHARS),
        *(("--alias", alias, MAX_NAME_CHARS) for alias in values.aliases),
        *(("--property", f"{key}={value}", MAX_NAME_CHARS) for key, value in values.properties),
    ):
        if len(text) > limit:
            raise PalimpsestError(f"{option} has {len(text):,} characters; at most {limit:,} are kept")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PalimpsestError(f"{option} is not valid UTF-8; write it in UTF-8") from None


def decision_rows(home: Home) -> list[JsonObject]:
    """Returns the decisions about nodes and edges that apply, in order."""
    return [
        {"decision_id": d.decision_id, "at": d.at}
        | {name: value for name, value in d.to_row().items() if name not in ("kind", "target")}
        for d in read_decisions(home.decisions).graph
    ]
