import datetime as dt

import numpy as np
import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph import graph_rows, neo4j_backend
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend, open_neo4j
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.context.explain import histories
from palimpsest.query.context.pack import neighbor_ids
from palimpsest.query.ranking.rank import rank
from palimpsest.query.request.strategies import STRATEGIES, Weights
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.scope_query import ScopeQuery, TemporalInterpretation
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.questions import parse_question_time
from tests.neo4j_graph.made import Made, fresh_home, make, memory_id, vectors
from tests.query import titled
from tests.query.made import at, history, memory, tables
from tests.query.made import tables as made_tables
from tests.query.test_valid_times import MADE as STATED

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


def test_both_backends_load_the_priors_of_memories_and_the_weights_of_collections(tmp_path, graph):
    header = {"build_id": "000001", "collections": {"notes": {}}, "weights": {"notes": {"recency": 0.5}}}
    tables = titled.made("full", updates=[("m6", "m7")])
    write_index(tables, vectors, tmp_path / "i.duckdb", header)
    duck, neo = both(Made(tables, tmp_path / "i.duckdb", "000001"), graph)
    assert duck.collections() == neo.collections() and neo.collections()["notes"].weights == {"recency": 0.5}
    a, b = (backend.view(Scope("notes", "ana")).priors() for backend in (duck, neo))
    assert np.array_equal(a.observed, b.observed, equal_nan=True) and a.support.tolist() == b.support.tolist()
    assert np.array_equal(a.importance, b.importance, equal_nan=True) and a.support.max() > 0


def test_both_backends_return_the_neighbors_of_a_memory(tmp_path, graph):
    talk = [memory(f"t{i}", f"turn {i}", unit="turn", session_id="s", document_id="d-t", ordinal=i) for i in range(5)]
    page = [memory(f"p{i}", f"part {i}", document_id="d-p", ordinal=i) for i in range(5)]
    tables_ = tables([*talk, *page], updates=[("p4", "p1")])
    write_index(tables_, vectors, tmp_path / "i.duckdb", {"build_id": "000001", "collections": {"notes": {}}})
    duck, neo = both(Made(tables_, tmp_path / "i.duckdb", "000001"), graph)
    for filters in (Filters(), Filters(history=True), Filters(session="s")):
        a, b = (neighbor_ids(ServedScope(store, ANA, filters), ["t2", "p0", "p4"], 2) for store in (duck, neo))
        assert a == b
    assert neighbor_ids(ServedScope(neo, ANA, Filters()), ["p0"], 2) == {"p0": [(2, "p2")]}


def test_the_time_of_a_filter_is_included_on_both_backends(tmp_path, graph):
    duck, neo = both(make(tmp_path, "000001", count=10), graph)
    for filters in AT_THAT_TIME:
        found = duck.seeds(SCOPE, filters, query(), (), 0, 50).ids
        assert memory_id(4) in found and neo.seeds(SCOPE, filters, query(), (), 0, 50).ids == found


@pytest.mark.parametrize("profile", ["full", "fast"])
def test_both_backends_spread_over_the_same_passages(tmp_path, graph, profile):
    tables = titled.made(profile, updates=[("m6", "m7")])
    header = {"build_id": "000001", "strategies": {"notes": "graph"}, "collections": {"notes": {}}}
    write_index(tables, vectors, tmp_path / "i.duckdb", header)
    duck, neo = both(Made(tables, tmp_path / "i.duckdb", "000001"), graph)
    text = "Where was the founder of Port Elm born, in 1990?"
    for filters in (Filters(), Filters(history=True)):
        temporal = TemporalInterpretation(period=parse_question_time(text).period)
        served = (ServedScope(store, ANA, filters) for store in (duck, neo))
        terms, weights = ("born", "elm", "founder"), STRATEGIES["graph"]
        a, b = (rank(ScopeQuery(s, text, query(), terms, weights, temporal=temporal), 1) for s in served)
        assert [c.memory_id for c in a] == [c.memory_id for c in b]
        assert np.allclose([c.score for c in a], [c.score for c in b], atol=1e-6)
        assert [c.path for c in a] == [c.path for c in b] and any(link.via for c in a for link in c.path)


def test_both_backends_give_the_same_memories_links_and_history(made, graph):
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


def test_both_backends_hold_memories_from_their_beginning_until_before_their_end(tmp_path, graph):
    tables = made_tables(STATED)
    write_index(tables, vectors, tmp_path / "i.duckdb", {"build_id": "000001", "collections": {"notes": {}}})
    duck, neo = both(Made(tables, tmp_path / "i.duckdb", "000001"), graph)
    scope, found = Scope("notes", "ana"), []
    for time in (at("2024-01-31"), at("2024-02-01"), at("2024-02-15"), at("2024-03-01"), at("2024-06-01")):
        for edge in (time - dt.timedelta(microseconds=1), time, time.astimezone(dt.timezone(dt.timedelta(hours=9)))):
            for filters in (Filters(as_of=edge), Filters(now=edge)):
                allowed = [np.flatnonzero(store.view(scope).allowed(filters)).tolist() for store in (duck, neo)]
                assert allowed[0] == allowed[1], (filters, allowed)
                found.append(len(allowed[0]))
    assert set(found) == {2, 3}


def test_both_backends_know_when_the_oldest_and_the_newest_memory_were_observed(made, graph):
    duck, neo = both(made, graph)
    assert duck.observed(SCOPE) == neo.observed(SCOPE) == (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), LAST)
    assert duck.observed(Scope("made", "nobody")) is None and neo.observed(Scope("made", "nobody")) is None


def test_the_vector_index_proposes_and_exact_cosines_decide(made, graph, monkeypatch):
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


def test_stored_score_stats_are_those_of_all_cosines(tmp_path, graph, monkeypatch):
    single = make(tmp_path, "000001", count=90, edited=(4,))
    monkeypatch.setattr(graph_rows, "MAX_CACHED_VECTORS", 8)
    monkeypatch.setattr(neo4j_backend, "MAX_CACHED_VECTORS", 8)
    duck, neo = both(single, graph)
    a, b = (d.seeds(SCOPE, Filters(), query(), ("topic", "3"), 1.2, 5) for d in (duck, neo))
    assert a.ids == b.ids
    assert np.allclose(a.vector_stats, b.vector_stats, atol=1e-6)


def test_one_user_never_reaches_anothers_memory(made, graph):
    neo = loaded(made, graph)
    theirs = [memory_id(i) for i in range(1, 90, 2)]
    bob = Scope("made", "bob")
    assert neo.memories(SCOPE, theirs) == {} and len(neo.memories(bob, theirs)) == 45
    assert history(neo, SCOPE, theirs) == {} and neo.neighbors(SCOPE, Filters(), theirs[:5], 20) == []
    mine = rank(scope_query(neo, Filters(), ("note",), STRATEGIES["hybrid"]), 2, 200)
    assert not {c.memory_id for c in mine} & set(theirs)
    assert neo.seeds(Scope("made", "nobody"), Filters(), query(), (), 0, 5).ids == []


def test_names_of_users_are_values_whatever_they_hold(tmp_path, graph):
    users = ("ann", "a\x1fb", "x`}) DETACH DELETE n //", "nul\0")
    duck, neo = both(make(tmp_path, "000001", count=12, users=users), graph)
    assert duck.scopes() == neo.scopes() == sorted(Scope("made", u) for u in users)
    for scope in neo.scopes():
        found = neo.seeds(scope, Filters(), query(), ("note",), 1.0, 50).ids
        assert len(found) == 3 and found == duck.seeds(scope, Filters(), query(), ("note",), 1.0, 50).ids
        assert neo.memories(scope, found) == duck.memories(scope, found)


def test_a_home_that_was_never_loaded_says_what_to_run(graph, tmp_path):
    with pytest.raises(PalimpsestError, match="build --graph"):
        open_neo4j(tmp_path, graph)
    with pytest.raises(PalimpsestError, match="build --graph"):
        Neo4jBackend(fresh_home(), graph)


def test_a_build_that_an_earlier_version_loaded_is_refused_until_it_is_loaded_again(made, graph):
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
    tables = made_tables(made, links=[("m1", "m0", "EXTEND"), ("m2", "m0", "DERIVE"), ("m3", "m2", "UPDATE")])
    again = tables["relations"].head(1).with_columns(relation_id=pl.lit("0"), confidence=pl.lit(0.3))
    newer_of = {"m0": "m1", "m1": "m2", "m3": "m2", "m2": "m5", "m5": "m2", "m6": "document", "m7": "m7"}
    newer = pl.col("memory_id").replace_strict(newer_of, default=None)
    tables |= {
        "relations": pl.concat([tables["relations"], again]),
        "versions": tables["versions"].with_columns(superseded_by=newer, is_latest=newer.is_null()),
    }
    write_index(tables, vectors, tmp_path / "i.duckdb", {"build_id": "000001", "collections": {"notes": {}}})
    duck, neo = both(Made(tables, tmp_path / "i.duckdb", "000001"), graph)
    ids = [f"m{i}" for i in range(8)]
    links = neo.neighbors(ANA, Filters(history=True), ids, 20)
    assert links == duck.neighbors(ANA, Filters(history=True), ids, 20)
    assert [(link.target, link.kind, round(link.weight, 2)) for link in links if link.source == "m0"] == [
        ("m1", "EXTEND", 0.3),
        ("m1", "EXTEND", 0.9),
        ("m2", "DERIVE", 0.9),
    ]
    chains = history(neo, ANA, ids)
    assert chains == history(duck, ANA, ids)
    assert {i: [m.memory_id for m in older] for i, older in chains.items()} == {
        "m1": ["m0"],
        "m2": ["m5", "m3", "m1", "m0"],
        "m5": ["m3", "m2", "m1", "m0"],
    }


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
