import json

import pytest

from palimpsest_eval.studies.index_time import measure_index_time
from tests.query.titled import TEXTS


@pytest.mark.slow
def test_index_time_reports_what_each_profile_adds_to_embedding_and_stores(tmp_path, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_CACHE", str(tmp_path / "cache"))
    suite = tmp_path / "ports"
    suite.mkdir()
    rows = [{"_id": f"d{i}", "title": title, "text": text} for i, (title, text) in enumerate(TEXTS.items())]
    (suite / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (suite / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "Where was the founder of Port Elm born?"}))
    (suite / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n")
    report = measure_index_time(suite, rounds=1)
    figures = report.to_json()
    assert figures["memories"] == len(TEXTS) and figures["rounds"] == 1
    assert (
        set(figures["seconds"]) == {"flat", "full", "fast"} and min(t["cpu_s"] for t in figures["seconds"].values()) > 0
    )
    for profile, ratio in figures["times_flat"].items():
        assert ratio["wall_s"] == figures["seconds"][profile]["wall_s"] / figures["seconds"]["flat"]["wall_s"]
    assert figures["R@5"] == {"full": 1.0, "fast": 1.0, "hybrid": 1.0} and figures["gain_kept"] is None
    assert "no gain to keep" in report.text() and "full" in report.text()
