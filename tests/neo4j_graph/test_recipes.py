"""The recipes of docs/neo4j.md: each returns the rows that the tables of the build give, computed here without a graph.

`EXPECTED` has a function for each recipe, by the first words above it: of the tables and the parameters it makes all
rows, and how the recipe sorts them.
"""

import datetime as dt
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from neo4j.time import DateTime

from palimpsest.core.ids import SCOPE, content_id
from palimpsest.index.memory_table import versioned_memories
from palimpsest.memories.version_reasons import disputing_relations
from palimpsest.neo4j_graph.graph_rows import TABLES
from palimpsest.neo4j_graph.identity import home_id
from palimpsest.neo4j_graph.loader import home_vectors, load_graph
from palimpsest.neo4j_graph.model import NODE_EDGES
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home
from palimpsest.store.tables import conform, empty
from tests.neo4j_graph.made import fresh_home, made_of, make, memory_id, vectors

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "neo4j.md"
RECIPE = re.compile(r"^```cypher\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEST_SCOPE = {"collection": "made", "user_id": "ann", "project_id": ""}
Row = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """All rows that a recipe could return, in the order of its columns.

    Attributes:
        rows: before its LIMIT.
        order: what it sorts by, ascending; None where it says nothing.
        contains: of a search: any of these words is in each row, and rows there are.
    """

    rows: Sequence[tuple[object, ...]] = ()
    order: Callable[[tuple[Any, ...]], object] | None = None
    contains: Sequence[str] = ()


@dataclass
class Tables:
    """The tables of a build as rows, and what follows from them."""

    frames: Mapping[str, pl.DataFrame]
    build_id: str
    vector_of: Callable[[Sequence[str]], np.ndarray]
    memories: dict[str, Row] = field(init=False)

    def __post_init__(self) -> None:
        frames = {name: self.frames.get(name, empty(name)) for name in TABLES}
        self.frames = frames
        self.memories = {m["memory_id"]: m for m in versioned_memories(frames).to_dicts()}
        self.documents = {d["document_id"]: d for d in self.rows("documents")}
        self.nodes = {n["node_id"]: n for n in self.rows("nodes")}
        named = {*frames["entities"]["entity_id"], *frames["speakers"]["entity_id"]}
        self.entities = {i: n for i, n in self.nodes.items() if i in named}
        self.topics = {i: n for i, n in self.nodes.items() if i in set(frames["topics"]["topic_id"])}

    def rows(self, name: str) -> list[Row]:
        return self.frames[name].to_dicts()

    def facts(self) -> Iterator[Row]:
        """Yields facts of a node, and of two where they have an object."""
        for f in self.rows("facts"):
            if f["subject_id"] in self.nodes and (f["object_id"] is None or f["object_id"] in self.nodes):
                yield f

    def successor(self, memory: Row) -> Row | None:
        """Returns the memory or the document that took a memory's place."""
        by = memory["superseded_by"]
        return self.memories.get(by) or self.documents.get(by)

    def chain(self, memory: Row) -> list[Row]:
        """Returns what took a memory's place, the last first, and the memory."""
        found = [memory]
        while "memory_id" in found[0] and (by := self.successor(found[0])) is not None:
            found.insert(0, by)
        return found

    def members(self) -> dict[str, set[str]]:
        """Returns the memories of topics, by node."""
        found = defaultdict(set)
        for name, key in (("topic_memories", "topic_id"), ("node_memories", "node_id")):
            for row in self.rows(name):
                found[row[key]].add(row["memory_id"])
        return found

    def neighbors(self) -> dict[str, set[str]]:
        """Returns the nodes that a fact or an edge connects with each."""
        ends = [(f["subject_id"], f["object_id"]) for f in self.facts() if f["object_id"]]
        ends += [(e["source_id"], e["target_id"]) for e in self.rows("edges") if e["type"].upper() in NODE_EDGES]
        found = defaultdict(set)
        for a, b in ends:
            found[a].add(b)
            found[b].add(a)
        return found

    def parameters(self, number: int) -> dict[str, Any]:
        """Returns values for all recipes: of several the one with this number, those with the most to find first."""
        retired = [m for m in self.memories.values() if self.successor(m) is not None]
        longest = sorted(retired, key=lambda m: (-len(self.chain(m)), m["memory_id"]))
        by_document = [m for m in longest if m["superseded_by"] in self.documents]
        facts = Counter(f["subject_id"] for f in self.facts() if f["object_id"])
        subject = [i for i, _ in sorted(facts.items(), key=lambda f: (-f[1], f[0])) if i in self.entities][number]
        other = sorted(f["object_id"] for f in self.facts() if f["subject_id"] == subject and f["object_id"])[0]
        scopes = Counter(tuple(m[c] for c in SCOPE) for m in self.memories.values())
        scope = dict(
            zip(("collection", "user", "project"), sorted(scopes, key=lambda s: (-scopes[s], s))[number], strict=True)
        )
        mine = sorted(
            (m for m in self.memories.values() if m["user_id"] == scope["user"]), key=lambda m: m["memory_id"]
        )
        uris = Counter(self.documents[m["document_id"]]["uri"] for m in mine)
        types = Counter(n["type"] for n in self.nodes.values())
        days = sorted(m["observed_at"] for m in mine if m["observed_at"])
        hashes = {r["memory_id"]: r["text_hash"] for r in self.rows("embed_inputs") if r["ordinal"] == 0}
        name = self.nodes[subject]["name"]
        return scope | {
            "memory": mine[number]["memory_id"],
            "superseded": (by_document or longest)[0]["memory_id"] if number else longest[0]["memory_id"],
            "name": name,
            "other": self.nodes[other]["name"],
            "type": sorted(types, key=lambda t: (-types[t], t))[number],
            "words": max(re.findall(r"[a-z]+", mine[number]["text"].lower()), key=len),
            "uri": sorted(uris, key=lambda u: (-uris[u], u))[: number + 1][-1],
            "day": days[len(days) // (number + 2)] if days else dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            "vector": self.vector_of([hashes[mine[number]["memory_id"]]])[0].tolist(),
        }


def newest(column: int) -> Callable[[tuple[Any, ...]], object]:
    """Returns the key of rows that are sorted by a column, the largest first and what has no value last."""
    return lambda row: (row[column] is None, -row[column].timestamp() if row[column] is not None else 0)


def highest(column: int) -> Callable[[tuple[Any, ...]], object]:
    return lambda row: (row[column] is None, -(row[column] or 0))


def scopes(t: Tables, p: Row) -> Expected:
    all_of = Counter(tuple(m[c] for c in SCOPE) for m in t.memories.values())
    latest = Counter(tuple(m[c] for c in SCOPE) for m in t.memories.values() if m["is_latest"])
    return Expected([(*scope, n, latest[scope]) for scope, n in all_of.items()], highest(3))


def cited(t: Tables, p: Row) -> Expected:
    m = t.memories[p["memory"]]
    return Expected([(m["text"], m["is_latest"], m["collection"], t.documents[m["document_id"]]["uri"])])


def replaced(t: Tables, p: Row) -> Expected:
    retired = [m for m in t.memories.values() if not m["is_latest"]]
    by = [(m, t.successor(m)) for m in retired]
    assert all(newer is not None or m["superseded_by"] is None for m, newer in by)
    return Expected([(m["text"], n.get("text", n.get("uri")), m["valid_until"]) for m, n in by if n], newest(2))


def versions(t: Tables, p: Row) -> Expected:
    chain = t.chain(t.memories[p["superseded"]])
    return Expected([([v.get("text", v.get("uri")) for v in chain],)])


def valid_on_a_day(t: Tables, p: Row) -> Expected:
    day, found = p["day"], []
    for m in t.memories.values():
        since, until = m["valid_from"] or m["known_from"], m["valid_until"]
        is_open = until > day if until else m["is_latest"]
        if m["user_id"] == p["user"] and since is not None and since <= day and is_open:
            found.append((m["text"], m["valid_from"]))
    return Expected(found, newest(1))


def says_of_a_name(t: Tables, p: Row) -> Expected:
    named = {(m["memory_id"], m["entity_id"]) for m in t.rows("mentions")}
    found = [t.memories[m] for m, e in named if t.entities.get(e, {}).get("name") == p["name"]]
    return Expected([(m["text"], m["observed_at"]) for m in found if m["is_latest"]], newest(1))


def known_of_a_name(t: Tables, p: Row) -> Expected:
    found = [
        (f["predicate"], value, f["is_negated"], f["valid_from"], f["valid_until"], f["is_latest"], memory)
        for f in t.facts()
        if t.entities.get(f["subject_id"], {}).get("name") == p["name"]
        for value in [f["value"] if f["value"] is not None else t.nodes[f["object_id"]]["name"]]
        for memory in f["memory_ids"]
    ]
    return Expected(found, lambda row: (row[3] is None, row[3].timestamp() if row[3] else 0, row[0]))


def important(t: Tables, p: Row) -> Expected:
    nodes = [n for n in t.nodes.values() if n["type"] == p["type"]]
    return Expected([(n["name"], n["importance"], n["description"]) for n in nodes], highest(1))


def most_used_topics(t: Tables, p: Row) -> Expected:
    above = defaultdict(set)
    for e in t.rows("edges"):
        if e["type"] == "subtopic_of" and e["target_id"] in t.topics:
            above[e["source_id"]].add(t.topics[e["target_id"]]["name"])
    found = defaultdict(set)
    for topic, members in t.members().items():
        for higher in (above[topic] or {None}) if topic in t.topics else ():
            found[t.topics[topic]["name"], higher] |= {m for m in members if t.memories[m]["is_latest"]}
    return Expected([(*labels, len(members)) for labels, members in found.items() if members], highest(2))


def said_by_a_document(t: Tables, p: Row) -> Expected:
    current = {i for i, d in t.documents.items() if d["uri"] == p["uri"] and d["is_current"]}
    found = [m for m in t.memories.values() if m["document_id"] in current]
    spans = [(m["char_start"], m["char_end"], m["text"]) for m in found]
    return Expected([tuple(-1 if v is None else v for v in span) for span in spans], lambda row: row[0])


def disputes(t: Tables, p: Row) -> Expected:
    found = [
        (r["relation_id"], r["likelihood"], t.memories[r["older_id"]]["text"], t.memories[r["newer_id"]]["text"])
        for r in disputing_relations(t.frames).to_dicts()
    ]
    return Expected(found, lambda row: -(row[1] or 0))


def ended_in_part(t: Tables, p: Row) -> Expected:
    found = []
    for r in t.rows("relations"):
        newer, older = (t.memories[r[end]] for end in ("newer_id", "older_id"))
        if r["label"] == "UPDATE" and r["part"] is not None and older["is_latest"]:
            start, end = json.loads(r["part"])[0]
            found.append((older["text"], older["text"][start:end], newer["text"]))
    return Expected(found)


def near(t: Tables, p: Row) -> Expected:
    wanted = tuple(p[c] for c in ("collection", "user", "project"))
    mine = {i for i, m in t.memories.items() if m["is_latest"] and tuple(m[c] for c in SCOPE) == wanted}
    inputs = [r for r in t.rows("embed_inputs") if r["memory_id"] in mine]
    cosines = t.vector_of([r["text_hash"] for r in inputs]) @ np.array(p["vector"], np.float32)
    best: dict[str, float] = {}
    for r, cosine in zip(inputs, cosines, strict=True):
        best[r["memory_id"]] = max(best.get(r["memory_id"], 0.0), (1 + float(cosine)) / 2)
    by_text: dict[str, float] = {}
    for i, score in best.items():
        by_text[t.memories[i]["text"]] = max(by_text.get(t.memories[i]["text"], 0.0), score)
    return Expected([(text, round(score, 3)) for text, score in by_text.items()], highest(1))


def left_out(t: Tables, p: Row) -> Expected:
    now = dt.datetime.now(dt.UTC)
    columns = ("memory_id", "user_visible", "pii", "retention_until")
    found = [m for m in t.memories.values() if m["user_visible"] is False or m["pii"]]
    found += [m for m in t.memories.values() if m["retention_until"] and m["retention_until"] <= now and m not in found]
    return Expected([tuple(m[c] for c in columns) for m in found])


EXPECTED: dict[str, Callable[[Tables, Row], Expected]] = {
    "Which homes": lambda t, p: Expected([(p["home"], t.build_id)]),
    "How many memories": scopes,
    "A memory that an answer cites": cited,
    "What was replaced": replaced,
    "All versions of a fact": versions,
    "What was valid on a day": valid_on_a_day,
    "What do current memories say of a name": says_of_a_name,
    "What is known of a name": known_of_a_name,
    "The most important nodes": important,
    "Nodes by words": lambda t, p: Expected(contains=re.findall(r"\w+", p["name"].lower())),
    "The most used topics": most_used_topics,
    "What a document says": said_by_a_document,
    "What may be outdated": disputes,
    "Memories of which a part ended": ended_in_part,
    "Full text": lambda t, p: Expected(contains=[p["words"]]),
    "Memories near another one": near,
    "Are any two related memories": lambda t, p: Expected(),
    "What `palimpsest query` would leave out": left_out,
}
PATHS = "How are two names connected"


def plain(value: object) -> object:
    """Returns a value of the driver, or of a table, as Python has it: times in UTC, scores to 3 decimals."""
    if isinstance(value, DateTime):
        value = value.to_native()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return round(value, 3) if isinstance(value, float) else value


def assert_rows(title: str, found: list[tuple[Any, ...]], expected: Expected, limit: int) -> None:
    if expected.contains:
        texts = " ".join(str(value).lower() for row in found for value in row)
        assert found and any(word in texts for word in expected.contains), title
        return
    full = [tuple(plain(v) for v in row) for row in expected.rows]
    width = len(full[0]) if full else 0
    found = [tuple(plain(v) for v in row)[:width] for row in found]
    assert len(found) == min(limit, len(full)), title
    assert not Counter(map(repr, found)) - Counter(map(repr, full)), title
    if expected.order is not None:
        wanted = sorted(map(expected.order, full))[:limit]
        assert list(map(expected.order, found)) == wanted, title


def assert_paths(t: Tables, found: list[tuple[Any, ...]], p: Row) -> None:
    """Each path is as short as a search over the tables finds, and leads from one name to the other."""
    starts, ends = ({i for i, n in t.entities.items() if n["name"] == p[k]} for k in ("name", "other"))
    neighbors, seen, steps = t.neighbors(), set(starts), 0
    while not seen & ends and steps < 4:
        seen |= {b for a in seen for b in neighbors[a]}
        steps += 1
    assert found and min(len(names) - 1 for names, _ in found) == steps
    assert all((names[0], names[-1], len(links)) == (p["name"], p["other"], len(names) - 1) for names, links in found)


def recipes() -> Iterator[tuple[str, str]]:
    """Yields the paragraph above each recipe of the page, and the recipe."""
    parts = RECIPE.split(PAGE.read_text(encoding="utf-8"))
    for above, recipe in zip(parts[::2], parts[1::2], strict=False):
        yield above.strip().split("\n\n")[-1], recipe


def assert_recipes(graph, tables: Tables, home: str, numbers: Sequence[int]) -> None:
    """Runs every recipe and compares its rows."""
    graph.read("CALL db.index.fulltext.awaitEventuallyConsistentIndexRefresh()")
    blocks = list(recipes())
    assert len(blocks) == len(EXPECTED) + 1
    for number in numbers:
        parameters = tables.parameters(number) | {"home": home}
        for title, recipe in blocks:
            found = [tuple(r.values()) for r in graph.read(recipe, **parameters)]
            if title.startswith(PATHS):
                assert_paths(tables, found, parameters)
                continue
            (make_expected,) = [f for start, f in EXPECTED.items() if title.startswith(start)]
            limit = re.findall(r"LIMIT (\d+)", recipe)
            assert_rows(title, found, make_expected(tables, parameters), int(limit[-1]) if limit else 10**9)


def with_topics(folder):
    """Returns a build that has rows of everything that the page queries."""
    made = make(folder, "000001", count=30, edited=(4, 6))
    topics = pl.DataFrame([{"topic_id": f"t{i}", **TEST_SCOPE, "label": f"topic {i}"} for i in range(2)])
    topic = {"topic_id": "t0", **TEST_SCOPE, "relevance": 0.5}
    topic_memories = pl.DataFrame([{"memory_id": memory_id(2 * i), **topic} for i in (0, 1)])
    edges = {**TEST_SCOPE, "source_id": "t0", "target_id": "t1", "type": "subtopic_of", "weight": 1.0}
    mentions, entities = made.tables["mentions"], made.tables["entities"]
    second = mentions.filter(memory_id=memory_id(0)).with_columns(entity_id=pl.lit("ann1"))
    about = {"importance": 0.5, "memory_count": 2, "description": "What the notes are about."}
    nodes = [
        *entities.filter(user_id="ann").select("name", "type", "aliases", *SCOPE, node_id="entity_id").to_dicts(),
        *({"node_id": f"t{i}", "name": f"topic {i}", "type": "topic", **TEST_SCOPE} for i in range(2)),
        {"node_id": "p0", "name": "Harbor", "type": "project", **TEST_SCOPE},
    ]
    stated = {**TEST_SCOPE, "subject_id": "ann0", "is_latest": True, "is_negated": False, "modality": "stated"}
    since = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    facts = [
        {"fact_id": "f0", "predicate": "leads", "object_id": "ann1", "memory_ids": [memory_id(0)], **stated},
        {"fact_id": "f1", "predicate": "costs", "value": "40 euros", "memory_ids": [memory_id(1)], **stated},
    ]
    pair = {**TEST_SCOPE, "labeler": "offline", "confidence": 0.6, "likelihood": 0.5}
    relations = [
        pair | {"relation_id": "r0", "newer_id": memory_id(2), "older_id": memory_id(0), "label": "NONE"},
        pair | {"relation_id": "r1", "newer_id": memory_id(10), "older_id": memory_id(8), "label": "UPDATE"},
    ]
    consequences = [{"consequence": "disputed"}, {"consequence": "superseded", "part": "[[0, 6]]"}]
    relations = [r | c for r, c in zip(relations, consequences, strict=True)]
    node_memories = pl.DataFrame([{"node_id": "p0", "memory_id": memory_id(0), **TEST_SCOPE, "relevance": 1.0}])
    # A document took the place of one memory.
    is_replaced = pl.col("memory_id") == memory_id(12)
    by = pl.when(is_replaced).then(pl.lit(content_id("d", 1, "ann"))).otherwise("superseded_by")
    versions = made.tables["versions"].with_columns(is_latest=pl.col("is_latest") & ~is_replaced, superseded_by=by)
    tables = made.tables | {
        "versions": versions,
        "topics": conform("topics", topics),
        "topic_memories": conform("topic_memories", topic_memories),
        "mentions": pl.concat([mentions, second]),
        "relations": pl.concat(
            [made.tables["relations"], conform("relations", pl.DataFrame(relations, infer_schema_length=None))]
        ),
        "nodes": conform("nodes", pl.DataFrame([node | about for node in nodes], infer_schema_length=None)),
        "node_memories": conform("node_memories", node_memories),
        "edges": conform("edges", pl.DataFrame([edges])),
        "facts": conform("facts", pl.DataFrame([f | {"valid_from": since} for f in facts], infer_schema_length=None)),
    }
    return made_of(folder, tables, collections={"made": {}})


def test_every_recipe_returns_what_the_tables_give(graph, tmp_path):
    made, home = with_topics(tmp_path), fresh_home()
    made.load(home, graph)
    assert_recipes(graph, Tables(made.tables, made.build_id, vectors), home, [0])


@pytest.mark.slow
def test_every_recipe_returns_what_the_tables_of_the_demo_give(graph, tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    build = run_without_dagster(home, make_plan(home, [ROOT / "data/corpora"]))
    load_graph(home, build, graph)
    assert check_graph(graph, home_id(home)) == []
    lookups = home_vectors(home, build)
    tables = Tables(build.tables(TABLES), build.build_id, lookups.lookup)
    assert_recipes(graph, tables, home_id(home), [0, 1, 2])
    retired = [m for m in tables.memories.values() if not m["is_latest"]]
    assert retired and all(tables.successor(m) is not None for m in retired)
    doubled = Counter((*(n[c] for c in SCOPE), n["name"].lower()) for n in tables.nodes.values())
    assert max(doubled.values()) == 1
