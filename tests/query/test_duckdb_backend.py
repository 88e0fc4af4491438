from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends import duckdb_backend, duckdb_scope
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.backends.duckdb_scope import rows_statement
from palimpsest.query.embed_query import query_embedder
from palimpsest.query.request.types import Filters, Scope
from palimpsest.text.terms import query_terms
from tests.query.made import at, history, memory, rows, tables, write

ANA, BEN = Scope("notes", "ana"), Scope("notes", "ben")
MADE = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01"), session_id="s1", tags=["x"]),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01"), type="episodic"),
    memory("m3", "The launch is on Sunday, finally.", observed_at=at("2024-03-01")),
    memory("m4", "I keep bees and sell honey."),
    memory("m5", "Bring honey cake to the launch party.", observed_at=at("2024-02-10"), speaker="Ana", page=3),
    memory("b1", "Ben's launch is secret: zyxquor.", user_id="ben"),
]
UPDATES = [("m2", "m1"), ("m3", "m2")]


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "i.duckdb"
    mentions = [
        ("m4", "Honey"),
        ("m5", "Honey"),
        ("m3", "Launch"),
        ("m5", "Launch"),
        ("b1", "Launch"),
        ("m1", "Launch"),
    ]
    write(tables(MADE, UPDATES, [("m5", "m4", "EXTEND")], mentions), path)
    backend = DuckDBBackend(path)
    yield backend
    backend.close()


def find_seeds(backend, text, filters=None, scope=ANA, weight=1.0, n=10):
    return backend.seeds(scope, filters or Filters(), query_embedder().embed(text), query_terms(text), weight, n)


def test_seeds_have_the_exact_scores_of_latest_memories_and_their_stats(backend):
    seeds = find_seeds(backend, "when is the launch?")
    assert seeds.ids == ["m3", "m4", "m5"] and seeds.candidates == 3
    texts = {m["memory_id"]: m["text"] for m in MADE}
    e = query_embedder().embed
    expected = [float(e(texts[i]) @ e("when is the launch?")) for i in seeds.ids]
    assert seeds.vector == pytest.approx(expected, abs=1e-6)
    assert seeds.vector_stats == pytest.approx((np.mean(expected), np.std(expected)), abs=1e-6)
    assert seeds.words[1] == 0 < min(seeds.words[0], seeds.words[2])
    assert seeds.words_stats == pytest.approx((seeds.words.mean(), seeds.words.std()))


def test_n_best_by_the_fused_score_are_returned(backend):
    everything = find_seeds(backend, "honey", Filters(history=True), weight=1.2)
    z = lambda x, of: (x - of.mean) / of.std  # noqa: E731
    fused = z(everything.vector, everything.vector_stats) + 1.2 * z(everything.words, everything.words_stats)
    best = {everything.ids[i] for i in np.argsort(-fused)[:2]}
    assert set(find_seeds(backend, "honey", Filters(history=True), weight=1.2, n=2).ids) == best


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["m3", "m4", "m5"]),
        ({"history": True}, ["m1", "m2", "m3", "m4", "m5"]),
        ({"history": True, "session": "s1"}, ["m1"]),
        ({"history": True, "types": ("episodic",)}, ["m2"]),
        ({"history": True, "tags": ("x",)}, ["m1"]),
        ({"tags": ("x",)}, []),
        ({"history": True, "since": at("2024-02-10")}, ["m3", "m5"]),
        ({"history": True, "until": at("2024-02-01")}, ["m1", "m2"]),
        ({"as_of": at("2023-12-31")}, ["m4"]),
        ({"as_of": at("2024-01-15")}, ["m1", "m4"]),
        ({"as_of": at("2024-02-01")}, ["m2", "m4"]),
        ({"as_of": at("2024-02-20")}, ["m2", "m4", "m5"]),
        ({"as_of": at("2024-05-01")}, ["m3", "m4", "m5"]),
        ({"now": at("2024-02-20")}, ["m4", "m5"]),
    ],
)
def test_filters_choose_the_candidates(backend, filters, expected):
    assert find_seeds(backend, "launch", Filters(**filters)).ids == expected


def test_a_scope_sees_only_its_own_words_vectors_links_and_memories(backend):
    assert find_seeds(backend, "zyxquor", Filters(history=True)).words.sum() == 0
    assert "b1" not in find_seeds(backend, "secret launch", Filters(history=True)).ids
    assert backend.memories(ANA, ["b1", "m1"]).keys() == {"m1"}
    assert backend.neighbors(BEN, Filters(), ["b1"], 10) == []
    assert history(backend, BEN, ["m3"]) == {}


def test_a_scope_that_the_build_does_not_know_has_no_candidates(backend):
    nobody = Scope("notes", "nobody")
    assert find_seeds(backend, "launch", scope=nobody).ids == []
    assert backend.neighbors(nobody, Filters(), ["m1"], 5) == []
    assert backend.memories(nobody, ["m1"]) == {} == history(backend, nobody, ["m1"])


def test_links_follow_extend_both_ways_update_only_to_the_newer_and_idf_weight_entities(backend):
    found = {
        (link.source, link.target, link.kind, link.via)
        for link in backend.neighbors(ANA, Filters(history=True), ["m1", "m4", "m5"], 10)
    }
    assert found == {
        ("m1", "m2", "UPDATE", ""),
        ("m5", "m4", "EXTEND", ""),
        ("m4", "m5", "EXTEND", ""),
        ("m4", "m5", "entity", "Honey"),
        ("m5", "m4", "entity", "Honey"),
        ("m1", "m3", "entity", "Launch"),
        ("m1", "m5", "entity", "Launch"),
        ("m5", "m1", "entity", "Launch"),
        ("m5", "m3", "entity", "Launch"),
    }


def test_links_reach_only_what_the_filters_allow(backend):
    assert {link.target for link in backend.neighbors(ANA, Filters(), ["m1", "m5"], 10)} == {"m3", "m4", "m5"}


def test_without_entities_only_relations_link(backend):
    args = Filters(history=True), ["m1", "m4", "m5"]
    all_links = backend.neighbors(ANA, *args, 10)
    related = [link for link in all_links if link.kind != "entity"]
    assert backend.neighbors(ANA, *args, 0) == related and 0 < len(related) < len(all_links)


def test_rows_are_found_by_their_places_few_or_many(tmp_path):
    texts = {f"m{i:02d}": f"Note {i} about bees." for i in range(25)}
    write(tables([memory(i, text) for i, text in texts.items()]), tmp_path / "i.duckdb")
    with DuckDBBackend(tmp_path / "i.duckdb")._db.cursor() as db:
        for places in ([], [3], [3, 7, 24], list(range(0, 25, 2))):
            found = db.execute(*rows_statement("SELECT memory_id FROM memories", places)).fetchall()
            assert [i for (i,) in found] == [list(texts)[p] for p in places]


def test_history_lists_all_that_was_replaced_newest_first(backend):
    assert {i: [m.memory_id for m in older] for i, older in history(backend, ANA, ["m3", "m2", "m4"]).items()} == {
        "m3": ["m2", "m1"],
        "m2": ["m1"],
    }


def test_a_memory_comes_back_whole(backend):
    found = backend.memories(ANA, ["m5", "m1"])
    assert (found["m5"].speaker, found["m5"].page, found["m5"].uri, found["m5"].span) == ("Ana", 3, "m5.md", (0, 37))
    assert found["m1"].tags == ("x",) and not found["m1"].is_latest and found["m1"].superseded_by == "m2"
    assert found["m1"].valid_until == found["m1"].valid_until.astimezone(None) == at("2024-02-01")


def test_given_memories_score_as_they_do_as_seeds(backend):
    vector, terms = query_embedder().embed("honey cake"), query_terms("honey cake")
    seeds = backend.seeds(ANA, Filters(history=True), vector, terms, 1.0, 10)
    got = backend.scores(ANA, vector, terms, seeds.ids[::-1])
    assert got[::-1] == pytest.approx(np.stack([seeds.vector, seeds.words], axis=1), abs=1e-6)


def test_a_memory_of_several_windows_scores_by_its_best(tmp_path):
    made = tables([memory("m1", "bees"), memory("m2", "launch"), memory("m3", "rain")])
    made["embed_inputs"] = rows(
        "embed_inputs",
        *(
            {"memory_id": m, "kind": "window", "ordinal": i, "text": t, "text_hash": t}
            for i, (m, t) in enumerate([("m1", "I keep bees"), ("m1", "the launch date"), ("m2", "snow"), ("m3", "x")])
        ),
    )
    write(made, tmp_path / "i.duckdb")
    backend, e = DuckDBBackend(tmp_path / "i.duckdb"), query_embedder().embed
    vector = e("the launch date")
    seeds = backend.seeds(ANA, Filters(), vector, [], 0.0, 5)
    assert seeds.vector[0] == pytest.approx(1, abs=1e-6)
    assert seeds.vector[1:] == pytest.approx([e("snow") @ vector, e("x") @ vector], abs=1e-6)
    assert backend.scores(ANA, vector, [], ["m3", "m1"])[:, 0] == pytest.approx(seeds.vector[[2, 0]], abs=1e-6)


def test_a_tiny_cache_changes_no_answer(backend, tmp_path):
    write(tables(MADE, UPDATES), tmp_path / "i.duckdb")
    small = DuckDBBackend(tmp_path / "i.duckdb", cache_bytes=1)
    for text in ("launch", "honey cake", "launch"):
        one, other = find_seeds(small, text), find_seeds(backend, text)
        assert one.ids == other.ids and np.array_equal(one.vector, other.vector)


def test_the_cache_has_room_for_the_largest_scope(tmp_path, monkeypatch):
    write(tables([memory("m1", "bees"), memory("m2", "rain"), memory("m3", "snow")]), tmp_path / "i.duckdb")
    monkeypatch.setattr(duckdb_backend, "CACHE_BYTES", 1)
    reads = []
    read = duckdb_scope.read_vectors
    monkeypatch.setattr(duckdb_scope, "read_vectors", lambda *a: reads.append(1) or read(*a))
    for limit, expected in ((None, 1), (1, 2)):
        reads.clear()
        small = DuckDBBackend(tmp_path / "i.duckdb", cache_bytes=limit)
        for _ in range(2):
            find_seeds(small, "honey")
        assert len(reads) == expected
        small.close()


def test_eight_threads_get_the_answers_that_one_gets(backend):
    texts = ["when is the launch?", "honey", "bees", "friday"] * 10
    alone = [find_seeds(backend, t).words.tolist() for t in texts]
    fresh = DuckDBBackend(backend.path)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda t: find_seeds(fresh, t).words.tolist(), texts)) == alone


def test_an_index_rewritten_at_its_path_is_reloaded_once_its_reader_is_closed(tmp_path):
    path = tmp_path / "i.duckdb"
    for text in ("bees", "rain"):
        write(tables([memory("m1", text)]), path)
        backend = DuckDBBackend(path)
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda _, b=backend: b.memories(ANA, ["m1"])["m1"].text, range(4)))
        assert set(found) == {text}
        backend.close()


@pytest.mark.parametrize("content", [None, b"", b"not a database at all"])
def test_a_missing_or_damaged_index_is_one_error_that_names_it(tmp_path, content):
    path = tmp_path / "i.duckdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PalimpsestError, match=r"i\.duckdb"):
        DuckDBBackend(path)


_TEXTS = st.sampled_from(["bees", "honey launch", "launch on friday", "rain", "the hive"])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ana", "ben"]), _TEXTS), min_size=1, max_size=8), _TEXTS)
def test_no_search_of_one_user_depends_on_another(tmp_path_factory, made, query):
    folder = tmp_path_factory.mktemp("scopes")
    memories = [memory(f"m{i}", text, user_id=user) for i, (user, text) in enumerate(made)]
    write(tables(memories), folder / "all.duckdb")
    both = DuckDBBackend(folder / "all.duckdb")
    for user in {m["user_id"] for m in memories}:
        write(tables([m for m in memories if m["user_id"] == user]), folder / f"{user}.duckdb")
        alone = find_seeds(DuckDBBackend(folder / f"{user}.duckdb"), query, scope=Scope("notes", user))
        together = find_seeds(both, query, scope=Scope("notes", user))
        assert alone.ids == together.ids and alone.words.tolist() == together.words.tolist()
        assert alone.vector == pytest.approx(together.vector, abs=1e-6)


def test_a_scope_read_whole_answers_as_one_read_piece_by_piece(backend, monkeypatch):
    whole = [find_seeds(backend, q, Filters(history=True)) for q in ("launch honey", "bees", "nothing of the kind")]
    texts, chains = backend.memories(ANA, ["m5", "m1", "m9", "m1"]), history(backend, ANA, ["m3"])
    for module in ("duckdb_backend", "duckdb_scope"):
        monkeypatch.setattr(f"palimpsest.query.backends.{module}.SMALL_SCOPE", 0)
    pieces = DuckDBBackend(backend.path)
    for before, question in zip(whole, ("launch honey", "bees", "nothing of the kind"), strict=True):
        now = find_seeds(pieces, question, Filters(history=True))
        assert now.ids == before.ids and now.words.tolist() == before.words.tolist()
        assert now.words_stats == before.words_stats
    assert list(pieces.memories(ANA, ["m5", "m1", "m9", "m1"]).items()) == list(texts.items()) and len(texts) == 2
    assert history(pieces, ANA, ["m3"]) == chains and [m.memory_id for m in chains["m3"]] == ["m2", "m1"]
    pieces.close()
