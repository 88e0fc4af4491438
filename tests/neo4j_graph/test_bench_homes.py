"""Homes of benchmarks are dropped after the measurement, and where the process that measured one was killed."""

import subprocess
import sys

from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.identity import home_id
from palimpsest.store.home import Home
from palimpsest_eval.bench.measure_queries import drop_abandoned, mark_measured


def homes(graph: Connection) -> set[str]:
    return {r["id"] for r in graph.read("MATCH (h:PalimpsestHome) RETURN h.home_id AS id")}


def test_a_home_whose_measuring_process_died_is_dropped_and_others_stay(graph, tmp_path):
    mine, dead, served = (Home(tmp_path / name) for name in ("mine", "dead", "served"))
    for home in (mine, dead):
        home.path.mkdir()
        mark_measured(graph, home)
    served.path.mkdir()
    graph.write(cypher.BEGIN_LOAD, home=home_id(served), token="t")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    graph.write("MATCH (h:PalimpsestHome {home_id: $home}) SET h.measured_by = $pid", home=home_id(dead), pid=gone.pid)
    drop_abandoned(graph)
    assert {home_id(mine), home_id(served)} <= homes(graph) and home_id(dead) not in homes(graph)
