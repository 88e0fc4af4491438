"""Both backends: the same memories, scores, filters and answers of one build."""

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE as SCOPE_same_answers
from palimpsest.memories import server_embedder as embedding_server
from palimpsest.neo4j_graph import cypher, graph_rows, neo4j_backend
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.loader import Source, home_vectors, load_source
from palimpsest.neo4j_graph.model import VECTOR_INDEX
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend, open_neo4j
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_index
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.context.explain import histories
from palimpsest.query.context.pack import neighbor_ids
from palimpsest.query.ranking.rank import rank
from palimpsest.query.reader import Reader
from palimpsest.query.request.strategies import STRATEGIES, Weights
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.request.where import parse_where
from palimpsest.query.result import SearchResult
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.scope_query import ScopeQuery, TemporalInterpretation
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.home import Home
from palimpsest.text.questions import parse_question_time
from palimpsest_eval.golden.questions import golden_path, load_golden
from tests.data.demo_corpus import CORPORA, DATA
from tests.memories.embedding_server import EmbeddingServer
from tests.neo4j_graph.made import Made, fresh_home, made_of, make, memory_id, vectors
from tests.query import titled
from tests.query.filtered import HEADER, PASSING, made_tables
from tests.query.made import at, history, memory, rows, tables
from tests.query.test_times import MADE as STATED
from tests.small_corpus import write_chats, write_notes

SCOPE, ANA = Scope("made", "ann"), Scope("notes", "ana")
NOTE_TERMS = ("note", "topic", "4", "correct")
DAY = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
FILTERS = {
    "latest": Filters(),
    "history": Filters(history=True),
    "as of": Filters(as_of=DAY),
    "between": Filters(since=DAY, until=DAY + dt.timedelta(days=20), now=DAY + dt.timedelta(days=400)),
    "session and type": Filters(session="s1", types=("episodic",), tags=("t",)),
    "nothing fits": Filters(session="none"),
}
RANKED = STRATEGIES | {"standing": Weights(recency=0.7, frequency=0.4, importance=0.3)}
SEEN = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)  # when memory 4 was observed, and has been valid from, to the moment
LAST = SEEN + dt.timedelta(days=216)  # when memory 20 was corrected
AT_THAT_TIME = [Filters(since=SEEN), Filters(until=SEEN), Filters(as_of=SEEN), Filters(now=SEEN)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("made"), "000001", count=90, edited=(4, 10, 20), windows=6)


def loaded(made: Made, graph: Connection) -> Neo4jBackend:
    home = fresh_home()
    made.load(home, graph)
    return Neo4jBackend(home, graph)


def both(made: Made, graph: Connection) -> tuple[DuckDBBackend, Neo4jBackend]:
    return DuckDBBackend(made.index), loaded(made, graph)


def query(seed: int = 1) -> np.ndarray:
    return vectors([f"{seed:032x}"])[0]


def scope_query(store: Backend, filters: Filters, terms: tuple[str, ...], weights: Weights) -> ScopeQuery:
    return ScopeQuery(ServedScope(store, SCOPE, filters), "", query(), terms, weights)


def rankings(is_complete: bool) -> list[tuple[str, str, int]]:
    """Returns names of filters and strategies, and hops: each pair of any two of them, or all combinations."""
    named = [(f, s, f_place + s_place) for f_place, f in enumerate(FILTERS) for s_place, s in enumerate(RANKED)]
    return [(f, s, hops) for f, s, place in named for hops in range(3) if is_complete or hops == place % 3]


@pytest.mark.parametrize("is_complete", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_both_backends_rank_the_same_memories_by_the_same_scores(made, graph, is_complete):
    duck, neo = both(made, graph)
    assert duck.scopes() == neo.scopes() and duck.collections() == neo.collections()
    assert duck.build_id == neo.build_id
    for name, strategy, hops in rankings(is_complete):
        served = (scope_query(store, FILTERS[name], NOTE_TERMS, RANKED[strategy]) for store in (duck, neo))
        a, b = (rank(query, hops) for query in served)
        assert [c.memory_id for c in a] == [c.memory_id for c in b], (name, strategy, hops)
        assert np.allclose([c.score for c in a], [c.score for c in b], atol=1e-5)
        assert [c.path for c in a] == [c.path for c in b]
    assert rank(scope_query(neo, FILTERS["nothing fits"], (), STRATEGIES["flat"]), 1) == []


def test_both_backends_return_the_neighbors_of_a_memory(tmp_path, graph):
    talk = [memory(f"t{i}", f"turn {i}", unit="turn", session_id="s", document_id="d-t", ordinal=i) for i in range(5)]
    page = [memory(f"p{i}", f"part {i}", document_id="d-p", ordinal=i) for i in range(5)]
    duck, neo = both(made_of(tmp_path, tables([*talk, *page], updates=[("p4", "p1")])), graph)
    for filters in (Filters(), Filters(history=True), Filters(session="s")):
        a, b = (neighbor_ids(ServedScope(store, ANA, filters), ["t2", "p0", "p4"], 2) for store in (duck, neo))
        assert a == b
    assert neighbor_ids(ServedScope(neo, ANA, Filters()), ["p0"], 2) == {"p0": [(2, "p2")]}


@pytest.mark.parametrize("profile", ["full", "fast"])
def test_both_backends_load_the_same_priors_and_spread_over_the_same_passages(tmp_path, graph, profile):
    header = {"strategies": {"notes": "graph"}, "weights": {"notes": {"recency": 0.5}}}
    duck, neo = both(made_of(tmp_path, titled.made(profile, updates=[("m6", "m7")]), **header), graph)
    assert duck.collections() == neo.collections() and neo.collections()["notes"].weights == {"recency": 0.5}
    a, b = (backend.view(ANA).priors() for backend in (duck, neo))
    assert np.array_equal(a.observed, b.observed, equal_nan=True) and a.support.tolist() == b.support.tolist()
    assert np.array_equal(a.importance, b.importance, equal_nan=True) and a.support.max() > 0
    text = "Where was the founder of Port Elm born, in 1990?"
    for filters in (Filters(), Filters(history=True)):
        temporal = TemporalInterpretation(period=parse_question_time(text).period)
        served = (ServedScope(store, ANA, filters) for store in (duck, neo))
        terms, weights = ("born", "elm", "founder"), STRATEGIES["graph"]
        a, b = (rank(ScopeQuery(s, text, query(), terms, weights, temporal=temporal), 1) for s in served)
        assert [c.memory_id for c in a] == [c.memory_id for c in b]
        assert np.allclose([c.score for c in a], [c.score for c in b], atol=1e-6)
        assert [c.path for c in a] == [c.path for c in b] and any(link.via for c in a for link in c.path)


def test_both_backends_give_the_same_memories_links_history_and_times_and_nothing_of_another_user(made, graph):
    duck, neo = both(made, graph)
    ids = [memory_id(i) for i in range(0, 90, 2)] + [memory_id(4, " corrected")]
    assert duck.memories(SCOPE, ids) == neo.memories(SCOPE, ids)
    assert len(neo.memories(SCOPE, ids)) == 46
    links = duck.neighbors(SCOPE, Filters(), ids[:6], 20)
    assert links == neo.neighbors(SCOPE, Filters(), ids[:6], 20) and links
    for filters in FILTERS.values():
        for n in (0, 2, 20):
            assert duck.neighbors(SCOPE, filters, ids, n) == neo.neighbors(SCOPE, filters, ids, n)
    newer = [memory_id(4, " corrected"), memory_id(6)]
    assert history(duck, SCOPE, newer) == history(neo, SCOPE, newer)
    assert [m.memory_id for m in history(neo, SCOPE, newer)[newer[0]]] == [memory_id(4)]
    reasons = duck.reasons(SCOPE, ids)
    assert reasons == neo.reasons(SCOPE, ids) and list(reasons) == [memory_id(4), memory_id(10), memory_id(20)]
    a, b = (histories(ServedScope(store, SCOPE, Filters()), ids) for store in (duck, neo))
    assert a == b and a
    assert neo.reasons(Scope("made", "nobody"), ids) == {}
    assert duck.observed(SCOPE) == neo.observed(SCOPE) == (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), LAST)
    assert duck.observed(Scope("made", "nobody")) is None and neo.observed(Scope("made", "nobody")) is None
    theirs = [memory_id(i) for i in range(1, 90, 2)]
    bob = Scope("made", "bob")
    assert neo.memories(SCOPE, theirs) == {} and len(neo.memories(bob, theirs)) == 45
    assert history(neo, SCOPE, theirs) == {} and neo.neighbors(SCOPE, Filters(), theirs[:5], 20) == []
    mine = rank(scope_query(neo, Filters(), ("note",), STRATEGIES["hybrid"]), 2, 200)
    assert not {c.memory_id for c in mine} & set(theirs)
    assert neo.seeds(Scope("made", "nobody"), Filters(), query(), (), 0, 5).ids == []


def test_both_backends_hold_memories_from_their_beginning_until_before_their_end(tmp_path, graph):
    duck, neo = both(made_of(tmp_path, tables(STATED)), graph)
    scope, found = Scope("notes", "ana"), []
    for time in (at("2024-01-31"), at("2024-02-01"), at("2024-02-15"), at("2024-03-01"), at("2024-06-01")):
        for edge in (time - dt.timedelta(microseconds=1), time, time.astimezone(dt.timezone(dt.timedelta(hours=9)))):
            for filters in (Filters(as_of=edge), Filters(now=edge)):
                allowed = [np.flatnonzero(store.view(scope).allowed(filters)).tolist() for store in (duck, neo)]
                assert allowed[0] == allowed[1], (filters, allowed)
                found.append(len(allowed[0]))
    assert set(found) == {2, 3}


def test_a_large_scope_is_ranked_by_the_vector_index_with_exact_cosines_and_stored_stats(
    made, graph, monkeypatch, tmp_path
):
    """A scope too large for its reader to hold takes the other path; here 45 memories are too many."""
    duck = DuckDBBackend(made.index)
    monkeypatch.setattr(graph_rows, "MAX_CACHED_VECTORS", 8)
    monkeypatch.setattr(neo4j_backend, "MAX_CACHED_VECTORS", 8)
    neo = loaded(made, graph)
    for seed in range(5):
        for filters in (Filters(), Filters(history=True), Filters(session="s1")):
            a = duck.seeds(SCOPE, filters, query(seed), ("topic", "3"), 0.0, 5)
            b = neo.seeds(SCOPE, filters, query(seed), ("topic", "3"), 0.0, 5)
            assert a.ids == b.ids and a.candidates == b.candidates
            assert np.allclose(a.vector, b.vector, atol=1e-6) and np.allclose(a.words, b.words)
            assert np.allclose(a.words_stats, b.words_stats)
    assert neo.view(SCOPE) is None
    ids = [memory_id(4, " corrected"), *(memory_id(i) for i in range(0, 90, 2)), memory_id(1), "unknown"]
    for filters in FILTERS.values():
        assert duck.neighbors(SCOPE, filters, ids, 20) == neo.neighbors(SCOPE, filters, ids, 20)
        assert duck.passing(SCOPE, filters, ids) == neo.passing(SCOPE, filters, ids)
    assert history(duck, SCOPE, ids) == history(neo, SCOPE, ids) != {}
    single = make(tmp_path, "000001", count=90, edited=(4,))
    duck, neo = both(single, graph)
    a, b = (d.seeds(SCOPE, Filters(), query(), ("topic", "3"), 1.2, 5) for d in (duck, neo))
    assert a.ids == b.ids
    assert np.allclose(a.vector_stats, b.vector_stats, atol=1e-6)


def test_names_of_users_are_values_whatever_they_hold(tmp_path, graph):
    users = ("ann", "a\x1fb", "x`}) DETACH DELETE n //", "nul\0")
    duck, neo = both(make(tmp_path, "000001", count=12, users=users), graph)
    assert duck.scopes() == neo.scopes() == sorted(Scope("made", u) for u in users)
    for scope in neo.scopes():
        found = neo.seeds(scope, Filters(), query(), ("note",), 1.0, 50).ids
        assert len(found) == 3 and found == duck.seeds(scope, Filters(), query(), ("note",), 1.0, 50).ids
        assert neo.memories(scope, found) == duck.memories(scope, found)


def test_a_home_that_was_never_loaded_or_by_an_earlier_version_is_refused(graph, tmp_path, made):
    with pytest.raises(PalimpsestError, match="build --graph"):
        open_neo4j(tmp_path, graph)
    with pytest.raises(PalimpsestError, match="build --graph"):
        Neo4jBackend(fresh_home(), graph)
    """What its scopes are packed as is another format: hops and history would be silently empty."""
    home = fresh_home()
    made.load(home, graph)
    graph.write("MATCH (b:PalimpsestBuild {home_id: $home}) REMOVE b.format", home=home)
    with pytest.raises(PalimpsestError, match="loaded by another version; run palimpsest build --graph"):
        Neo4jBackend(home, graph)
    made.load(home, graph)
    assert Neo4jBackend(home, graph).scopes()


def test_relations_and_replacements_of_any_shape_are_followed_alike(tmp_path, graph):
    """Two relations of one pair, a chain, a fork, a cycle, and a memory that a document version replaced."""
    made = [memory(f"m{i}", f"Fact {i} of the bees.", observed_at=at(f"2026-01-0{i + 1}")) for i in range(8)]
    frames = tables(made, links=[("m1", "m0", "EXTEND"), ("m2", "m0", "DERIVE"), ("m3", "m2", "UPDATE")])
    again = frames["relations"].head(1).with_columns(relation_id=pl.lit("0"), confidence=pl.lit(0.3))
    newer_of = {"m0": "m1", "m1": "m2", "m3": "m2", "m2": "m5", "m5": "m2", "m6": "document", "m7": "m7"}
    newer = pl.col("memory_id").replace_strict(newer_of, default=None)
    versions = frames["versions"].with_columns(superseded_by=newer, is_latest=newer.is_null())
    frames |= {"relations": pl.concat([frames["relations"], again]), "versions": versions}
    duck, neo = both(made_of(tmp_path, frames), graph)
    ids = [f"m{i}" for i in range(8)]
    links = neo.neighbors(ANA, Filters(history=True), ids, 20)
    assert links == duck.neighbors(ANA, Filters(history=True), ids, 20)
    found = [(link.target, link.kind, round(link.weight, 2)) for link in links if link.source == "m0"]
    assert found == [("m1", "EXTEND", 0.3), ("m1", "EXTEND", 0.9), ("m2", "DERIVE", 0.9)]
    chains = history(neo, ANA, ids)
    assert chains == history(duck, ANA, ids)
    assert {i: [m.memory_id for m in older] for i, older in chains.items()} == {
        "m1": ["m0"],
        "m2": ["m5", "m3", "m1", "m0"],
        "m5": ["m3", "m2", "m1", "m0"],
    }


def test_history_reads_memories_alone_and_no_version_of_a_document(tmp_path, graph, monkeypatch):
    made = [memory(f"m{i}", f"Fact {i} of the bees.", observed_at=at(f"2026-01-0{i + 1}")) for i in range(3)]
    frames = tables(made, updates=[("m1", "m0")])
    newer = pl.when(memory_id="m1").then(pl.lit("d-m2")).otherwise("superseded_by")
    versions = frames["versions"].with_columns(superseded_by=newer).with_columns(is_latest=newer.is_null())
    made_build = made_of(tmp_path, frames | {"versions": versions})
    reads = []
    for backend in both(made_build, graph):
        read, of_backend = backend.memories, []
        monkeypatch.setattr(backend, "memories", lambda s, ids, r=read, o=of_backend: o.append({*ids}) or r(s, ids))
        found = Reader(backend).search("Which fact of the bees?", ANA, history=True)
        assert [v.memory.memory_id for v in found.versions["m0"]] == ["m1", "m0"]
        assert found.versions["m0"][0].why.kind == "replaced"
        reads.append(of_backend)
    assert reads == [[{"m0", "m1", "m2"}]] * 2


def test_memories_of_a_document_of_which_one_version_has_none_of_its_own(graph, tmp_path):
    """What was edited and edited back leaves such a version: its memories are those of the version before."""
    home, made = fresh_home(), make(tmp_path, "000001")
    documents = made.tables["documents"]
    bare = documents.with_columns(document_id=pl.col("document_id").str.reverse(), is_current=pl.lit(False))
    made.tables["documents"] = pl.concat([documents, bare])
    made.load(home, graph)
    ann = Scope("made", "ann")
    ids = made.tables["memories"].filter(user_id="ann")["memory_id"].to_list()
    assert sorted(Neo4jBackend(home, graph).memories(ann, ids)) == sorted(ids)


def test_the_time_of_a_filter_is_included_on_both_backends(tmp_path, graph):
    duck, neo = both(make(tmp_path, "000001", count=10), graph)
    for filters in AT_THAT_TIME:
        found = duck.seeds(SCOPE, filters, query(), (), 0, 50).ids
        assert memory_id(4) in found and neo.seeds(SCOPE, filters, query(), (), 0, 50).ids == found


def test_both_backends_filter_by_the_same_fields(tmp_path, graph):
    duck, neo = both(made_of(tmp_path, made_tables(), **HEADER), graph)
    assert duck.field_kinds(ANA, Filters()) == neo.field_kinds(ANA, Filters()) and neo.collections()["notes"].fields
    given = [Filters(where=parse_where(where)) for where, _ in PASSING]
    given += [Filters(types=("task", "x")), Filters(tags=("urgent", "old")), Filters(accessed=frozenset({"m2", "b1"}))]
    wanted = [passing for _, passing in PASSING] + ["m2", "m2 m3", "m2"]
    day = dt.datetime(2024, 2, 2)  # m3 was said on the day before by the clock of its speaker, and on this day in UTC
    given += [Filters(since=day), Filters(since=day.replace(tzinfo=dt.UTC))]
    wanted += ["", "m3"]
    for filters, passing in zip(given, wanted, strict=True):
        for store in (duck, neo):
            assert " ".join(store.seeds(ANA, filters, query(), (), 0, 50).ids) == passing, filters
            assert store.passing(ANA, filters, ["m1", "m2", "m3", "m4", "m5", "b1"]) == set(passing.split())
    for store in (duck, neo):
        assert str(store.memories(ANA, ["m3"])["m3"].observed_at) == "2024-02-01 23:30:00-08:00"


def test_a_large_scope_of_neo4j_is_filtered_by_fields(tmp_path, graph, monkeypatch):
    for module in (neo4j_backend, graph_rows):
        monkeypatch.setattr(module, "MAX_CACHED_VECTORS", 4)
    _, neo = both(made_of(tmp_path, made_tables(), **HEADER), graph)
    assert neo.view(ANA) is None
    filters = Filters(where=parse_where('category = "academic" or tags = "old"'))
    assert neo.seeds(ANA, filters, query(), (), 0, 50).ids == ["m1", "m2", "m3"]


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
ENDED = {"retention_until": at("2026-04-01")}
CANARIES = {"general": GENERAL, "alpha": ALPHA, "beta": BETA}


def _memories() -> list[dict[str, object]]:
    out = []
    for project, day in (("", 1), ("alpha", 2), ("beta", 3)):
        canary, about = f"zq{project or 'general'}", {"project_id": project}
        january = {"observed_at": at("2026-01-01")}
        facts = (
            ("old", f"The door code is 111{day} {canary}.", january | {"session_id": "s1"}),
            ("new", f"The door code is 222{day} {canary}.", {"observed_at": at("2026-02-01"), "tags": ["code"]}),
            ("expired", f"The alarm code is 333{day} {canary} zqexpired.", january | ENDED),
            ("hidden", f"The safe code is 444{day} {canary} zqhidden.", january | {"user_visible": False}),
            ("person", f"The pass code of Mia is 555{day} {canary} zqpii.", january | {"pii": True}),
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
    home, made = fresh_home(), made_of(folder, frames, collections={"notes": settings})
    made.load(home, graph)
    stores = DuckDBBackend(made.index), Neo4jBackend(home, graph)
    return Reader(stores[0], clock=lambda: TODAY), Reader(stores[1], clock=lambda: TODAY)


def _dispute(made: list[dict[str, object]], newer: str, older: str) -> pl.DataFrame:
    scope = next({n: m[n] for n in SCOPE_same_answers} for m in made if m["memory_id"] == newer)
    ids = {"relation_id": f"{newer}?{older}", "newer_id": newer, "older_id": older, "label": "NONE", "confidence": 0.5}
    return rows("relations", {**scope, **ids, "labeler": "offline", "consequence": "disputed", "likelihood": 0.5})


@pytest.fixture
def readers(graph, tmp_path):
    updates = [(f"{p}-new", f"{p}-old") for p in ("", "alpha", "beta")]
    mentions = [(f"{p}-{n}", f"code{p}") for p in ("", "alpha", "beta") for n in ("old", "new", "hidden", "undated")]
    disputes = [(f"{p}-undated", f"{p}-new") for p in ("", "alpha", "beta")]
    yield _pair(tmp_path, graph, _memories(), disputes=disputes, updates=updates, mentions=mentions)


def _comparable(results: SearchResult) -> tuple[object, ...]:
    found = [(m.memory_id, round(m.score, 4), m.is_latest, m.project_id) for m in results.memories]
    return found, results.context, results.versions, [(m.text, m.disputed_by, m.later) for m in results.memories]


def test_both_backends_give_the_same_answers_to_every_request_and_nothing_of_another_project_or_withheld(
    readers,
):
    duck, neo = readers
    assert any(m.disputed_by for m in neo.search("What is the door code?", GENERAL, k=10).memories)
    for options in OPTIONS:
        door, old = "What is the door code?", "Which code is there of old?"
        for scope, text in ((GENERAL, door), (ALPHA, old), ([ALPHA, GENERAL], door), ([ALPHA, GENERAL], old)):
            a, b = (r.search(text, scope, k=10, **options) for r in (duck, neo))
            assert _comparable(a) == _comparable(b), (options, scope)
    for scope in CANARIES.values():
        ids = [f"{scope.project_id}-{n}" for n in ("old", "new", "expired", "hidden", "person", "undated")]
        for filters in ({}, {"include_hidden": True, "include_pii": True}):
            a, b = ([r.history_of(scope, i, **filters) for i in ids] for r in (duck, neo))
            assert a == b
        assert [duck.memory_with_changes(scope, i) for i in ids] == [neo.memory_with_changes(scope, i) for i in ids]
    for name, scope in CANARIES.items():
        others = [f"zq{n}" for n in CANARIES if n != name]
        for options in OPTIONS:
            answer = repr(neo.search("What is the door code, and which are the other codes?", scope, k=10, **options))
            assert not [canary for canary in (*others, "zqexpired") if canary in answer], (name, options)
            assert "zqhidden" not in answer or options.get("include_hidden")
            assert "zqpii" not in answer or options.get("include_pii")
    backend = neo._backend
    theirs = ["beta-old", "beta-new", "-new"]
    assert backend.memories(ALPHA, theirs) == {} and history(backend, ALPHA, theirs) == {}
    assert backend.neighbors(ALPHA, Filters(history=True), theirs, 20) == []
    assert backend.passing(ALPHA, Filters(history=True), theirs) == set() and backend.reasons(ALPHA, theirs) == {}
    for text in ("What is the door code?", "What is the door code of Quirinus?", "Who painted the portrait of 1850?"):
        a, b = (r.search(text, GENERAL, abstain=True) for r in (duck, neo))
        assert (a.abstained, _comparable(a)) == (b.abstained, _comparable(b)), text


def test_both_backends_judge_golden_questions_alike(graph, tmp_path):
    turns = [json.loads(line) for file in sorted((CORPORA / "diary/mira").glob("*.jsonl")) for line in file.open()]
    times = [dt.datetime.fromisoformat(t["timestamp"]) for t in turns]
    made = [
        memory(f"t{i:03}", t["text"], observed_at=time, ordinal=i, speaker=t["speaker"])
        for i, (t, time) in enumerate(zip(turns, times, strict=True))
    ]
    duck, neo = _pair(tmp_path, graph, made)
    golden = [q for q in load_golden(golden_path(DATA, "diary")) if q.user in (None, "mira")]
    judged = {
        q.id: [[(m.memory_id, m.relevance) for m in r.search(q.question, GENERAL).memories] for r in (duck, neo)]
        for q in golden
    }
    assert len(golden) > 90
    assert all([i for i, _ in a] == [i for i, _ in b] for a, b in judged.values())


def test_both_backends_join_formed_memories_with_their_evidence(graph, tmp_path):
    said = {"tea": "I prefer tea over coffee.", "jam": "The printer jams.", "fix": "Cleaning the rollers fixed it."}
    said["rain"] = "It rained."
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


@pytest.mark.slow
def test_each_space_has_an_index_and_both_backends_answer_alike(graph, tmp_path, shared_vectors, monkeypatch):
    with EmbeddingServer() as running:
        monkeypatch.setenv(embedding_server.URL, running.url)
        embedding_server.load_server.cache_clear()
        corpus = write_chats(tmp_path / "corpus")
        write_notes(corpus, {"a.md": "Ann keeps bees on the roof."}, user_id="ann", embedder="openai:toy")
        home = Home(tmp_path / "home", shared_vectors)
        build = run_without_dagster(home, make_plan(home, [corpus]))
        name = fresh_home()
        load_source(name, Source.of(build), home_vectors(home, build), graph)
        assert check_graph(graph, name) == []
        indexes = {
            r["name"]: r["options"]["indexConfig"] for r in graph.read(cypher.INDEX_STATES) if r["type"] == "VECTOR"
        }
        (own,) = [i for i in indexes if i.startswith(f"{VECTOR_INDEX}_") and not i.endswith(name)]
        assert indexes[own]["vector.dimensions"] == 8 and indexes[VECTOR_INDEX]["vector.dimensions"] == 384
        counts = "MATCH (n:PalimpsestVector {home_id: $home}) RETURN count(n) AS n"
        assert graph.read(counts, home=name)[0]["n"] == 5  # the chats; the note has the other space's label
        with open_index(build.index) as files:
            scopes = files.resolve_scopes(user="ann", all_collections=True)
            served = Reader(Neo4jBackend(name, graph))
            for question in ("Who keeps bees?", "When is the deadline of project Heron?"):
                expected, found = files.search(question, scopes, k=4), served.search(question, scopes, k=4)
                assert [m.memory_id for m in found.memories] == [m.memory_id for m in expected.memories]
                assert [m.score for m in found.memories] == pytest.approx(
                    [m.score for m in expected.memories], abs=1e-5
                )
        assert load_source(name, Source.of(build), home_vectors(home, build), graph).writes == 0
    embedding_server.load_server.cache_clear()
