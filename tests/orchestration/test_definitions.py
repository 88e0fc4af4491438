import dagster as dg
import pytest

from palimpsest.neo4j_graph.model import CHECKS, WARNINGS
from palimpsest.pipeline.build_warnings import KINDS
from palimpsest.pipeline.stages import STAGES

EDGES = {
    "web_pages": set(),
    "documents": {"web_pages"},
    "chunks": {"documents"},
    "notes": {"documents", "chunks"},
    "memories": {"documents", "chunks", "notes"},
    "embeddings": {"memories"},
    "entities": {"documents", "memories"},
    "topics": {"documents", "memories", "embeddings", "entities"},
    "candidate_pairs": {"documents", "memories", "embeddings", "entities"},
    "offline_labeler": set(),
    "relations": {"documents", "memories", "candidate_pairs", "offline_labeler"},
    "versions": {"documents", "memories", "relations"},
    "facts": {"memories", "entities", "relations", "documents", "versions"},
    "nodes": {"documents", "memories", "entities", "topics", "versions", "facts"},
    "layout": {"nodes", "facts"},
    "index": {*STAGES},
    "retrieval_report": {"index"},
    "published": {"retrieval_report"},
    "memory_health": {"published"},
    "neo4j_graph": {"published"},
    "proposals": {"published"},
    "suite_metrics": set(),
    "month_figures": {"published"},
}
GROUPS = {
    "sources": {"documents", "chunks", "web_pages"},
    "memories": {"memories", "notes", "embeddings", "entities", "topics"},
    "relations": {"candidate_pairs", "relations", "versions"},
    "labels": {"offline_labeler"},
    "serving": {"index", "retrieval_report", "published", "memory_health", "month_figures", "neo4j_graph"},
    "graph": {"facts", "nodes", "layout"},
    "consolidation": {"proposals"},
    "evaluation": {"suite_metrics"},
}


@pytest.fixture(scope="module")
def specs() -> dict[str, dg.AssetSpec]:
    from palimpsest.orchestration.code_location import defs

    dg.Definitions.validate_loadable(defs)
    return {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}


def test_the_graph_is_the_one_of_the_design_and_every_asset_has_group_kinds_owner_and_a_description(specs):
    assert {name: {d.asset_key.to_user_string() for d in s.deps} for name, s in specs.items()} == EDGES
    assert {g: {n for n, s in specs.items() if s.group_name == g} for g in GROUPS} == GROUPS
    for name, spec in specs.items():
        assert spec.kinds and spec.owners and spec.description, name
        assert len(spec.description) > 40, name


def test_assets_are_partitioned_by_collection_up_to_versions_and_not_after(specs):
    parted = {n: s.partitions_def for n, s in specs.items() if s.partitions_def is not None}
    names = {n: definition.name for n, definition in parted.items()}
    assert names == dict.fromkeys(STAGES, "collections") | {"suite_metrics": "suites"}


def test_every_asset_that_writes_the_home_or_calls_a_component_has_a_pool(specs):
    from palimpsest.orchestration.code_location import defs

    pools = {n: s.tags.get("palimpsest/pool") for n, s in specs.items()}
    named = {"embeddings": "embedder", "suite_metrics": "embedder", "neo4j_graph": "neo4j"}
    named |= dict.fromkeys(("notes", "facts", "relations"), "lm")
    free = {"offline_labeler", "web_pages", "proposals", "month_figures"}
    assert pools == {n: None if n in free else named.get(n, "home") for n in specs}
    ops = {n.name: n.definition.pool for n in defs.resolve_job_def("consolidate_home").graph.nodes}
    assert ops == {"consolidate": "lm", "apply_proposals": "lm", "keep_house": "home", "back_up": "home"}
    jobs = ("rebuild", "serve_graph", "evaluate_suite")
    nodes = {n.name: n.definition.pool for j in jobs for n in defs.resolve_job_def(j).graph.nodes}
    assert nodes == {n: pools[n] for n in nodes} and set(nodes) == set(specs) - free | {"month_figures"}


def test_invariants_and_gate_block_what_comes_after_them_and_a_load_of_the_graph_runs_no_stage():
    from palimpsest.orchestration.code_location import defs

    graph = defs.resolve_asset_graph()
    checks = {k.name: k.asset_key.to_user_string() for k in graph.asset_check_keys}
    own = {"invariants": "index", "gate": "retrieval_report", "fresh_collections": "published", "readable": "documents"}
    own |= {kind.check: kind.stage for kind in KINDS}
    assert checks == own | dict.fromkeys(CHECKS, "neo4j_graph")
    free = {k.name for k in graph.asset_check_keys if not graph.get_check_spec(k).blocking}
    assert free == {*WARNINGS, *(kind.check for kind in KINDS), "fresh_collections", "readable"}
    assert {n.name for n in defs.resolve_job_def("serve_graph").graph.nodes} == {"neo4j_graph"}


def test_what_materialize_all_runs_is_neither_maintenance_nor_a_crawl_and_has_partitions_of_collections_and_suites():
    from palimpsest.orchestration.code_location import defs

    graph = defs.resolve_asset_graph()
    external = {k.to_user_string() for k in graph.get_all_asset_keys() if not graph.get(k).is_executable}
    assert external == {"web_pages", "offline_labeler", "proposals"}
    assert set(EDGES) - external == {*STAGES, *GROUPS["serving"], "suite_metrics"}
