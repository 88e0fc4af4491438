import shutil

import duckdb
import numpy as np
import polars as pl
import pytest

from palimpsest.core.ids import SCOPE
from palimpsest.index.write_index import write_index
from palimpsest.store.decisions import Decisions, tombstone
from palimpsest.store.tables import conform, empty
from palimpsest_eval.gate.invariants import check_invariants, check_nodes
from tests.eval.home import tables

TABLES = tables()
HASHES = set(TABLES["embed_inputs"]["text_hash"])


def broken(table, change, **more):
    """The violations of the small build with one table changed."""
    return check_invariants(TABLES | {table: change(TABLES[table])}, **more)


def put(column, value, where=None):
    """Sets a column, in all rows or where an id matches."""
    key, wanted = where or (None, None)
    hit = pl.lit(True) if key is None else pl.col(key) == wanted
    return lambda t: t.with_columns(pl.when(hit).then(pl.lit(value, t.schema[column])).otherwise(column).alias(column))


def names(violations):
    return {(v.invariant, v.name) for v in violations}


def test_a_sound_build_breaks_nothing_and_an_index_of_it_agrees(index):
    assert check_invariants(TABLES, known_vectors=HASHES) == []
    assert check_invariants({}) == []
    assert check_invariants({name: t.reverse() for name, t in TABLES.items()}, known_vectors=HASHES) == []
    assert check_invariants(TABLES, index, known_vectors=HASHES) == []


@pytest.mark.parametrize(
    ("table", "change", "number", "name"),
    [
        ("memories", lambda t: t.drop("tags"), 1, "schema"),
        ("memories", lambda t: t.with_columns(pl.col("ordinal").cast(pl.Int32)), 1, "schema"),
        ("memories", lambda t: pl.concat([t, t.head(1)]), 1, "unique_ids"),
        ("relations", put("relation_id", None), 1, "unique_ids"),
        (
            "documents", lambda t: pl.concat([t, t.with_columns(document_id=pl.lit("x") + "document_id")]), 1,
            "current_documents",
        ),
        ("versions", lambda t: t.filter(pl.col("memory_id") != "m2"), 2, "versions_complete"),
        ("versions", put("is_latest", True, ("memory_id", "m1")), 2, "versions_recomputed"),
        ("versions", put("is_latest", True, ("memory_id", "m1")), 2, "chains"),
        ("versions", put("is_latest", True, ("memory_id", "m1")), 2, "superseded_by"),
        ("versions", put("is_latest", False, ("memory_id", "m3")), 2, "chains"),
        ("versions", put("superseded_by", "m9", ("memory_id", "m1")), 4, "references"),
        ("versions", put("superseded_by", "m5", ("memory_id", "m1")), 3, "scopes"),
        ("memories", put("observed_at", None, ("memory_id", "m3")), 2, "newer_wins"),
        ("memories", put("trust", 0.9, ("memory_id", "m1")), 2, "trust"),
        ("documents", put("user_id", "ben", ("document_id", "d1")), 3, "scopes"),
        ("relations", put("newer_id", "m6", ("relation_id", "r1")), 3, "scopes"),
        ("mentions", put("memory_id", "m6"), 3, "scopes"), ("topic_memories", put("memory_id", "m6"), 3, "scopes"),
        ("candidate_pairs", put("older_id", "m6"), 3, "scopes"), ("entities", put("user_id", "ben"), 3, "scopes"),
        ("topics", put("collection", None), 3, "scopes"),
        ("documents", lambda t: t.filter(pl.col("document_id") != "d3"), 4, "references"),
        ("chunks", lambda t: t.filter(pl.col("chunk_id") != "cm2"), 4, "references"),
        ("mentions", lambda t: t.clear(), 4, "orphans"),
        ("embed_inputs", lambda t: t.filter(pl.col("memory_id") != "m2"), 6, "embed_inputs"),
        ("embed_inputs", put("text", "another text", ("memory_id", "m2")), 6, "embed_inputs"),
        ("memories", put("char_start", 3, ("memory_id", "m2")), 8, "spans"),
        ("chunks", put("char_end", None, ("chunk_id", "cm2")), 8, "spans"),
        ("document_texts", put("text", "rewritten", ("document_id", "d1")), 8, "spans"),
        ("mentions", put("char_end", 900, ("memory_id", "m1")), 8, "spans"),
    ],
)  # fmt: skip
def test_each_broken_invariant_is_found(table, change, number, name):
    assert (number, name) in names(broken(table, change))


def test_an_update_against_time_and_a_circle_of_updates_are_found():
    def turned(t):
        back = t.filter(pl.col("relation_id") == "r1").with_columns(
            relation_id=pl.lit("r9"), newer_id=pl.col("older_id"), older_id=pl.col("newer_id")
        )
        return pl.concat([t, back])

    found = broken("relations", turned)
    assert any("earlier memory to a later" in v.message and v.examples == ("r9",) for v in found)
    assert any("circle" in v.message and v.count == 2 for v in found)


def test_an_undone_relation_retires_nothing():
    undone = Decisions(undone=frozenset({"r1"}))
    latest = {"is_latest": True, "superseded_by": None, "valid_until": None}

    def restored(t):
        for column, value in latest.items():
            t = put(column, value, ("memory_id", "m1"))(t)
        return t

    assert broken("versions", restored, decisions=undone) == []
    assert (2, "versions_recomputed") in names(check_invariants(TABLES, decisions=undone))
    assert (2, "chains") in names(broken("versions", restored))


def test_a_memory_without_a_vector_is_found_and_a_violation_reports_a_count_and_a_few_ids():
    found = check_invariants(TABLES, known_vectors=HASHES - {TABLES["embed_inputs"]["text_hash"][0]})
    assert names(found) == {(7, "vectors")}
    [found] = [v for v in broken("memories", put("char_start", 9)) if v.name == "spans"]
    assert found.count == 6
    assert found.examples == ("m1", "m2", "m3", "m4", "m5")
    assert found.message == "memories: 6 spans do not match the text"
    assert found.to_json()["examples"] == ["m1", "m2", "m3", "m4", "m5"]


@pytest.mark.parametrize("reject", [("a.pdf", "read", " "), ("", "read", "encrypted"), ("a.pdf", None, "encrypted")])
def test_a_reject_without_a_reason_is_found(reject):
    rows = pl.DataFrame([("c", *reject, False)], schema=TABLES["rejects"].schema, orient="row")
    assert names(check_invariants(TABLES | {"rejects": rows})) == {(9, "rejects")}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "index.duckdb"

    def vectors(hashes):
        return np.tile(np.eye(1, 384, dtype=np.float32), (len(hashes), 1))

    write_index(TABLES, vectors, path, {"build_id": "000001"})
    return path


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("memories", lambda t: t.filter(pl.col("memory_id") != "m6")),
        ("versions", put("is_latest", False, ("memory_id", "m2"))),
        ("relations", put("label", "DERIVE", ("relation_id", "r2"))),
        ("mentions", lambda t: t.head(1)),
        ("nodes", lambda t: conform("nodes", TABLES["entities"].select(pl.col("entity_id").alias("node_id"), *SCOPE))),
        ("documents", put("uri", "other.md", ("document_id", "d1"))),
        ("embed_inputs", lambda t: pl.concat([t, t.head(1).with_columns(ordinal=pl.lit(1, pl.Int64))])),
    ],
)
def test_an_index_of_other_tables_is_found(index, table, change):
    assert (5, "index") in names(broken(table, change, index_path=index))


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("UPDATE postings SET row = 5 WHERE row = 0", 3), ("UPDATE links SET older_row = 5 WHERE label = 'EXTEND'", 3),
        ("UPDATE terms SET df = df + 1", 5), ("DELETE FROM vectors WHERE row = 2", 5),
        ("UPDATE memories SET text = 'edited' WHERE row = 1", 5), ("DROP TABLE mentions", 5),
    ],
)  # fmt: skip
def test_an_index_that_was_edited_is_found(index, tmp_path, sql, number):
    copy = tmp_path / "index.duckdb"
    shutil.copyfile(index, copy)
    with duckdb.connect(str(copy)) as db:
        db.execute("DROP VIEW IF EXISTS word_scores").fetchall()
        db.execute(sql).fetchall()
    assert (number, "index") in names(check_invariants(TABLES, copy))


def test_an_index_of_another_format_missing_or_damaged_is_a_violation_that_says_what_to_do(index, tmp_path):
    copy = tmp_path / "index.duckdb"
    shutil.copyfile(index, copy)
    with duckdb.connect(str(copy)) as db:
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
    (found,) = check_invariants(TABLES, copy)
    assert found.invariant == 5 and "format 2" in found.message and "run palimpsest build" in found.message
    assert names(check_invariants(TABLES, tmp_path / "none.duckdb")) == {(5, "index")}
    (tmp_path / "bad.duckdb").write_bytes(b"not a database")
    assert names(check_invariants(TABLES, tmp_path / "bad.duckdb")) == {(5, "index")}


@pytest.mark.parametrize(
    ("deleted", "left"),
    [
        (("document", "notes", "plan.md"), ("d1",)), (("document", "notes", "chat.jsonl"), ("d3",)),
        (("document", "notes", "chat.jsonl#s1"), ("d3",)), (("user", "ana"), ("d1", "d2")),
        (("document", "other", "plan.md"), ()), (("user", "carl"), ()),
    ],
)  # fmt: skip
def test_deleted_texts_still_in_a_build_are_reported_by_id(deleted, left):
    found = check_invariants(TABLES, decisions=Decisions(tombstones=frozenset([tombstone(*deleted)])))
    assert [(v.invariant, v.name, v.examples) for v in found] == ([(4, "deleted", left)] if left else [])
    assert not any(deleted[-1] in v.message for v in found)


@pytest.mark.parametrize(
    ("table", "columns", "name"),
    [
        ("nodes", {"type": "title"}, "node_types"), ("nodes", {"importance": 1.1}, "importance"),
        ("nodes", {"importance": None}, "importance"), ("edges", {"type": "likes"}, "edge_types"),
        ("edges", {"weight": -0.1}, "edge_weights"), ("edges", {"target_id": "m1"}, "edge_loops"),
    ],
)  # fmt: skip
def test_a_node_or_an_edge_outside_its_bounds_is_found(table, columns, name):
    scope = {"collection": "notes", "user_id": "ana", "project_id": ""}
    sound = {
        "nodes": {"node_id": "n1", "type": "place", "name": "Lindow", "importance": 0.4, **scope},
        "edges": {"source_id": "m1", "target_id": "m2", "type": "part_of", "weight": 1.0, **scope},
    }
    frame = conform(table, pl.DataFrame([sound[table] | columns]))
    assert name in {v.name for v in check_nodes({n: empty(n) for n in ("nodes", "edges")} | {table: frame})}
