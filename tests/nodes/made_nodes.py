"""Tables of a small scope made by hand: documents of sentences, with the names in them as mentions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from palimpsest.core.ids import entity_id
from palimpsest.nodes.node_tables import READS, build_nodes
from palimpsest.store.tables import empty
from tests.query.made import at, memory, rows

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}


@dataclass
class Page:
    """A document with one memory for each sentence."""

    uri: str
    sentences: Sequence[str]
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    day: str = "2026-05-04"
    scope: Mapping[str, str] = field(default_factory=dict)


def made(pages: Sequence[Page], names: Mapping[str, str], **more: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns the tables of `READS`; `names` are the entities of each scope that names them, with their types."""
    memories, documents, mentions, entities = [], [], set(), {}
    for n, page in enumerate(pages):
        scope = SCOPE | dict(page.scope)
        document = {"document_id": f"d{n}", "uri": page.uri, "title": page.title, "is_current": True, **scope}
        documents.append(document | {"metadata": json.dumps(page.metadata), "source_time": at(page.day)})
        for i, text in enumerate(page.sentences):
            memory_id = f"m{n}.{i}"
            memories.append(
                memory(memory_id, text, **scope)
                | {"document_id": f"d{n}", "ordinal": i, "title": page.title, "observed_at": at(page.day)}
                | dict.fromkeys(("created_at", "updated_at"), at("2026-06-01"))
            )
            for name, kind in names.items():
                key = entity_id(scope["collection"], scope["user_id"], scope["project_id"], name)
                found = text.find(name)
                if found >= 0 or name == page.title:
                    entities[key] = {"entity_id": key, "name": name, "type": kind, "aliases": [], **scope}
                    span = (found, found + len(name)) if found >= 0 else (None, None)
                    mentions.add((memory_id, key, *scope.values(), *span))
    columns = empty("mentions").columns
    return {
        **{name: empty(name) for name in READS},
        "memories": rows("memories", *memories),
        "documents": rows("documents", *documents),
        "versions": rows("versions", *({"memory_id": m["memory_id"], "is_latest": True, **SCOPE} for m in memories)),
        "entities": rows("entities", *entities.values()),
        "mentions": rows("mentions", *(dict(zip(columns, m, strict=True)) for m in sorted(mentions, key=str))),
        **more,
    }


def fact(subject: str, predicate: str, target: str = "", value: str = "", memory_id: str = "m0.0") -> dict[str, Any]:
    """Returns a fact between names of the scope, or of a name and a value."""

    def key(name: str) -> str:
        return entity_id(*SCOPE.values(), name)

    return SCOPE | {
        "fact_id": f"{subject} {predicate} {target or value}",
        "subject_id": key(subject),
        "predicate": predicate,
        "object_id": key(target) if target else None,
        "value": value or None,
        "is_negated": False,
        "memory_ids": [memory_id],
        "confidence": 0.9,
    }


def nodes_of(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, Any]]:
    """Returns the nodes by name."""
    return {row["name"]: row for row in build_nodes(tables)["nodes"].iter_rows(named=True)}


def edges_of(tables: Mapping[str, pl.DataFrame]) -> set[tuple[str, str, str]]:
    """Returns the edges as (name, type, name)."""
    built = build_nodes(tables)
    names = dict(built["nodes"].select("node_id", "name").iter_rows())
    return {(names[s], t, names[o]) for s, t, o in built["edges"].select("source_id", "type", "target_id").iter_rows()}
