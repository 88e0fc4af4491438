"""Searches a made home for leaks: canary words of one scope, or of what a filter leaves out, in an answer to another.

    python -m palimpsest.eval.studies.leaks [--searches 10000] [--seed 1] [--backend duckdb|neo4j]

20 users have three projects and a general memory each. Every memory has a canary of its own in its text and title, in
names, in the evidence of relations and in the uri and title of its document; every scope has one in its topics. Some
memories are hidden, some hold personal data and the retention of some has ended. Random searches run over every
strategy, history, explain, as-of, `--now` and each filter; all output, as text and as JSON, is searched for canaries.
"""

import argparse
import datetime as dt
import json
import random
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id, text_hash
from palimpsest.index.write_index import write_index
from palimpsest.query.present import history_text, results_text
from palimpsest.query.reader import Reader
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.backend import Backend
from palimpsest.store.tables import conform, empty

USERS, PROJECTS, MEMORIES = 20, ("alpha", "beta", "gamma"), 12
COLLECTION = "made"
_CANARY = re.compile(r"zq\d+x")
_NOUNS = ("database", "office", "launch", "budget", "locker", "garden", "train", "recipe")
_SINCE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_TYPES, _TAGS = ("episodic", "semantic"), ("plan", "note", "idea")
_ENDED = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
_SHOWN = 10


@dataclass(frozen=True)
class Planted:
    """What a canary belongs to: a scope, and one of its memories, as a row; without a row it is the whole scope's."""

    scope: Scope
    row: dict[str, Any] | None = None


@dataclass(frozen=True)
class MadeHome:
    """A build made by hand, and what each canary belongs to."""

    tables: dict[str, pl.DataFrame]
    canaries: dict[str, Planted]

    @property
    def scopes(self) -> list[Scope]:
        """Every scope, sorted."""
        return sorted({p.scope for p in self.canaries.values()})


@dataclass
class LeakReport:
    """How many searches ran, and what leaked: one line each."""

    searches: int = 0
    texts: int = 0
    leaks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values; examples are the first ten."""
        return {
            "searches": self.searches,
            "texts": self.texts,
            "leaks": len(self.leaks),
            "examples": self.leaks[:_SHOWN],
            "seconds": round(self.seconds, 1),
        }


def vectors(hashes: Sequence[str]) -> np.ndarray:
    """Returns a unit vector for each hash, the same every time, shape (n, 384) float32."""
    found = [np.random.default_rng(int(h, 16)).standard_normal(384) for h in hashes]
    rows = np.stack(found) if found else np.zeros((0, 384))
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def made_home(users: int = USERS, memories: int = MEMORIES, seed: int = 1) -> MadeHome:
    """Makes the tables of a build with a canary in everything that could be shown."""
    rng = random.Random(seed)  # noqa: S311
    scopes = [Scope(COLLECTION, f"user{u:02d}", p) for u in range(users) for p in ("", *PROJECTS)]
    rows: list[dict[str, Any]] = []
    out: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("relations", "versions", "entities", "mentions", "topics", "topic_memories", "documents")
    }
    canaries: dict[str, Planted] = {}
    for scope in scopes:
        own = [_memory(rng, scope, n, len(canaries) + n) for n in range(memories)]
        canaries |= {row["canary"]: Planted(scope, row) for row in own}
        canaries[word := f"zq{len(canaries)}x"] = Planted(scope)
        rows += own
        _add_scope(out, scope, own, word)
    frame = pl.DataFrame(rows)
    tables = {name: conform(name, pl.DataFrame(told, infer_schema_length=None)) for name, told in out.items()}
    tables["memories"] = conform("memories", frame.drop("canary"))
    tables["embed_inputs"] = conform(
        "embed_inputs",
        frame.select(
            "memory_id",
            "text",
            kind=pl.lit("memory"),
            ordinal=pl.lit(0),
            text_hash=pl.Series([text_hash(t) for t in frame["text"]]),
        ),
    )
    return MadeHome({"document_relations": empty("document_relations"), **tables}, canaries)


def _memory(rng: random.Random, scope: Scope, n: int, number: int) -> dict[str, Any]:
    canary, seen = f"zq{number}x", _SINCE + dt.timedelta(days=10 * n)
    text = f"The {rng.choice(_NOUNS)} and the {rng.choice(_NOUNS)} of Zq{number}x Ltd are {canary}."
    turn = n % 2 == 0
    return {
        "memory_id": content_id("leak", *scope, n),
        **scope._asdict(),
        "canary": canary,
        "text": text,
        "search_text": text,
        "title": f"About {canary}",
        "session_id": f"s{n % 3}",
        "ordinal": n,
        "document_id": content_id("d", *scope, n),
        "unit": "turn" if turn else "chunk",
        "type": rng.choice(_TYPES),
        "tags": [rng.choice(_TAGS)],
        "observed_at": seen,
        "valid_from": seen,
        "char_start": 0,
        "char_end": len(text),
        "token_count": 20,
        "pii": n % 5 == 1,
        "user_visible": n % 6 != 5,
        "retention_until": _ENDED if n % 7 == 3 else None,
    }


def _add_scope(out: dict[str, list[dict[str, Any]]], scope: Scope, own: list[dict[str, Any]], word: str) -> None:
    """Adds names shared by neighbours, updates with evidence, a replaced document, and a topic over all."""
    at = scope._asdict()
    newer = {own[i]["memory_id"]: own[i + 4] for i in range(0, len(own) - 4, 4)}
    for i, row in enumerate(own):
        name = content_id("e", row["memory_id"])
        out["entities"].append({"entity_id": name, **at, "name": f"{row['canary'].title()} Ltd", "type": "name"})
        for near in (row, own[(i + 1) % len(own)], own[(i + 5) % len(own)]):
            out["mentions"].append({"memory_id": near["memory_id"], "entity_id": name, **at})
        by = newer.get(row["memory_id"])
        out["versions"].append(
            {
                "memory_id": row["memory_id"],
                **at,
                "is_latest": by is None,
                "valid_from": row["observed_at"],
                "superseded_by": by and by["memory_id"],
                "valid_until": by and by["observed_at"],
            }
        )
        out["topic_memories"].append(
            {"topic_id": (t := content_id("t", *scope)), "memory_id": row["memory_id"], **at, "relevance": 0.9}
        )
        for label, other in (("UPDATE", by), ("EXTEND", own[i + 1] if i + 1 < len(own) else None)):
            if other is not None:
                evidence = {"rule": "slot", "from": row["canary"], "to": other["canary"], "newer": [0, 99]}
                out["relations"].append(
                    {
                        "relation_id": content_id(label, row["memory_id"]),
                        **at,
                        "newer_id": other["memory_id"],
                        "older_id": row["memory_id"],
                        "label": label,
                        "confidence": 0.9,
                        "labeler": "made",
                        "evidence": json.dumps(evidence),
                    }
                )
    out["topics"].append({"topic_id": t, **at, "label": f"database {word}", "size": len(own)})
    out["documents"] += [
        {
            "document_id": row["document_id"],
            **at,
            "uri": f"{row['canary']}.md",
            "title": f"Page {row['canary']}",
            "is_current": True,
            "seq": 1,
        }
        for row in own
    ]


def write_home(made: MadeHome, folder: Path) -> Path:
    """Writes the index of a made home as its published build; returns the index."""
    path = folder / "builds" / "000001" / "index.duckdb"
    users = sorted({s.user_id for s in made.scopes})
    write_index(
        made.tables,
        vectors,
        path,
        {
            "build_id": "000001",
            "collections": {COLLECTION: {"default": True, "user_id": users[0]}},
            "strategies": {COLLECTION: "dated"},
        },
    )
    (folder / "published.json").write_text(json.dumps({"build": "000001"}), encoding="utf-8")
    return path


def search_for_leaks(backend: Backend, made: MadeHome, searches: int, seed: int = 1) -> LeakReport:
    """Runs random searches over a backend that holds a made home, and looks through all that comes back.

    Args:
        backend: the store; it holds `made`.
        made: the home.
        searches: how many.
        seed: of the random choices.
    """
    rng, reader, report = random.Random(seed), Reader(backend), LeakReport()  # noqa: S311
    started = time.perf_counter()
    scopes, words = made.scopes, sorted(made.canaries)
    for _ in range(searches):
        own = rng.choice(scopes)
        read = [own] if rng.random() < 0.3 else _read(scopes, own)
        asked = _filters(rng)
        text = f"{rng.choice(_NOUNS)} {rng.choice(_NOUNS)} {rng.choice(words) if rng.random() < 0.3 else ''}"
        told = _answer(reader, text, read, own, asked, rng)
        report.searches += 1
        report.texts += len(told)
        for word in sorted(set(_CANARY.findall(told.casefold()))):
            if why := _wrong(made.canaries.get(word), read, asked):
                report.leaks.append(f"{word}: {why}; {'/'.join(own)} asked {text!r} with {asked}")
    report.seconds = time.perf_counter() - started
    return report


def _read(scopes: Sequence[Scope], own: Scope) -> list[Scope]:
    return [s for s in scopes if s[:2] == own[:2] and s.project_id in ("", own.project_id)]


def _filters(rng: random.Random) -> dict[str, Any]:
    """Draws none, one or two filters."""
    day = (_SINCE + dt.timedelta(days=rng.randrange(0, 130))).date().isoformat()
    known: dict[str, Any] = dict.fromkeys(("since", "until", "as_of", "now"), day)
    known |= {"session": f"s{rng.randrange(3)}", "type": rng.choice(_TYPES), "tag": rng.choice(_TAGS)}
    known |= {"include_hidden": True, "include_pii": True}
    return {name: known[name] for name in rng.sample(sorted(known), rng.choice((0, 0, 1, 1, 2)))}


def _answer(reader: Reader, text: str, read: list[Scope], own: Scope, asked: dict[str, Any], rng: random.Random) -> str:
    """Returns all that one search gives back, errors included; a twentieth names somebody else's project."""
    strategy = rng.choice(["auto", *STRATEGIES])
    more: dict[str, Any] = {
        "history": rng.random() < 0.4,
        "explain": rng.random() < 0.5,
        "hops": rng.randrange(3),
        "k": 8,
    }
    try:
        if rng.random() < 0.05:
            reader.resolve_scopes(COLLECTION, own.user_id, f"not{own.project_id}")
        found = reader.search(text, read, strategy=strategy, **asked, **more)
        told = [results_text(found, True), json.dumps(found.to_json()), json.dumps(dict(found.met))]
        told += [history_text(v) for v in found.versions.values()]
        return "\n".join(told)
    except PalimpsestError as e:
        return str(e)


def _wrong(planted: Planted | None, read: Sequence[Scope], asked: dict[str, Any]) -> str | None:
    """Returns why a canary must not have been told."""
    if planted is None:
        return "belongs to nothing"
    if planted.scope not in read:
        return f"belongs to {'/'.join(planted.scope)}"
    row = planted.row
    if row is None:
        return None
    day = row["observed_at"].date().isoformat()
    broken = {
        "session": row["session_id"] != asked.get("session", row["session_id"]),
        "type": row["type"] != asked.get("type", row["type"]),
        "tag": asked.get("tag", row["tags"][0]) not in row["tags"],
        "since": day < asked.get("since", ""),
        "until": day > asked.get("until", "9"),
        "as_of": day > asked.get("as_of", "9"),
        "now": day > asked.get("now", "9"),
    }
    broken |= {
        "hidden": not (row["user_visible"] or asked.get("include_hidden")),
        "pii": row["pii"] and not asked.get("include_pii"),
        "retention": row["retention_until"] is not None,
    }
    left_out = [name for name in broken if broken[name]]
    return f"left out by {', '.join(left_out)}" if left_out else None


@contextmanager
def _backend(name: str, made: MadeHome) -> Iterator[Backend]:
    """Stores the home where `name` says, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        index = write_home(made, Path(folder))
        if name == "duckdb":
            from palimpsest.query.backends.duckdb_backend import DuckDBBackend

            yield stack.enter_context(closing(DuckDBBackend(index)))
            return
        from palimpsest.neo4j_graph.backend.neo4j_backend import Neo4jBackend
        from palimpsest.neo4j_graph.connect import connect
        from palimpsest.neo4j_graph.load.erase import drop_home
        from palimpsest.neo4j_graph.load.loader import load_tables

        home_id = secrets.token_hex(8)
        connection = stack.enter_context(connect())
        stack.callback(drop_home, connection, home_id)
        load_tables(home_id, made.tables, vectors, index, "made", connection)
        yield Neo4jBackend(home_id, connection)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the searches, prints the report; returns 1 where anything leaked."""
    parser = argparse.ArgumentParser(description="Search a made home for leaks between scopes and past filters.")
    parser.add_argument("--searches", type=int, default=10_000, help="how many random searches")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    parser.add_argument("--backend", choices=("duckdb", "neo4j"), default="duckdb", help="the store that is searched")
    args = parser.parse_args(argv)
    made = made_home()
    with _backend(args.backend, made) as backend:
        report = search_for_leaks(backend, made, args.searches, args.seed)
    sys.stdout.write(json.dumps(report.to_json(), sort_keys=True) + "\n")
    return 1 if report.leaks else 0


if __name__ == "__main__":
    raise SystemExit(main())
