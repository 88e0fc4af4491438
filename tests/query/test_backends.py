"""The DuckDB backend: vectors, words and links of a scope, exact, cached and renewed."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.index.write_index import write_index
from palimpsest.memories.embed import MODEL_FILE, MiniLM
from palimpsest.query import open_home
from palimpsest.query.backends import duckdb_backend, duckdb_scope
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.backends.duckdb_scope import rows_statement
from palimpsest.query.embed_query import count_tokens, query_embedder
from palimpsest.query.ranking import conversation
from palimpsest.query.ranking.scoring import leading
from palimpsest.query.request.strategies import STRATEGIES
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope import scope_arrays
from palimpsest.query.scope.scope_arrays import EstimatedCosines, ScopeVectors
from palimpsest.text.terms import query_terms
from palimpsest_eval.bench.run_bench import write_synthetic_home
from palimpsest_eval.bench.synthetic import COLLECTION, synthetic_build
from tests.query import titled
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
QUESTIONS = ("launch honey", "bees", "nothing of the kind")
UPDATES = [("m2", "m1"), ("m3", "m2")]


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "i.duckdb"
    named = {"Honey": ("m4", "m5"), "Launch": ("m3", "m5", "b1", "m1")}
    mentions = [(m, name) for name, ids in named.items() for m in ids]
    write(tables(MADE, UPDATES, [("m5", "m4", "EXTEND")], mentions), path)
    backend = DuckDBBackend(path)
    yield backend
    backend.close()


def find_seeds(backend, text, filters=None, scope=ANA, weight=1.0, n=10):
    return backend.seeds(scope, filters or Filters(), query_embedder().embed(text), query_terms(text), weight, n)


def test_seeds_have_the_exact_scores_and_the_n_best_by_the_fused_score_are_returned(backend):
    seeds = find_seeds(backend, "when is the launch?")
    assert seeds.ids == ["m3", "m4", "m5"] and seeds.candidates == 3
    texts = {m["memory_id"]: m["text"] for m in MADE}
    e = query_embedder().embed
    expected = [float(e(texts[i]) @ e("when is the launch?")) for i in seeds.ids]
    assert seeds.vector == pytest.approx(expected, abs=1e-6)
    assert seeds.vector_stats == pytest.approx((np.mean(expected), np.std(expected)), abs=1e-6)
    assert seeds.words[1] == 0 < min(seeds.words[0], seeds.words[2])
    assert seeds.words_stats == pytest.approx((seeds.words.mean(), seeds.words.std()))
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


def test_a_scope_sees_only_its_own_and_an_unknown_one_nothing(backend):
    assert find_seeds(backend, "zyxquor", Filters(history=True)).words.sum() == 0
    assert "b1" not in find_seeds(backend, "secret launch", Filters(history=True)).ids
    assert backend.memories(ANA, ["b1", "m1"]).keys() == {"m1"}
    assert backend.neighbors(BEN, Filters(), ["b1"], 10) == []
    assert history(backend, BEN, ["m3"]) == {}
    nobody = Scope("notes", "nobody")
    assert find_seeds(backend, "launch", scope=nobody).ids == []
    assert backend.neighbors(nobody, Filters(), ["m1"], 5) == []
    assert backend.memories(nobody, ["m1"]) == {} == history(backend, nobody, ["m1"])


def test_links_follow_relations_and_entities_within_the_filters(backend):
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
    assert {link.target for link in backend.neighbors(ANA, Filters(), ["m1", "m5"], 10)} == {"m3", "m4", "m5"}
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


def test_memories_histories_and_scores_are_read_by_id(backend):
    assert {i: [m.memory_id for m in older] for i, older in history(backend, ANA, ["m3", "m2", "m4"]).items()} == {
        "m3": ["m2", "m1"],
        "m2": ["m1"],
    }
    found = backend.memories(ANA, ["m5", "m1"])
    assert (found["m5"].speaker, found["m5"].page, found["m5"].uri, found["m5"].span) == ("Ana", 3, "m5.md", (0, 37))
    assert found["m1"].tags == ("x",) and not found["m1"].is_latest and found["m1"].superseded_by == "m2"
    assert found["m1"].valid_until == found["m1"].valid_until.astimezone(None) == at("2024-02-01")
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


def test_a_tiny_cache_and_eight_threads_change_no_answer(backend, tmp_path):
    write(tables(MADE, UPDATES), tmp_path / "i.duckdb")
    small = DuckDBBackend(tmp_path / "i.duckdb", cache_bytes=1)
    for text in ("launch", "honey cake", "launch"):
        one, other = find_seeds(small, text), find_seeds(backend, text)
        assert one.ids == other.ids and np.array_equal(one.vector, other.vector)
    texts = ["when is the launch?", "honey", "bees", "friday"] * 10
    alone = [find_seeds(backend, t).words.tolist() for t in texts]
    fresh = DuckDBBackend(backend.path)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda t: find_seeds(fresh, t).words.tolist(), texts)) == alone


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


@settings(max_examples=4, deadline=None)
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
    whole = [find_seeds(backend, q, Filters(history=True)) for q in QUESTIONS]
    texts, chains = backend.memories(ANA, ["m5", "m1", "m9", "m1"]), history(backend, ANA, ["m3"])
    for module in ("duckdb_backend", "duckdb_scope"):
        monkeypatch.setattr(f"palimpsest.query.backends.{module}.SMALL_SCOPE", 0)
    pieces = DuckDBBackend(backend.path)
    for before, question in zip(whole, QUESTIONS, strict=True):
        now = find_seeds(pieces, question, Filters(history=True))
        assert now.ids == before.ids and now.words.tolist() == before.words.tolist()
        assert now.words_stats == before.words_stats
    assert list(pieces.memories(ANA, ["m5", "m1", "m9", "m1"]).items()) == list(texts.items()) and len(texts) == 2
    assert history(pieces, ANA, ["m3"]) == chains and [m.memory_id for m in chains["m3"]] == ["m2", "m1"]
    pieces.close()


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.standard_normal(shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def test_estimates_are_close_and_unbiased_and_the_leading_scores_are_among_a_few():
    rng = np.random.default_rng(5)
    matrix, query = unit(rng, 20_000, 384), unit(rng, 384)
    found = EstimatedCosines.of((matrix[:7000], matrix[7000:])).cosines(query)
    errors = found - matrix @ query
    assert np.abs(errors).max() < 0.003 and abs(errors.mean()) < 2e-5
    assert errors.std() == pytest.approx(0.00035, abs=0.0001)
    assert np.array_equal(EstimatedCosines.of((matrix,)).cosines(query), found)
    rng = np.random.default_rng(6)
    query = unit(rng, 384)
    found = EstimatedCosines.of((np.stack([np.zeros(384, np.float32), query]),)).cosines(query)
    assert found[0] == 0 and found[1] == pytest.approx(1, abs=0.003)
    scores = np.random.default_rng(7).standard_normal(50_000).astype(np.float32)
    for n in (1, 10, 400, 3000):
        found = leading(scores, n)
        assert set(np.argsort(-scores)[:n]) <= set(found) and len(found) < 2 * n + 10
    assert len(leading(scores, 40_000)) == len(scores)


def test_few_vectors_and_memories_with_several_windows_have_no_estimates():
    matrix, query = np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[0]
    assert ScopeVectors((matrix,), np.arange(3), 3).estimated_cosines(query) is None
    many = np.zeros((scope_arrays.MANY, 3), np.float32)
    assert ScopeVectors((many,), np.array([0, 2]), len(many)).estimated_cosines(query) is None
    one_each = ScopeVectors((many,), np.arange(len(many)), len(many))
    assert one_each.estimated_cosines(query).shape == (len(many),)
    assert one_each.nbytes == many.nbytes + many.nbytes // 4 + len(many) * 4 + one_each.starts.nbytes


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    build = synthetic_build(6000, 1, "turns", 25)
    write_synthetic_home(folder, build, "turns")
    return folder, build.queries[:8], Scope(COLLECTION, build.largest)


@pytest.mark.parametrize("hops", [0, 1])
def test_results_are_those_of_exact_cosines(home, hops, monkeypatch):
    folder, questions, scope = home

    def results() -> list[list[tuple[str, float, float]]]:
        with open_home(folder, count_reads=False) as reader:
            found = (reader.search(q, scope, k=40, hops=hops) for q in questions)
            return [[(m.memory_id, m.score, m.vector_score) for m in f.memories] for f in found]

    exact = results()
    monkeypatch.setattr(scope_arrays, "MANY", 1000)
    monkeypatch.setattr(conversation, "LEADERS", 160)
    estimated = results()
    for one, other in zip(exact, estimated, strict=True):
        by_id = {i: scores for i, *scores in one}
        last = one[-1][1]
        assert all(score == pytest.approx(last, rel=2e-4) for i, score, _ in other if i not in by_id)
        by_id = {i: scores for i, *scores in other} | by_id
        assert np.array([by_id[i] for i, *_ in other]) == pytest.approx(
            np.array([n for _, *n in other]), rel=2e-4, abs=1e-3
        )
        # In the order of exact scores, but for those that are as good as equal.
        assert [by_id[i][0] for i, *_ in other] == pytest.approx([score for _, score, _ in one], rel=2e-4)


QUESTIONS_refresh = ("Where was the founder of Port Elm born?", "rivers in winter 1990", "Who names Varn?")


def publish(home, build, texts, monkeypatch, topic):
    """The same ids bear other texts, names, titles, topics, periods and vectors in each build."""
    monkeypatch.setattr(titled, "TEXTS", texts)
    out = titled.made(updates=[("m6", "m1")] if build == "000001" else [("m2", "m3")])
    scope = {"collection": "notes", "user_id": "ana"}
    out["topics"] = rows("topics", {"topic_id": "t", **scope, "label": topic}, {"topic_id": "u", **scope, "label": "x"})
    out["topic_memories"] = rows(
        "topic_memories",
        *({"topic_id": "tu"[i > 3], "memory_id": f"m{i}", **scope, "relevance": 0.9} for i in range(len(texts))),
    )
    known = dict(
        pl.concat([out[n].select("text_hash", "text") for n in ("embed_inputs", "context_inputs")]).iter_rows()
    )

    def vectors(hashes):
        return np.array([query_embedder().embed(known[h]) for h in hashes], np.float32).reshape(-1, 384)

    path = home / "builds" / build / "index.duckdb"
    path.parent.mkdir(parents=True)
    write_index(out, vectors, path, {"build_id": build, "model_id": "test", "strategies": {"notes": "graph"}})
    (home / "published.json").write_text(json.dumps({"build": build}))


def all_answers(reader):
    return {
        (strategy, question, history): [
            (m.memory_id, m.text, m.score, m.why)
            for m in reader.search(question, ANA, k=8, strategy=strategy, history=history, explain=True).memories
        ]
        for strategy in STRATEGIES
        for question in QUESTIONS_refresh
        for history in (False, True)
    }


@pytest.mark.parametrize("whole", [True, False])
def test_a_refreshed_reader_answers_as_one_that_never_saw_the_old_build(tmp_path, monkeypatch, whole):
    if not whole:  # as in scopes too large to be read at once
        for module in ("duckdb_backend", "duckdb_scope"):
            monkeypatch.setattr(f"palimpsest.query.backends.{module}.SMALL_SCOPE", 0)
    texts = dict(titled.TEXTS)
    publish(tmp_path, "000001", texts, monkeypatch, "harbours")
    with open_home(tmp_path) as reader:
        old = all_answers(reader)
        later = {k: f"{v} Seen in 1990." for k, v in list(texts.items())[::-1]}
        publish(tmp_path, "000002", later, monkeypatch, "winter")
        assert all_answers(reader) == old
        with ThreadPoolExecutor(4) as pool:  # searches under way finish on the one build or the other, never on both
            before = [pool.submit(reader.search, QUESTIONS_refresh[0], ANA, k=8, explain=True) for _ in range(4)]
            assert reader.refresh() == "000002"
            concurrent = [[(m.memory_id, m.text, m.score, m.why) for m in f.result().memories] for f in before]
        new = all_answers(reader)
    with open_home(tmp_path) as fresh:
        assert all_answers(fresh) == new
    assert all(
        a in (old["graph", QUESTIONS_refresh[0], False], new["graph", QUESTIONS_refresh[0], False]) for a in concurrent
    )
    assert all(new[key] != old[key] for key in old)


HEAVY = ("torch", "sentence_transformers", "dspy", "ragas", "dagster", "spacy", "ranx", "sklearn", "scipy", "pandas")


def test_a_query_vector_is_of_unit_length_stable_and_near_what_means_the_same():
    vector = query_embedder().embed("When is the launch?")
    assert vector.shape == (384,) and vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5
    assert np.array_equal(vector, MiniLM().embed("When is the launch?"))
    e = query_embedder().embed
    assert (
        e("The launch moved to Friday.") @ e("When do we launch?") > e("I keep bees.") @ e("When do we launch?") + 0.2
    )
    long = "word " * 300
    assert np.array_equal(query_embedder().embed(long + "bees"), query_embedder().embed(long + "launch"))
    assert query_embedder().embed("x" * 1_000_000).shape == (384,)
    assert count_tokens("") == 0
    assert count_tokens("hello world") == 2
    assert count_tokens("word " * 1000) == 1000


def test_a_damaged_model_is_refused(tmp_path, monkeypatch):
    (path := tmp_path / MODEL_FILE).parent.mkdir()
    path.write_bytes(b"no model")
    monkeypatch.setattr("palimpsest.memories.embed.SHIPPED", tmp_path)
    with pytest.raises(ComponentFailed, match=r"sentence_embedder\.onnx cannot be loaded"):
        MiniLM()


def test_a_query_imports_none_of_the_heavy_packages(tmp_path):
    from tests.query.made import home, memory, tables

    home(tmp_path, tables([memory("m1", "The launch is on Friday."), memory("m2", "I keep bees.")]))
    code = f"""
import sys
from palimpsest.query import open_home
with open_home({str(tmp_path)!r}) as reader:
    found = reader.search("when is the launch?", reader.resolve_scope())
assert found.memories[0].memory_id == "m1", found
print(*sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
