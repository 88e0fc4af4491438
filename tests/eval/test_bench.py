import json
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.entities.collection_shape import strategy_for
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import Scope, open_home
from palimpsest.query.embed_query import count_tokens
from palimpsest.query.search import STEPS
from palimpsest.store.home import Home
from palimpsest.store.tables import SCHEMAS
from palimpsest.text.terms import cut_sentences
from palimpsest_eval.bench.bench_report import (
    ClientLatency,
    IndexUse,
    QueryFigures,
    QueryLoad,
    graph_budgets,
    home_budgets,
    measure_index_use,
    pages_budget,
    walk_budget,
)
from palimpsest_eval.bench.measure_pending import measure_pending
from palimpsest_eval.bench.measure_queries import measure_graph, read_figures
from palimpsest_eval.bench.measure_service import measure_service
from palimpsest_eval.bench.run_bench import AUTO_STRATEGY, run_bench, write_synthetic_home
from palimpsest_eval.bench.synthetic import COLLECTION, PASSAGE, synthetic_build
from palimpsest_eval.metrics import LatencyMs
from tests.small_corpus import write_chats

KINDS = {"turns": (500, 10, "turns", 5), "titled": (300, 5, "titled", 20), "pages": (40, 1, "pages", 3)}
made = cache(synthetic_build)


def test_a_synthetic_build_is_the_same_again_and_has_the_tables_of_a_build():
    one, other = made(*KINDS["turns"]), synthetic_build(*KINDS["turns"])
    assert one.queries == other.queries and len(one.queries) == 5
    assert np.array_equal(one.vectors, other.vectors)
    for name, table in one.tables.items():
        assert table.equals(other.tables[name]) and table.columns == list(SCHEMAS[name])


def test_users_have_zipf_sizes_and_relations_stay_inside_a_user():
    build = synthetic_build(2000, 50, "titled", 1)
    sizes = list(build.sizes.values())
    assert sum(sizes) == 2000 and sizes == sorted(sizes, reverse=True) and min(sizes) >= 1
    assert build.sizes[build.largest] >= 400
    assert abs(np.linalg.norm(build.vectors, axis=1) - 1).max() < 1e-5
    tables = made(*KINDS["turns"]).tables
    owner = dict(zip(tables["memories"]["memory_id"], tables["memories"]["user_id"], strict=True))
    relations = tables["relations"].to_dicts()
    assert relations and all(owner[r["newer_id"]] == owner[r["older_id"]] for r in relations)
    retired = set(tables["versions"].filter(~tables["versions"]["is_latest"])["memory_id"])
    assert retired == {r["older_id"] for r in relations if r["label"] == "UPDATE"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_what_a_build_takes_it_for(kind):
    assert strategy_for(made(*KINDS[kind]).tables["memories"]) == AUTO_STRATEGY[kind]


def test_passages_say_the_names_they_mention_in_sentences_that_fill_them_and_questions_name_them():
    build = made(*KINDS["titled"])
    tables = build.tables
    text = dict(tables["memories"].select("memory_id", "text").iter_rows())
    name = dict(tables["entities"].select("entity_id", "name").iter_rows())
    for m in tables["mentions"].iter_rows(named=True):
        assert text[m["memory_id"]][m["char_start"] : m["char_end"]] == name[m["entity_id"]]
    for (memory_id,), group in tables["context_inputs"].group_by("memory_id"):
        assert " ".join(group.sort("ordinal")["text"]) == text[memory_id] and group.height == PASSAGE.sentences
    titles = tables["memories"]["title"].to_list()
    assert all(text[i].startswith(t) for i, t in tables["memories"].select("memory_id", "title").iter_rows())
    named = sum(any(t in text[i] for t in titles if not text[i].startswith(t)) for i in text)
    assert named > 250 and all(any(t in q for t in titles) for q in build.queries)
    owner = dict(tables["memories"].select("memory_id", "user_id").iter_rows())
    assert all(owner[m] == u for m, u in tables["mentions"].select("memory_id", "user_id").iter_rows())


def test_a_page_has_some_fifteen_hundred_tokens_and_a_vector_for_each_window():
    build = made(40, 1, "pages", 3)
    memories, inputs = build.tables["memories"], build.tables["embed_inputs"]
    assert 1350 < memories["token_count"].mean() < 1650
    assert memories["token_count"].to_list() == [count_tokens(text) for text in memories["text"]]
    assert 40 <= len(cut_sentences(memories["text"][0]).spans) <= 60
    assert inputs["text_hash"].n_unique() == inputs.height == 7 * 40 == len(build.vectors)
    assert build.queries == synthetic_build(40, 1, "pages", 3).queries


def test_a_query_over_long_pages_quotes_them(tmp_path):
    build = made(40, 1, "pages", 3)
    write_synthetic_home(tmp_path, build, "pages")
    with open_home(tmp_path, count_reads=False) as reader:
        found = reader.search(build.queries[0], Scope(COLLECTION, build.largest))
    assert found.strategy == "graph" and found.quotes and count_tokens(found.context) <= 1200


@pytest.mark.parametrize(
    ("strategy", "kind", "clients"), [("hybrid", "turns", 2), ("flat", "titled", 8), ("auto", "pages", 1)],
)  # fmt: skip
@pytest.mark.slow
def test_a_bench_reports_the_requested_backends(tmp_path, strategy, kind, clients, monkeypatch):
    monkeypatch.setattr("palimpsest_eval.bench.run_bench.QUERIES", 5)
    load = QueryLoad(strategy, clients, hops=2)
    done = run_bench(300, load, users=5, kind=kind, workdir=tmp_path / "work")
    report = done.to_json()
    assert report["memories"] == 300 and report["load"]["nodes_per_s"] > 0 < report["load"]["index_s"]
    for name in ("scoped", "unscoped"):
        latency = report["latency_ms"][name]
        assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"]
    for home in report["homes"].values():
        assert list(home["clients"]) == sorted({"1", "8", str(clients)}) and home["first_query_ms"] > 0
        assert list(home["cold_ms"]) == list(home["clients"]) and min(home["cold_ms"].values()) > 0
        for at in home["clients"].values():
            assert set(at["steps_ms"]) == {*STEPS, "total_ms"} and set(at["steps_ms"]["embed_ms"]) == {
                "p50",
                "p95",
                "p99",
            }
            assert at["spread_ms"]["p95"][0] <= at["latency_ms"]["p95"] <= at["spread_ms"]["p95"][1]
    assert {"cpu", "cpus", "load_1min", "python"} <= set(report["machine"])
    assert report["homes"]["unscoped"]["scope_memories"] == 300 > report["homes"]["scoped"]["scope_memories"]
    assert report["rss_mib"] > 0 < report["disk_mib"]
    assert list((tmp_path / "work").iterdir()) == []
    printed = done.text()
    assert f"300 memories as {kind}, {strategy}, 2 hop(s)" in printed and "unscoped" in printed
    parts = [(b["part"], b["home"]) for b in report["budgets"]]
    both = [(part, home) for home in ("scoped", "unscoped") for part in ("node search", "whole", "from indexes")]
    last = ("long pages", "300 pages") if kind == "pages" else ("walk and hops", "300 passages")
    assert parts == [*both, last] and all(f"{p} ({h}): " in printed for p, h in parts)


def test_what_a_measuring_process_prints_is_read_whole():
    steps = {"seeds_ms": LatencyMs(1.0, 2.0, 3.0)}
    client = ClientLatency(LatencyMs(5.0, 6.0, 7.0), {"p95": (5.5, 6.5)}, 4.5, steps)
    figures = QueryFigures({"1": client}, 1.0, 2.0, 3.0, IndexUse(0.5, 4.0, ("SELECT 1",)), steps)
    assert read_figures(json.dumps(asdict(figures))) == figures


def test_a_budget_is_kept_or_missed_by_its_figure():
    steps = {s: LatencyMs(10.0, 20.0, 30.0) for s in ("seeds_ms", "expand_ms", "rank_ms")}
    steps["total_ms"] = LatencyMs(100.0, 151.0, 200.0)
    found = [*home_budgets("scoped", steps, 0.9), walk_budget(10, steps)]
    assert [(b.part, b.figure, b.kept) for b in found] == [
        ("node search", 20.0, True),
        ("whole", 151.0, False),
        ("from indexes", 0.9, False),
        ("walk and hops", 60.0, True),
    ]
    pages = pages_budget(300, steps)
    assert (pages.part, pages.home, pages.figure, pages.limit, pages.kept) == (
        "long pages", "300 pages", 151.0, 40.0, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "warm_up", "questions", "share", "scanned"),
    [
        ({}, 6, 9, 1.0, []),
        pytest.param({"since": "2024-01-02"}, 0, 1, 0.0, ["memories"], marks=pytest.mark.slow),
        pytest.param({"since": "2024-01-02"}, 6, 9, 1.0, [], marks=pytest.mark.slow),
    ],
    ids=["no filter", "a filter for the first time", "a filter that was searched before"],
)
def test_a_query_is_answered_from_indexes_alone_where_no_statement_scans_a_table(
    tmp_path, filters, warm_up, questions, share, scanned
):
    build = synthetic_build(1500, 1, "titled", 9)
    write_synthetic_home(tmp_path, build, "titled")
    texts = build.queries[:questions]
    use = measure_index_use(tmp_path, "duckdb", Scope(COLLECTION, build.largest), texts, warm_up, **filters)
    assert use.share == share and use.statements >= 2
    assert all(any(table in s for s in use.scans) for table in scanned) and bool(use.scans) == bool(scanned)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 0}, "--users 0"),
        ({"kind": "poems"}, "--kind poems"),
        ({"kind": "pages", "memories": 20_001}, "--memories 20001"),
        ({"load": QueryLoad(strategy="magic")}, "--strategy magic"),
        ({"load": QueryLoad(backend="redis")}, "--backend redis"),
        ({"load": QueryLoad(clients=0)}, "--clients 0"),
    ],
)
def test_a_wrong_argument_of_a_bench_is_named(options, message):
    with pytest.raises(PalimpsestError, match=message):
        run_bench(**{"memories": 100} | options)


def test_questions_over_the_graph_of_a_synthetic_home_are_measured_and_have_a_budget(tmp_path):
    build = synthetic_build(300, 1, "turns", 1, has_topics=True)
    assert build.tables["facts"].height and set(build.tables["facts"].columns) == set(SCHEMAS["facts"])
    write_synthetic_home(tmp_path, build, "turns")
    with open_home(tmp_path, count_reads=False) as reader:
        found = measure_graph(reader, Scope(COLLECTION, build.largest), questions=2)
    assert list(found) == ["node_ms", "neighbours_ms", "three_hops_ms", "relations_ms", "timeline_ms"]
    (budget,) = graph_budgets("home", found | {"three_hops_ms": LatencyMs(1.0, 51.0, 60.0)})
    assert (budget.part, budget.limit, budget.kept) == ("three hops", 50.0, False) and not graph_budgets("home", {})


def test_a_home_is_measured_beside_pending_memories_and_keeps_none_of_them(tmp_path, shared_vectors):
    home = Home(tmp_path / "home", shared_vectors)
    corpus = write_chats(tmp_path / "corpus", [("s1", "ann", "Ann", "My bike is red.", "2026-02-01T09:00:00Z")])
    run_without_dagster(home, make_plan(home, [corpus]))
    before = sorted(path for path in home.path.rglob("*") if path.is_file())
    figures = measure_pending(home, 20)
    assert figures.pending == 20 and figures.p95_ms > 0 and "20 pending" in figures.text()
    assert sorted(path for path in home.path.rglob("*") if path.is_file()) == before


@pytest.mark.slow
def test_clients_of_the_service_are_all_answered_over_rest_and_mcp_with_and_without_a_pause():
    report = measure_service(1000, 2)
    assert [(r.protocol, r.pause_s) for r in report.rounds] == [("rest", 1), ("rest", 0), ("mcp", 1), ("mcp", 0)]
    assert all(r.searches >= 20 and not r.errors and r.p50_ms <= r.p95_ms for r in report.rounds)
