"""What a home holds of one user in tables and files: rows of a build, usage, answers of a language model, decisions."""

import datetime as dt
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import closing
from pathlib import Path

import polars as pl

from palimpsest.core.ids import entity_id
from palimpsest.core.json_types import JsonObject
from palimpsest.export.export_schema import exported_tables
from palimpsest.store.builds import Build
from palimpsest.store.decisions import (
    MEMORY_KINDS,
    NAME_KINDS,
    RELATION_KINDS,
    decision_lines,
    names_target,
    parse_line,
)
from palimpsest.store.graph_decisions import GRAPH_KINDS
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest.store.usage_log import reads_of

_ANSWERS = "SELECT newer_id, older_id, program, model, answer FROM answers ORDER BY key"


def tables_of_user(build: Build, collection: str, user: str) -> dict[str, pl.DataFrame]:
    """Returns the rows of a user in every table of a collection that has scopes, and the texts of their documents."""
    found = {}
    for name in exported_tables():
        rows = build.table(collection, name)
        if "user_id" in rows.columns:
            found[name] = rows.filter(pl.col("user_id") == user)
    texts = build.table(collection, "document_texts")
    return found | {"document_texts": texts.join(found["documents"], on="document_id", how="semi")}


def usage_of(home: Home, collection: str, memory_ids: Set[str]) -> Iterator[JsonObject]:
    """Yields how often each memory was a result of a search, and the minute of the last one; sorted by id."""
    for memory_id, (reads, last) in sorted(reads_of(home.path, memory_ids).items()):
        when = dt.datetime.fromtimestamp(last, dt.UTC).isoformat()
        yield {"memory_id": memory_id, "collection": collection, "reads": reads, "last_read": when}


def answers_about(home: Home, ids: Set[str]) -> list[JsonObject]:
    """Returns the stored answers of a language model that are about these memories or documents.

    The ledger names an answer about a pair by both memories, and one about a session by the part of its document that
    was read (`<document id>:<turn>`) and by the ids that it rests on, joined by spaces.
    """
    if not home.lm_ledger.exists():
        return []
    with closing(sqlite3.connect(f"{home.lm_ledger.resolve().as_uri()}?mode=ro", uri=True)) as ledger:
        rows = ledger.execute(_ANSWERS)
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows if not ids.isdisjoint(_named_ids(row[0], row[1]))]


def _named_ids(newer: str, older: str) -> set[str]:
    return {newer.partition(":")[0], *older.split()}


def decisions_of(path: Path, tables: Mapping[str, Mapping[str, pl.DataFrame]], user: str) -> list[JsonObject]:
    """Returns the lines of the decisions file about a user's memories, relations, names and graph, in their order.

    A line about two names has the names' keys, in place of the hashes that the file has: whoever imports it computes
    the hashes again, so that a line is never about another scope. Tombstones are hashes of what is not stored any more.

    Args:
        path: the decisions file.
        tables: by collection, the user's rows.
        user: the user.
    """
    relations = {i for frames in tables.values() for i in frames["relations"]["relation_id"]}
    memories = {i for frames in tables.values() for i in frames["memories"]["memory_id"]}
    names = {target: keys for c, frames in tables.items() for target, keys in _name_keys(c, frames["surfaces"])}
    found: list[JsonObject] = []
    for line in decision_lines(path):
        row: JsonObject = parse_line(line)
        kind, target = row["kind"], str(row["target"])
        if kind in RELATION_KINDS:
            is_theirs = target in relations or {row.get("newer_id"), row.get("older_id")} <= memories
            found += [row] if is_theirs else []
        elif kind in MEMORY_KINDS:
            found += [row] if row.get("memory_id") in memories else []
        elif kind in NAME_KINDS and set(target.split("+")) <= names.keys():
            a, b = (names[i] for i in target.split("+"))
            found.append({"kind": kind, "at": row["at"], "scope": list(a[:3]), "names": [a[3], b[3]]})
        elif kind in GRAPH_KINDS and row.get("user_id") == user and row.get("collection") in tables:
            found.append(row)
    return found


def proposals_of(home: Home, collections: Collection[str], user: str) -> list[JsonObject]:
    """Returns the proposals of consolidation about a user's memories, by id."""
    known = read_proposals(home.path).values()
    return [p.to_json() for p in known if p.scope[0] in collections and p.scope[1] == user]


def _name_keys(collection: str, surfaces: pl.DataFrame) -> Iterator[tuple[str, tuple[str, str, str, str]]]:
    rows = surfaces.select("user_id", "project_id", "key").unique().sort(pl.all())
    for user_id, project_id, key in rows.iter_rows():
        yield entity_id(collection, user_id, project_id, key), (collection, user_id, project_id, key)


def name_decision_target(scope: tuple[str, str, str], a: str, b: str) -> str:
    """Returns the target of a decision about two names of a scope, as the decisions file has it."""
    return names_target(entity_id(*scope, a), entity_id(*scope, b))


def count_rows(tables: Mapping[str, Mapping[str, pl.DataFrame]]) -> dict[str, int]:
    """Returns how many rows of each table there are, over all collections."""
    counts: Counter[str] = Counter()
    for frames in tables.values():
        counts.update({name: rows.height for name, rows in frames.items()})
    return dict(sorted(counts.items()))
