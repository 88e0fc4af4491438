"""The graph of a scope in the report and in notebooks: the largest scope, its best nodes, and who has no edge."""

from palimpsest.store.tables import empty
from palimpsest_eval.report.charts import graph_chart, orphan_nodes
from tests.query.made import at, rows

SCOPE = {"collection": "notes", "user_id": "ana", "project_id": ""}


def made():
    nodes = [
        {"node_id": f"n{i}", "name": f"N{i}", "type": "place", "importance": i / 10, **SCOPE}
        | {"created_at": at(f"2026-05-0{1 + i // 2}")}
        for i in range(5)
    ]
    nodes.append({**nodes[0], "node_id": "b", "user_id": "ben", "importance": 0.9})
    edges = [{"source_id": "n4", "target_id": "n3", "type": "part_of", "weight": 1.0, **SCOPE}]
    edges.append(edges[0] | {"source_id": "n0"})
    return rows("nodes", *nodes), rows("edges", *edges)


def test_the_chart_has_the_most_important_nodes_of_the_largest_scope_and_orphans_have_no_edge():
    chart = graph_chart(*made(), shown=3)
    assert chart.scope == "notes/ana" and [d.node_id for d in chart.dots] == ["n4", "n3", "n2"]
    assert [(line.source_id, line.target_id) for line in chart.lines] == [("n4", "n3")]
    assert (chart.nodes, chart.edges, chart.orphans) == ({"place": 5}, {"part_of": 2}, {"place": 2})
    assert chart.growth == (("2026-05-01", 2), ("2026-05-02", 4), ("2026-05-03", 5))
    nodes, edges = made()
    assert orphan_nodes(nodes, edges)["node_id"].to_list() == ["b", "n2", "n1"]
    assert graph_chart(empty("nodes"), empty("edges")) is None
