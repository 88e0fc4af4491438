"""What a scope is packed as, and batches of nodes with vectors: without a server."""

import datetime as dt

import duckdb
import numpy as np
import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph import writer
from palimpsest.neo4j_graph.graph_rows import GraphVectors, graph_rows
from palimpsest.neo4j_graph.neo4j_scope import sentences_of
from palimpsest.neo4j_graph.node_rows import with_names
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    bucket_of,
    buckets_for,
    mean_and_covariance,
    pack_arrays,
    pack_block,
    pack_parts,
    pack_postings,
    sentence_blocks_for,
    unpack_arrays,
    unpack_postings,
)
from palimpsest.neo4j_graph.writer import node_batches
from palimpsest.query import Scope, open_index
from palimpsest.sources.extracted import CONVERSATION
from palimpsest.store.tables import conform
from palimpsest.text.terms import cut_sentences
from tests.neo4j_graph.made import MODEL, make, memory_id, vectors
from tests.query.made import memory, tables
from tests.query.made import write as write_home_index


def test_arrays_texts_stats_and_postings_come_back_as_they_were_packed():
    arrays = {
        "rows": np.array([3, 1], "<i4"),
        "years": np.array([-np.inf, 1990.5]),
        "none": np.zeros((0, 384), "<f2"),
        "names": ["Ada", "", "a\nb", "\ud800", "Żółw"],
    }
    data = pack_arrays(arrays)
    found = unpack_arrays(data)
    assert found["names"] == arrays["names"] and found["none"].shape == (0, 384)
    assert all(np.array_equal(found[n], arrays[n]) and found[n].dtype == arrays[n].dtype for n in ("rows", "years"))
    assert pack_arrays(dict(reversed(arrays.items()))) == data
    assert [sentence_blocks_for(n) for n in (0, 1, 16, 17, 32, 33, 125)] == [1, 1, 1, 2, 2, 4, 8]
    head = b'[["row", "<i4", [2], 8]]'
    earlier = np.array([len(head)], "<i8").tobytes() + head + np.array([1, 2], "<i4").tobytes()
    for data in (earlier, b"", np.array([3, 50, 3, 0], "<i8").tobytes() + b"x" * 60):
        with pytest.raises(PalimpsestError, match="written by an earlier version; run palimpsest build --graph"):
            unpack_arrays(data)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 384)).astype(np.float32)
    mean, covariance = mean_and_covariance(vectors)
    ids = np.array([f"{i:016x}" for i in range(11)], dtype=object)
    stats = ScopeStats.unpack(ScopeStats(ids, np.arange(11) % 3 == 0, 12, mean, covariance).pack())
    assert stats.ids.tolist() == ids.tolist() and stats.latest.tolist() == (np.arange(11) % 3 == 0).tolist()
    assert np.array_equal(stats.covariance, covariance) and np.array_equal(stats.mean, mean)
    query = vectors[3]
    found = stats.cosine_stats(query)
    assert np.allclose(found, [(vectors @ query).mean(), (vectors @ query).std()], atol=1e-4)
    assert ScopeStats.unpack(ScopeStats(ids[:0], np.zeros(0, bool), 0).pack()).ids.tolist() == []
    terms = [f"term{i:05d}" for i in range(4000)] + ["żółw"]
    df = np.full(len(terms), 3)
    rows = np.arange(3 * len(terms)) % 1000
    scores = np.linspace(0, 1, len(rows), dtype=np.float32)
    buckets = dict(pack_postings(terms, df, rows, scores))
    assert buckets_for(len(rows)) == 2 and set(buckets) == {0, 1}
    for i in (0, 1999, 4000):
        found = unpack_postings(buckets[bucket_of(terms[i], 2)])[terms[i]]
        assert found[0].tolist() == rows[3 * i : 3 * i + 3].tolist() and np.array_equal(
            found[1], scores[3 * i : 3 * i + 3]
        )


class Vectors:
    """A look-up that counts its calls; the vector of hash `n` is (n, n)."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, hashes: list[str]) -> np.ndarray:
        self.calls += 1
        return np.array([[float(h)] * 2 for h in hashes], np.float32)


@pytest.mark.parametrize(("at_once", "calls"), [(4, 2), (100, 1)])
def test_memories_have_their_vectors_however_many_are_looked_up_at_once(monkeypatch, at_once, calls):
    monkeypatch.setattr(writer, "_VECTORS_AT_ONCE", at_once)
    lookup = Vectors()
    nodes = pl.DataFrame({"id": list("abcdef"), "n": range(6), "text_hash": ["5", "4", "5", "2", "1", "0"]})
    made = list(node_batches("Memory", nodes, lookup, 2))
    assert [len(b) for b in made] == [2, 2, 2] and lookup.calls == calls
    found = [(row["properties"]["n"], row["vector"].to_native()[0]) for b in made for row in b]
    assert found == [(0, 5.0), (1, 4.0), (2, 5.0), (3, 2.0), (4, 1.0), (5, 0.0)]


def test_blocks_have_the_vectors_of_their_memories(monkeypatch):
    monkeypatch.setattr(writer, "_VECTORS_AT_ONCE", 2)
    lookup = Vectors()
    nodes = pl.DataFrame({"id": ["x", "y"], "b": [0, 1], "counts": [[1, 1], [2]], "hashes": [["3", "1"], ["7", "3"]]})
    ((first,), (second,)) = node_batches("VectorBlock", nodes, lookup, 1)
    assert first["data"] == pack_block(np.array([1, 1]), np.array([[3, 3], [1, 1]], np.float32))
    assert (second["b"], second["data"]) == (1, pack_block(np.array([2]), np.array([[7, 7], [3, 3]], np.float32)))
    assert lookup.calls == 2 and list(node_batches("VectorBlock", nodes.clear(), lookup, 1)) == []


def test_sentences_of_long_memories_come_back_as_the_index_has_them(tmp_path):
    long = " ".join(f"Sentence {i} is about object {i * 7}, which has not moved." for i in range(40))
    path = tmp_path / "i.duckdb"
    write_home_index(tables([memory("m1", "Bees."), memory("m2", long), memory("m3", f"{long} End.")]), path)
    view = open_index(path).backend.view(Scope("notes", "ana"))
    stored = view.sentence_terms(np.arange(3))
    assert sorted(stored) == [1, 2] and stored[1].spans.tolist() == cut_sentences(long).spans.tolist()
    with duckdb.connect(str(path), read_only=True) as db:
        parts = dict(pack_parts(db, view.at))
    blocks = [unpack_arrays(data) for name, data in parts.items() if name.startswith("sentences:")]
    found = sentences_of(blocks, {"m1": 0, "m2": 1, "m3": 2}, {})
    assert sorted(found) == [1, 2]
    for row, sentences in found.items():
        assert sentences.counts is None and sentences.words is not None
        for name in ("spans", "counts", "keys"):
            assert np.array_equal(getattr(sentences.words, name), getattr(stored[row], name))


def test_memories_have_their_trust_and_relations_what_disputes_what(tmp_path):
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
