import duckdb
import numpy as np

from palimpsest.neo4j_graph.neo4j_scope import sentences_of
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    bucket_of,
    buckets_for,
    mean_and_covariance,
    pack_parts,
    pack_postings,
    unpack_arrays,
    unpack_postings,
)
from palimpsest.query import Scope, open_index
from palimpsest.text.terms import cut_sentences
from tests.query.made import memory, tables
from tests.query.made import write as write_home_index


def test_stats_come_back_as_they_were_packed():
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


def test_postings_come_back_by_term_from_the_bucket_that_the_term_names():
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
