"""Applies what people decided of nodes and edges, in the order in which they decided it."""

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import polars as pl

from palimpsest.core.ids import SCOPE, ScopeKey, content_id, scope_parts
from palimpsest.nodes.node_types import DEFAULT_TYPE
from palimpsest.store.graph_decisions import PROPERTIES, GraphDecision
from palimpsest.text.words import fold

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
