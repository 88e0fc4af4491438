import numpy as np
import pytest

from eval.bench import bench_text, run_bench
from eval.synthetic import synthetic_build
from pipelines.errors import PalimpsestError
from pipelines.query.api import STEPS
from pipelines.store.tables import SCHEMAS


def test_a_synthetic_build_is_the_same_again_and_has_the_tables_of_a_build():
    one, other = (synthetic_build(500, 10, "turns", 5) for _ in range(2))
    assert one.queries == other.queries and len(one.queries) == 5
    assert np.array_equal(one.vectors, other.vectors)
    for name, table in one.tables.items():
        assert table.equals(other.tables[name]) and table.columns == list(SCHEMAS[name])


def test_users_have_zipf_sizes_and_the_largest_of_fifty_holds_a_fifth_or_more():
    build = synthetic_build(2000, 50, "titled", 1)
    sizes = list(build.sizes.values())
    assert sum(sizes) == 2000 and sizes == sorted(sizes, reverse=True) and min(sizes) >= 1
    assert build.sizes[build.largest] >= 400
    assert abs(np.linalg.norm(build.vectors, axis=1) - 1).max() < 1e-5


def test_relations_stay_inside_a_user_and_retire_what_they_update():
    tables = synthetic_build(500, 10, "turns", 1).tables
    owner = dict(zip(tables["memories"]["memory_id"], tables["memories"]["user_id"], strict=True))
    relations = tables["relations"].to_dicts()
    assert relations and all(owner[r["newer_id"]] == owner[r["older_id"]] for r in relations)
    retired = set(tables["versions"].filter(~tables["versions"]["is_latest"])["memory_id"])
    assert retired == {r["older_id"] for r in relations if r["label"] == "UPDATE"}


@pytest.mark.parametrize(("strategy", "kind", "clients"), [("hybrid", "turns", 1), ("flat", "titled", 2)])
def test_a_bench_reports_what_was_asked_for(tmp_path, strategy, kind, clients, monkeypatch):
    monkeypatch.setattr("eval.bench.QUERIES", 5)
    report = run_bench(300, users=5, strategy=strategy, kind=kind, clients=clients, workdir=tmp_path / "work")
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
    assert f"300 memories as {kind}, {strategy}" in bench_text(report) and "unscoped" in bench_text(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 0}, "--users 0"),
        ({"kind": "poems"}, "--kind poems"),
        ({"strategy": "magic"}, "--strategy magic"),
        ({"backend": "redis"}, "--backend redis"),
        ({"clients": 0}, "--clients 0"),
    ],
)
def test_a_wrong_argument_of_a_bench_is_named(options, message):
    with pytest.raises(PalimpsestError, match=message):
        run_bench(100, **options)
