"""Runs of a golden set for tests of the gate."""

from datetime import UTC, datetime

import pytest

from palimpsest_eval.gate.baseline import accept_baseline
from palimpsest_eval.golden.golden_run import GoldenRun, Hit

FULL = {"R@5": 1.0, "nDCG@10": 1.0, "packed_recall": 1.0, "irrelevant_tokens": 0.0, "stale@5": 0.0}
LOST = {"R@5": 0.0, "nDCG@10": 0.0, "packed_recall": 0.0, "irrelevant_tokens": 0.0, "stale@5": 0.0}


def gate_run(values, p95=9.0, **more):
    """One query for each item of `values`, numbered."""
    per_query = {f"q{i:03}": dict(v) for i, v in enumerate(values)}
    given = {
        "collection": "notes", "golden_hash": "g", "model": "m", "commit": "c1", "build_id": "000002",
        "settings": {"strategy": "auto"}, "per_query": per_query, "questions": {q: f"what of {q}?" for q in per_query},
        "results": {q: (Hit("new", "b.md:0-9"),) for q in per_query}, "answered": len(per_query),
        "latency_ms": {"p50": 5.0, "p95": p95, "p99": p95},
        "unhindered_ms": [p95] * len(per_query),
    }  # fmt: skip
    return GoldenRun(**(given | more))


@pytest.fixture
def baseline(tmp_path):
    old = gate_run([FULL] * 100, build_id="000001", results={"q000": (Hit("old", "a.md:3-7", relevant=True),)})
    return accept_baseline(old, tmp_path / "b.json", "first", who="Ana", when=datetime(2026, 1, 2, tzinfo=UTC))
