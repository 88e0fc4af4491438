"""Properties of the graph's rows, without a server."""

import datetime as dt

import duckdb
import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.graph_rows import GraphVectors, graph_rows
from palimpsest.neo4j_graph.node_rows import with_names
from palimpsest.sources.extracted import CONVERSATION
from palimpsest.store.tables import conform
from tests.neo4j_graph.made import MODEL, make, memory_id, vectors


def test_memories_have_their_trust_and_relations_their_conflict(tmp_path):
    made = make(tmp_path, "000001", count=4, edited=(1, 2))
    tables = made.tables | {
        "memories": made.tables["memories"].with_columns(trust=pl.lit(0.2)),
        "relations": made.tables["relations"].with_columns(
            conflict=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("dynamic"))
        ),
    }
    rows = graph_rows(tables, GraphVectors(vectors, MODEL), made.index)
    assert set(rows.nodes["Memory"]["trust"]) == {0.2}
    assert sorted(rows.edges["Memory-UPDATES-Memory"]["conflict"], key=str) == [None, "dynamic"]


def test_relations_have_their_consequence_and_part_and_what_is_disputed_is_an_edge(tmp_path):
    made = make(tmp_path, "000001", count=6, users=("ann",), edited=(1,))
    scope = {"collection": "made", "user_id": "ann", "labeler": "offline", "confidence": 0.6, "label": "NONE"}
    disputed = scope | {"consequence": "disputed", "likelihood": 0.5, "older_id": memory_id(0)}
    more = [
        disputed | {"relation_id": "r1", "newer_id": memory_id(2)},
        disputed | {"relation_id": "r2", "newer_id": memory_id(3), "label": "EXTEND", "conflict": "static"},
        disputed | {"relation_id": "r3", "newer_id": memory_id(4), "older_id": memory_id(1)},  # not latest
        scope | {"relation_id": "r4", "newer_id": memory_id(5), "older_id": memory_id(0), "likelihood": 0.1},
        disputed
        | {"relation_id": "r5", "newer_id": memory_id(5), "older_id": memory_id(4), "label": "UPDATE"}
        | {"consequence": "superseded", "part": "[[0, 4], [6, 9]]"},
    ]
    relations = pl.concat(
        [made.tables["relations"], conform("relations", pl.DataFrame(more, infer_schema_length=None))]
    )
    edges = graph_rows(made.tables | {"relations": relations}, GraphVectors(vectors, MODEL), made.index).edges
    fields = ("relation_id", "consequence", "likelihood", "conflict")
    assert sorted(edges["Memory-DISPUTES-Memory"].select(fields).rows()) == [
        ("r1", "disputed", 0.5, None),
        ("r2", "disputed", 0.5, "static"),
    ]
    assert edges["Memory-EXTENDS-Memory"].select(fields).rows() == [("r2", "disputed", 0.5, "static")]
    parts = dict(edges["Memory-UPDATES-Memory"].select("relation_id", "part").rows())
    assert parts.pop("r5") == [0, 4, 6, 9] and list(parts.values()) == [None]


def test_an_index_that_another_version_wrote_is_refused_in_one_line(tmp_path):
    made = make(tmp_path, "000001", count=4)
    with duckdb.connect(str(made.index)) as db:
        db.execute("UPDATE meta SET value = '7' WHERE key = 'format'").fetchall()
    with pytest.raises(PalimpsestError, match=r"000001.duckdb: format 7, .* run palimpsest build, then load again"):
        graph_rows(made.tables, GraphVectors(vectors, MODEL), made.index)


def test_documents_have_the_names_that_are_expected_of_them():
    about = {"collection": "made", "user_id": "ann", "project_id": "", "session_id": None, "seq": 1}
    read = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [
        {"document_key": "a", "uri": "manuals/otter.pdf", "media_type": "application/pdf", "ingested_at": read},
        {"document_key": "b", "uri": "mails/hello.eml#plan.md", "media_type": "text/markdown", "ingested_at": read},
        {"document_key": "b", "uri": "mails/hello.eml#plan.md", "media_type": "text/plain", "seq": 2},
        {"document_key": "c", "uri": "chat.jsonl", "media_type": CONVERSATION},
    ]
    named = with_names(pl.DataFrame([{**about, "ingested_at": None, **row} for row in rows]))
    assert named.select("filename", "source_type", "created_at").rows() == [
        ("otter.pdf", "pdf", read),
        ("plan.md", "text", read),
        ("chat.jsonl", "conversation", None),
    ]


def test_a_speaker_is_an_entity_and_words_of_documents_make_no_relationship_type(tmp_path):
    made = make(tmp_path, "000001", count=4, users=("ann",))
    scope = {"collection": "made", "user_id": "ann", "project_id": ""}
    nodes = [{"node_id": i, **scope, "name": i, "type": "person"} for i in ("ann0", "ann1", "speaker")]
    facts = [
        {"fact_id": "f1", **scope, "subject_id": "speaker", "predicate": "leads", "object_id": "ann0"},
        {"fact_id": "f2", **scope, "subject_id": "ann0", "predicate": "drop database", "object_id": "ann1"},
        {"fact_id": "f3", **scope, "subject_id": "ann0", "predicate": "leads", "object_id": "elsewhere"},
    ]
    memories = made.tables["memories"]["memory_id"].head(1).to_list()
    tables = made.tables | {
        "nodes": conform("nodes", pl.DataFrame(nodes)),
        "speakers": conform("speakers", pl.DataFrame([{"entity_id": "speaker", **scope, "name": "speaker"}])),
        "facts": conform("facts", pl.DataFrame([f | {"memory_ids": memories} for f in facts])),
    }
    rows = graph_rows(tables, GraphVectors(vectors, MODEL), made.index)
    assert set(rows.nodes["Node"]["entity_id"]) == {"ann0", "ann1", "speaker"}
    assert sorted(rows.edges["Memory-STATES-Node"]["fact_id"]) == ["f1", "f2"]
    assert sorted(rows.edges["Node-FACT-Node"]["fact_id"]) == ["f1", "f2"]
    assert rows.edges["Node-PREDICATE-Node"].select("fact_id", "type").rows() == [("f1", "LEADS")]
