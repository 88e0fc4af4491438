import numpy as np

from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    bucket_of,
    buckets_for,
    mean_and_covariance,
    pack_postings,
    unpack_postings,
)


def test_stats_come_back_as_they_were_packed() -> None:
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


def test_postings_come_back_by_term_from_the_bucket_that_the_term_names() -> None:
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
