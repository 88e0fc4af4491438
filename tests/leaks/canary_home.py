"""A build made by hand, with a canary word in everything that could be shown.

20 users have three projects and a general memory each. Every memory has a canary of its own in its text and title, in
names, in the evidence of relations and in the uri and title of its document; every scope has one in its topics. Some
memories are hidden, some contain personal data and the retention of some has ended.
"""

import datetime as dt
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id, text_hash
from palimpsest.index.write_index import write_index
from palimpsest.query.request.types import Scope
from palimpsest.store.tables import conform, empty

COLLECTION = "made"
USERS, PROJECTS, MEMORIES = 20, ("alpha", "beta", "gamma"), 12
NOUNS = ("database", "office", "launch", "budget", "locker", "garden", "train", "recipe")
TYPES, TAGS = ("episodic", "semantic"), ("plan", "note", "idea")
FIRST_DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_RETENTION_ENDED = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
_TABLES = "relations versions entities mentions topics topic_memories documents nodes edges facts"

_Row = dict[str, Any]
"""A row of a table, in the types that polars reads."""


@dataclass(frozen=True)
class CanaryMemory:
    """A memory, and what filters look at of it; `number` counts the memories of its scope."""

    scope: Scope
    number: int
    canary: str
    text: str
    type: str
    tag: str

    def __post_init__(self) -> None:
        n, ids = self.number, (*self.scope, self.number)
        own = {"memory_id": content_id("leak", *ids), "document_id": content_id("d", *ids), "session_id": f"s{n % 3}"}
        own |= {"observed_at": FIRST_DAY + dt.timedelta(days=10 * n)}
        own |= {"is_pii": n % 5 == 1, "is_visible": n % 6 != 5, "is_past_retention": n % 7 == 3}
        self.__dict__.update(own)

    def row(self) -> _Row:
        """Returns its row of the memories."""
        ids = {name: getattr(self, name) for name in ("memory_id", "session_id", "document_id")}
        text = {"text": self.text, "search_text": self.text, "title": f"About {self.canary}"}
        text |= {"char_start": 0, "char_end": len(self.text), "token_count": 20, "ordinal": self.number}
        kind = {"unit": "turn" if self.number % 2 == 0 else "chunk", "type": self.type, "tags": [self.tag]}
        times = {"observed_at": self.observed_at, "valid_from": self.observed_at}
        times["retention_until"] = _RETENTION_ENDED if self.is_past_retention else None
        shown = {"pii": self.is_pii, "user_visible": self.is_visible}
        return ids | self.scope._asdict() | text | kind | times | shown


@dataclass(frozen=True)
class CanaryOwner:
    """The scope that a canary belongs to, and its memory; None where it belongs to the whole scope."""

    scope: Scope
    memory: CanaryMemory | None = None


@dataclass(frozen=True)
class CanaryHome:
    """The tables of the build, and the owner of each canary."""

    tables: dict[str, pl.DataFrame]
    canaries: dict[str, CanaryOwner]

    @property
    def scopes(self) -> list[Scope]:
        """Every scope, sorted."""
        return sorted({owner.scope for owner in self.canaries.values()})


def canary_home(users: int = USERS, memories: int = MEMORIES, seed: int = 1) -> CanaryHome:
    """Makes the tables of a build with a canary in everything that could be shown; each scope has `memories`."""
    rng = random.Random(seed)
    rows: defaultdict[str, list[_Row]] = defaultdict(list)
    canaries: dict[str, CanaryOwner] = {}
    for user in range(users):
        for project in ("", *PROJECTS):
            scope = Scope(COLLECTION, f"user{user:02d}", project)
            made = [_draw_memory(rng, scope, n, len(canaries) + n) for n in range(memories)]
            canaries |= {memory.canary: CanaryOwner(scope, memory) for memory in made}
            canaries[topic_canary := f"zq{len(canaries)}x"] = CanaryOwner(scope)
            rows["memories"] += [memory.row() for memory in made]
            _add_neighbors(rows, scope, made)
            _add_versions(rows, scope, made)
            _add_documents(rows, scope, made, topic_canary)
            _add_graph(rows, scope, made, topic_canary)
    tables = {name: conform(name, pl.DataFrame(rows[name], infer_schema_length=None)) for name in _TABLES.split()}
    frame = pl.DataFrame(rows["memories"])
    tables["memories"] = conform("memories", frame)
    hashes = pl.Series([text_hash(t) for t in frame["text"]])
    inputs = frame.select("memory_id", "text", kind=pl.lit("memory"), ordinal=pl.lit(0), text_hash=hashes)
    tables["embed_inputs"] = conform("embed_inputs", inputs)
    return CanaryHome({"document_relations": empty("document_relations"), **tables}, canaries)


def _draw_memory(rng: random.Random, scope: Scope, number: int, canary_number: int) -> CanaryMemory:
    canary = f"zq{canary_number}x"
    text = f"The {rng.choice(NOUNS)} and the {rng.choice(NOUNS)} of {canary.capitalize()} Ltd are {canary}."
    return CanaryMemory(scope, number, canary, text, rng.choice(TYPES), rng.choice(TAGS))


def _add_neighbors(rows: dict[str, list[_Row]], scope: Scope, made: Sequence[CanaryMemory]) -> None:
    """Adds a name for each memory, which three memories mention."""
    columns = scope._asdict()
    for i, memory in enumerate(made):
        entity_id = content_id("e", memory.memory_id)
        name = f"{memory.canary.title()} Ltd"
        rows["entities"].append({"entity_id": entity_id, **columns, "name": name, "type": "name"})
        for near in (memory, made[(i + 1) % len(made)], made[(i + 5) % len(made)]):
            rows["mentions"].append({"memory_id": near.memory_id, "entity_id": entity_id, **columns})


def _add_versions(rows: dict[str, list[_Row]], scope: Scope, made: Sequence[CanaryMemory]) -> None:
    """Adds an update of every fourth memory, an extension of every memory, both with evidence, and the versions."""
    columns = scope._asdict()
    updated_by = {made[i].memory_id: made[i + 4] for i in range(0, len(made) - 4, 4)}
    for i, memory in enumerate(made):
        newer = updated_by.get(memory.memory_id)
        times = {"valid_from": memory.observed_at, "valid_until": newer and newer.observed_at}
        state = {"is_latest": newer is None, "superseded_by": newer and newer.memory_id}
        rows["versions"].append({"memory_id": memory.memory_id, **columns, **state, **times})
        for label, other in (("UPDATE", newer), ("EXTEND", made[i + 1] if i + 1 < len(made) else None)):
            if other is not None:
                evidence = {"rule": "slot", "from": memory.canary, "to": other.canary, "newer": [0, 99]}
                ids = {"relation_id": content_id(label, memory.memory_id), "newer_id": other.memory_id}
                ids |= {"older_id": memory.memory_id, "labeler": "made", "evidence": json.dumps(evidence)}
                rows["relations"].append({**ids, **columns, "label": label, "confidence": 0.9})


def _add_documents(rows: dict[str, list[_Row]], scope: Scope, made: Sequence[CanaryMemory], canary: str) -> None:
    """Adds a document for each memory, and a topic over all, with a canary of its own."""
    columns, topic_id = scope._asdict(), content_id("t", *scope)
    rows["topics"].append({"topic_id": topic_id, **columns, "label": f"database {canary}", "size": len(made)})
    for memory in made:
        topic = {"topic_id": topic_id, "memory_id": memory.memory_id, "relevance": 0.9}
        rows["topic_memories"].append(topic | columns)
        names = {"uri": f"{memory.canary}.md", "title": f"Page {memory.canary}", "is_current": True, "seq": 1}
        rows["documents"].append({"document_id": memory.document_id, **columns, **names})


def _add_graph(rows: dict[str, list[_Row]], scope: Scope, made: Sequence[CanaryMemory], canary: str) -> None:
    """Adds a node for each name, with its canary in all of it, a fact and an edge for each memory, and the topic."""
    columns, topic_id = scope._asdict(), content_id("t", *scope)
    rows["nodes"].append({"node_id": topic_id, **columns, "type": "topic", "name": f"database {canary}"})
    for i, memory in enumerate(made):
        node_id, next_id = (content_id("e", m.memory_id) for m in (memory, made[(i + 1) % len(made)]))
        text = f"About {memory.canary}"
        name = {"name": f"{memory.canary.title()} Ltd", "aliases": [f"Firm {memory.canary}"], "description": text}
        rows["nodes"].append(
            {"node_id": node_id, **columns, "type": "organisation", **name, "metadata": json.dumps({"of": text})}
        )
        ids = {"memory_ids": [memory.memory_id], **columns}
        fact = {"subject_id": node_id, "predicate": f"is {memory.canary}", "is_latest": True, **ids}
        rows["facts"].append({"fact_id": content_id("f", memory.memory_id), "object_id": next_id, **fact})
        rows["facts"].append({"fact_id": content_id("v", memory.memory_id), "value": memory.canary, **fact})
        rows["edges"].append(
            {"source_id": node_id, "target_id": next_id, "type": "part_of", "provenance": memory.canary, **ids}
        )
        rows["edges"].append({"source_id": topic_id, "target_id": node_id, "type": "related_to", **columns})


def write_home(made: CanaryHome, folder: Path) -> Path:
    """Writes the index of a canary home as its published build; returns the index."""
    path = folder / "builds" / "000001" / "index.duckdb"
    users = sorted({s.user_id for s in made.scopes})
    meta = {"build_id": "000001", "strategies": {COLLECTION: "dated"}}
    meta["collections"] = {COLLECTION: {"default": True, "user_id": users[0]}}
    write_index(made.tables, hash_vectors, path, meta)
    (folder / "published.json").write_text(json.dumps({"build": "000001"}), encoding="utf-8")
    return path


def hash_vectors(hashes: Sequence[str]) -> np.ndarray:
    """Returns a unit vector for each hash, the same every time, shape (n, 384) float32."""
    drawn = [np.random.default_rng(int(h, 16)).standard_normal(384) for h in hashes]
    rows = np.stack(drawn) if drawn else np.zeros((0, 384))
    unit: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return unit.astype(np.float32)
