"""Whole answers of both backends over one build with projects, withheld and undated memories, and history."""

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from palimpsest.core.ids import SCOPE
from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.reader import Reader
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.result import SearchResult
from palimpsest_eval.golden.questions import golden_path, load_golden
from tests.data.demo_corpus import CORPORA, DATA
from tests.neo4j_graph.made import Made, fresh_home, vectors
from tests.query.made import at, history, memory, rows, tables

GENERAL, ALPHA, BETA = Scope("notes", "ana"), Scope("notes", "ana", "alpha"), Scope("notes", "ana", "beta")
TODAY = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
OPTIONS = [
    {},
    {"strategy": "flat"},
    {"strategy": "graph"},
    {"history": True},
    {"explain": True, "hops": 2},
    {"as_of": "2026-02-15"},
    {"as_of": "1900-01-01"},
    {"now": "2030-01-01"},
    {"since": "2026-02-01"},
    {"until": "2026-02-01"},
    {"include_hidden": True},
    {"include_pii": True},
    {"session": "s1"},
    {"tags": ["code"]},
    {"types": ["summary"]},
    {"history": True, "include_hidden": True, "include_pii": True},
    {"turns": ["Where is the bike?", "In the yard."], "brief": "Getting the bike out", "paths": ["old.md"]},
]
CANARIES = {"general": GENERAL, "alpha": ALPHA, "beta": BETA}


def _memories() -> list[dict[str, object]]:
    out = []
    for project, day in (("", 1), ("alpha", 2), ("beta", 3)):
        canary, about = f"zq{project or 'general'}", {"project_id": project}
        facts = (
            ("old", f"The door code is 111{day} {canary}.", {"observed_at": at("2026-01-01"), "session_id": "s1"}),
            ("new", f"The door code is 222{day} {canary}.", {"observed_at": at("2026-02-01"), "tags": ["code"]}),
            (
                "expired",
                f"The alarm code is 333{day} {canary} zqexpired.",
                {"observed_at": at("2026-01-01"), "retention_until": at("2026-04-01")},
            ),
            (
                "hidden",
                f"The safe code is 444{day} {canary} zqhidden.",
                {"observed_at": at("2026-01-01"), "user_visible": False},
            ),
            (
                "person",
                f"The pass code of Mia is 555{day} {canary} zqpii.",
                {"observed_at": at("2026-01-01"), "pii": True},
            ),
            ("undated", f"The bike code is 666{day} {canary}.", {"type": "summary"}),
        )
        out += [memory(f"{project}-{name}", text, **about, **more) for name, text, more in facts]
    return out


def _pair(
    folder: Path,
    graph: Connection,
    made: list[dict[str, object]],
    settings: dict[str, object] | None = None,
    disputes: Sequence[tuple[str, str]] = (),
    **relations: object,
) -> tuple[Reader, Reader]:
    frames, settings = tables(made, **relations), settings or {}
    frames["relations"] = pl.concat([frames["relations"], *(_dispute(made, *pair) for pair in disputes)])
    known = pl.lit(at("2026-03-01")).cast(frames["memories"].schema["created_at"])
    frames["memories"] = frames["memories"].with_columns(created_at=known, updated_at=known)
    write_index(frames, vectors, folder / "i.duckdb", {"build_id": "000001", "collections": {"notes": settings}})
    home = fresh_home()
    Made(frames, folder / "i.duckdb", "000001").load(home, graph)
    stores = DuckDBBackend(folder / "i.duckdb"), Neo4jBackend(home, graph)
    return Reader(stores[0], clock=lambda: TODAY), Reader(stores[1], clock=lambda: TODAY)


def _dispute(made: list[dict[str, object]], newer: str, older: str) -> pl.DataFrame:
    scope = next({n: m[n] for n in SCOPE} for m in made if m["memory_id"] == newer)
    ids = {"relation_id": f"{newer}?{older}", "newer_id": newer, "older_id": older, "label": "NONE", "confidence": 0.5}
    return rows("relations", {**scope, **ids, "labeler": "offline", "consequence": "disputed", "likelihood": 0.5})


@pytest.fixture
def both(graph, tmp_path):
    updates = [(f"{p}-new", f"{p}-old") for p in ("", "alpha", "beta")]
    mentions = [(f"{p}-{n}", f"code{p}") for p in ("", "alpha", "beta") for n in ("old", "new", "hidden", "undated")]
    disputes = [(f"{p}-undated", f"{p}-new") for p in ("", "alpha", "beta")]
    yield _pair(tmp_path, graph, _memories(), disputes=disputes, updates=updates, mentions=mentions)


def _comparable(results: SearchResult) -> tuple[object, ...]:
    found = [(m.memory_id, round(m.score, 4), m.is_latest, m.project_id) for m in results.memories]
    return found, results.context, results.versions, [(m.text, m.disputed_by, m.later) for m in results.memories]


def test_both_backends_give_the_same_answers_to_every_request(both):
    duck, neo = both
    assert any(m.disputed_by for m in neo.search("What is the door code?", GENERAL, k=10).memories)
    for options in OPTIONS:
        for scope in (GENERAL, ALPHA, [ALPHA, GENERAL]):
            for text in ("What is the door code?", "Which code is there of old?"):
                a, b = (r.search(text, scope, k=10, **options) for r in (duck, neo))
                assert _comparable(a) == _comparable(b), (options, scope)
    for scope in CANARIES.values():
        ids = [f"{scope.project_id}-{n}" for n in ("old", "new", "expired", "hidden", "person", "undated")]
        for filters in ({}, {"include_hidden": True, "include_pii": True}):
            assert [duck.history_of(scope, i, **filters) for i in ids] == [
                neo.history_of(scope, i, **filters) for i in ids
            ]
        assert [duck.memory_with_changes(scope, i) for i in ids] == [neo.memory_with_changes(scope, i) for i in ids]


def test_neo4j_shows_nothing_of_another_project_and_nothing_withheld(both):
    _, neo = both
    for name, scope in CANARIES.items():
        others = [f"zq{n}" for n in CANARIES if n != name]
        for options in OPTIONS:
            answer = repr(neo.search("What is the door code, and which are the other codes?", scope, k=10, **options))
            assert not [canary for canary in (*others, "zqexpired") if canary in answer], (name, options)
            assert "zqhidden" not in answer or options.get("include_hidden")
            assert "zqpii" not in answer or options.get("include_pii")


def test_ids_of_another_project_are_answered_like_ids_that_do_not_exist(both):
    backend = both[1]._backend
    theirs = ["beta-old", "beta-new", "-new"]
    assert backend.memories(ALPHA, theirs) == {} and history(backend, ALPHA, theirs) == {}
    assert backend.neighbors(ALPHA, Filters(history=True), theirs, 20) == []
    assert backend.passing(ALPHA, Filters(history=True), theirs) == set() and backend.reasons(ALPHA, theirs) == {}


def test_both_backends_judge_golden_questions_alike(graph, tmp_path):
    turns = [json.loads(line) for file in sorted((CORPORA / "diary/mira").glob("*.jsonl")) for line in file.open()]
    made = [
        memory(
            f"t{i:03}",
            t["text"],
            observed_at=dt.datetime.fromisoformat(t["timestamp"]),
            ordinal=i,
            speaker=t["speaker"],
        )
        for i, t in enumerate(turns)
    ]
    duck, neo = _pair(tmp_path, graph, made)
    golden = [q for q in load_golden(golden_path(DATA, "diary")) if q.user in (None, "mira")]
    judged = {
        q.id: [[(m.memory_id, m.relevance) for m in r.search(q.question, GENERAL).memories] for r in (duck, neo)]
        for q in golden
    }
    assert len(golden) > 90
    assert all([i for i, _ in a] == [i for i, _ in b] for a, b in judged.values())


def test_both_backends_abstain_from_the_same_questions(both):
    for text in ("What is the door code?", "What is the door code of Quirinus?", "Who painted the portrait of 1850?"):
        a, b = (r.search(text, GENERAL, abstain=True) for r in both)
        assert (a.abstained, _comparable(a)) == (b.abstained, _comparable(b)), text


def test_both_backends_join_formed_memories_with_their_evidence(graph, tmp_path):
    said = {
        "tea": "I prefer tea over coffee.",
        "jam": "The printer jams.",
        "fix": "Cleaning the rollers fixed it.",
        "rain": "It rained.",
    }
    made = [memory(i, text, unit="turn", observed_at=at("2026-01-01")) for i, text in said.items()]
    made += [
        memory("f-tea", "Ana prefers tea over coffee.", unit="reflection", observed_at=at("2026-01-01")),
        memory("f-fix", f"Ana says: {said['jam']} {said['fix']}", unit="reflection", observed_at=at("2026-01-01")),
    ]
    links = [("f-tea", "tea", "DERIVE"), ("f-fix", "jam", "DERIVE"), ("f-fix", "fix", "DERIVE")]
    readers = _pair(tmp_path, graph, made, {"has_formed": True}, links=links)
    for text in ("What does Ana prefer to drink?", "What fixed the printer?"):
        duck, neo = (_comparable(r.search(text, GENERAL, k=5)) for r in readers)
        assert duck == neo
        shown = [found[0] for found in duck[0]]
        assert "f-tea" not in shown and "tea" in shown and "f-fix" in shown
