import json

import pytest
from click.testing import CliRunner

from palimpsest.cli.evaluate import suite
from palimpsest.core.errors import PalimpsestError
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from palimpsest.store.builds import published
from palimpsest_eval.metrics import LatencyMs
from palimpsest_eval.runs.ablation import AUTO, STAGES, StageReader, ablation_text, run_ablation
from palimpsest_eval.runs.suite_runs import ablate, is_golden, measure
from palimpsest_eval.suites.suite_result import QueryScores, SuiteResult

CORPUS = [
    {"_id": "a", "text": "The lamp is in the attic.", "meta": {"speaker": "Ana", "date": "2024-05-01"}},
    {"_id": "b", "text": "The lamp is in the cellar.", "meta": {"speaker": "Ana", "date": "2024-06-07"}},
    {"_id": "c", "text": "Bees make honey.", "meta": {"speaker": "Ben", "date": "2024-06-08"}},
]
QUERIES = [{"_id": "q1", "text": "Where is the lamp in May 2024?"}, {"_id": "q2", "text": "Who makes honey?"}]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "things"
    path.mkdir()
    (path / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in CORPUS))
    (path / "queries.jsonl").write_text("".join(json.dumps(r) + "\n" for r in QUERIES))
    (path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tc\t1\n")
    return path


def test_every_stage_has_a_row_with_lift_interval_and_cost(folder, tmp_path):
    result, rows = ablate(folder, None, 1200, tmp_path / "out.jsonl")
    assert [r["stage"] for r in rows] == [s.name for s in STAGES]
    strategies = [r for r in rows if r["stage"] in ("hierarchical", "dated", "turns", "statements", "graph", "auto")]
    base = next(r for r in rows if r["stage"] == "+latest filter")
    assert [r["lift"] for r in strategies] == [pytest.approx(r["R@5"] - base["R@5"]) for r in strategies]
    assert rows[0]["lift"] is None and all(r["low"] <= r["lift"] <= r["high"] for r in rows[1:])
    assert rows[AUTO]["R@5"] == result.metrics["R@5"] == 1.0 and result.strategy == "auto"
    assert [r["lift"] for r in rows[AUTO + 1 :]] == [pytest.approx(r["R@5"] - 1.0) for r in rows[AUTO + 1 :]]
    assert all(r["p50_ms"] > 0 <= r["noise_ms"] for r in rows) and rows[0]["cost_ms"] == rows[0]["p50_ms"]
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    lines = ablation_text("things", 2, rows).splitlines()
    assert len(lines) == 2 + len(rows) and lines[3].startswith("+words")


@pytest.mark.slow
def test_words_before_the_date_stage_know_no_dates(judged_home):
    build = published(judged_home)
    seen = {}

    def look(staged, strategy):
        found = staged.search("April 2026-03-01", Scope("chats", "ann"), strategy=strategy, k=5)
        seen[staged.arguments["hops"], strategy, len(seen)] = max(m.words_score for m in found.memories)
        metrics = {"R@5": 1.0, "nDCG@10": 1.0, "packed_recall": 1.0}
        scores = (QueryScores("q", (), metrics),)
        return SuiteResult("s", 1, 0, strategy, 0, metrics, {}, {}, LatencyMs(1, 1, 1), scores)

    run_ablation(judged_home, build, look)
    vector, words, date, *_ = seen.values()
    assert vector == 0.0 and 0 < words < date


def test_a_stage_queries_with_its_settings_and_weights_but_the_past_never_with_history(judged_home, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "0")
    with open_index(published(judged_home).index) as reader:
        staged = StageReader(reader, {"hops": 0, "history": True})
        now = staged.search("deadline of project Heron", Scope("chats", "ann"), k=5)
        then = staged.search("deadline of project Heron", Scope("chats", "ann"), k=5, as_of="2026-02-10")
    assert {m.is_latest for m in now.memories} == {True, False}
    assert all("20 April" not in m.text for m in then.memories) and len(staged.calls) == 2
    with open_index(published(judged_home).index) as reader:
        scope, question = Scope("chats", "ann"), "deadline of project Heron"
        staged = StageReader(reader, {"hops": 0}, {"words": 0.0})
        changed = staged.search(question, scope, k=5, strategy="auto")
        plain = reader.search(question, scope, k=5, strategy="auto", hops=0)
    assert all(m.words_score > 0 for m in plain.memories[:1]) and changed.memories[0].score != plain.memories[0].score


def test_a_golden_set_is_measured_on_its_own_collection(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made.path.parent)
    (made.path.parent / "data/corpora").mkdir(exist_ok=True)
    link = made.path.parent / "data/corpora/chats"
    if not link.exists():
        link.symlink_to(made.path.parent / "corpus/chats")
    golden = made.path.parent / "data/golden/chats.jsonl"
    assert is_golden(golden) and not is_golden(tmp_path)
    done = measure(golden, None, "hybrid", 1200, tmp_path / "out.jsonl")
    assert (done.suite, done.queries, done.unjudged) == ("chats", 4, 1)
    assert done.metrics["R@5"] == 1.0 and done.quality["leaks"] == 0.0
    assert done.build["memories"] == 5 and len((tmp_path / "out.jsonl").read_text().splitlines()) == 4
    with pytest.raises(PalimpsestError, match="--extra"):
        measure(golden, golden, "hybrid", 1200, None)


@pytest.mark.slow
def test_the_command_prints_the_stages_and_their_json(folder):
    done = CliRunner().invoke(suite, [str(folder), "--ablation", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.splitlines()[-1])
    assert [r["stage"] for r in report["ablation"]] == [s.name for s in STAGES] and report["metrics"]["R@5"] == 1.0
    done = CliRunner().invoke(suite, [str(folder), "--ablation", "--backend", "neo4j"])
    assert isinstance(done.exception, PalimpsestError)
