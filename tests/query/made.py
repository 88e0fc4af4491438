"""Small builds made by hand for the index and the query path: real files, the real query embedder as the model."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palimpsest.core.ids import SCOPE, text_hash
from palimpsest.index.write_index import IndexStats, write_index
from palimpsest.query.embed_query import count_tokens, query_embedder
from palimpsest.query.reader import Reader, open_home, open_index
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Memory, Scope
from palimpsest.query.scope.backend import Backend, read_chains
from palimpsest.query.scope.scope_query import ScopeQuery, resolve_query
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.tables import SCHEMAS, conform, empty


def at(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def rows(table: str, *items: dict[str, Any]) -> pl.DataFrame:
    if not items:
        return empty(table)
    known = {c: t for c, t in SCHEMAS[table].items() if any(c in i for i in items)}
    return conform(table, pl.DataFrame(list(items), schema=known))


def memory(memory_id: str, text: str, user_id: str = "ana", **columns: Any) -> dict[str, Any]:
    ids = {"memory_id": memory_id, "collection": "notes", "user_id": user_id, "document_id": f"d-{memory_id}"}
    about = {"ordinal": 0, "unit": "chunk", "type": "document", "tags": [], "token_count": count_tokens(text)}
    return ids | about | {"text": text, "search_text": text, "char_start": 0, "char_end": len(text)} | columns


def tables(
    memories: Sequence[dict[str, Any]],
    updates: Sequence[tuple[str, str]] = (),
    links: Sequence[tuple[str, str, str]] = (),
    mentions: Sequence[tuple[str, str]] = (),
) -> dict[str, pl.DataFrame]:
    """Tables of a build; `updates` are (newer, older) and retire the older when the newer was observed."""
    by_id = {m["memory_id"]: m for m in memories}
    scopes = {i: {c: m.get(c, "") for c in SCOPE} for i, m in by_id.items()}
    newer_of = {older: newer for newer, older in updates}
    made: dict[str, list[dict[str, Any]]] = {"memories": list(memories)}
    made["documents"] = [
        {"document_id": d, **scopes[m["memory_id"]], "uri": f"{m['memory_id']}.md", "title": m.get("title")}
        | {"is_current": True}
        for d, m in {m["document_id"]: m for m in memories}.items()
    ]
    made["embed_inputs"] = [
        {"memory_id": i, "kind": "memory", "ordinal": 0, "text": m["text"], "text_hash": text_hash(m["text"])}
        for i, m in by_id.items()
    ]
    made["versions"] = [
        {"memory_id": i, **scopes[i], "is_latest": i not in newer_of, "superseded_by": newer_of.get(i)}
        | {"valid_from": m.get("valid_from") or m.get("observed_at")}
        | {"valid_until": by_id[newer_of[i]].get("observed_at") if i in newer_of else m.get("valid_until")}
        for i, m in by_id.items()
    ]
    made["relations"] = [
        {"relation_id": f"{n}>{o}", **scopes[n], "newer_id": n, "older_id": o, "label": label, "confidence": 0.9}
        for n, o, label in [*links, *((n, o, "UPDATE") for n, o in updates)]
    ]
    named = {f"{by_id[m]['user_id']}:{name}": (name, scopes[m]) for m, name in mentions}
    made["entities"] = [
        {"entity_id": i, **scope, "name": name, "type": "x", "aliases": []} for i, (name, scope) in named.items()
    ]
    made["mentions"] = [
        {"memory_id": m, "entity_id": f"{by_id[m]['user_id']}:{name}", **scopes[m], "char_start": 0, "char_end": 1}
        for m, name in mentions
    ]
    return {name: rows(name, *found) for name, found in made.items()}


def write(made: dict[str, pl.DataFrame], path: Path, earlier: Path | None = None, **meta: Any) -> IndexStats:
    texts = dict(zip(made["embed_inputs"]["text_hash"], made["embed_inputs"]["text"], strict=True))

    def vectors(hashes: Sequence[str]) -> np.ndarray:
        return np.array([query_embedder().embed(texts[h]) for h in hashes], np.float32).reshape(-1, 384)

    return write_index(made, vectors, path, {"build_id": "000001", "model_id": "test"} | meta, earlier)


def scope_query(
    backend: Backend, text: str, strategy: str | Weights, scope: Scope, filters: Filters | None = None
) -> ScopeQuery:
    """The query of a scope, as a search makes it."""
    vector = query_embedder().embed(text)
    return resolve_query(ServedScope(backend, scope, Filters()), text, vector, strategy)


def index(folder: Path, made: Any, **meta: Any) -> Path:
    """Writes the index of tables, or of memories; returns its path."""
    write(made if isinstance(made, dict) else tables(made), folder / "i.duckdb", **meta)
    return folder / "i.duckdb"


@contextmanager
def read_index(folder: Path, made: Any, **meta: Any) -> Iterator[Reader]:
    """Opens the index of tables, or of memories."""
    with open_index(index(folder, made, **meta)) as reader:
        yield reader


def index_fixture(made: Any, **meta: Any) -> Any:
    """Returns a fixture of a module: the path of the index of tables, of memories, or of what a function gives."""

    @pytest.fixture(scope="module")
    def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return index(tmp_path_factory.mktemp("made"), made() if callable(made) else made, **meta)

    return path


def reader_fixture(made: Any, **meta: Any) -> Any:
    """Returns a fixture of a module: a reader of such an index."""

    @pytest.fixture(scope="module")
    def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
        with read_index(tmp_path_factory.mktemp("made"), made() if callable(made) else made, **meta) as opened:
            yield opened

    return reader


def home_fixture(made: Any, **meta: Any) -> Any:
    """Returns a fixture of a module: a reader of a home that has such an index, and counts no reads."""

    @pytest.fixture(scope="module")
    def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
        tables_ = made() if callable(made) else made
        with open_home(home(tmp_path_factory.mktemp("home"), tables_, **meta), count_reads=False) as opened:
            yield opened

    return reader


def home(folder: Path, made: dict[str, pl.DataFrame], build: str = "000001", **meta: Any) -> Path:
    write(made, folder / "builds" / build / "index.duckdb", **({"build_id": build} | meta))
    (folder / "published.json").write_text(json.dumps({"build": build}))
    return folder


def history(backend: Backend, scope: Scope, ids: Sequence[str]) -> dict[str, list[Memory]]:
    """Returns what memories replaced, newest first, as a search reads it; privacy and retention aside."""
    return read_chains(backend.chains(scope, ids), partial(backend.memories, scope))
