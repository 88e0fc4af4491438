"""The comparison with other toolkits, run with a peer that needs none of them."""

import json
import sys
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.golden.questions import Question as GoldenQuestion
from palimpsest_eval.golden.resolve import ResolvedQuestion
from palimpsest_eval.metrics import this_machine
from palimpsest_eval.peers.corpora import (
    CHANGED_SHARE,
    Corpus,
    DemoCorpus,
    small_corpus,
    suite_corpus,
    timed_corpus,
    write_corpus,
)
from palimpsest_eval.peers.job import read_result
from palimpsest_eval.peers.peer import Question, Text, read_texts
from palimpsest_eval.peers.registry import LOCKS, PEERS, PeerInfo, find_peers
from palimpsest_eval.peers.run_job import Workplace, run_job
from palimpsest_eval.peers.run_peers import Corpora, Sizes, main, measure_peers, write_report
from palimpsest_eval.peers.scripted_lm import scripted_lm

ADAPTERS = "palimpsest_eval.peers.adapters"
OVERLAP = PeerInfo("overlap", f"{ADAPTERS}.word_overlap", "palimpsest-memory", "common words")
WITH_LM = PeerInfo("asking", f"{ADAPTERS}.word_overlap", "palimpsest-memory", "common words", needs_lm=True)
BROKEN = PeerInfo("broken", f"{ADAPTERS}.no_such_peer", "palimpsest-memory", "does not start")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with two scopes: three rows each, one question each."""
    folder = tmp_path / "pets"
    folder.mkdir()
    rows = [
        {"_id": f"{scope}:{i}", "title": "", "text": text, "scope": scope, "meta": {"speaker": "Ada"}}
        for scope in ("ada", "bo")
        for i, text in enumerate(["The cat sleeps", "The dog barks", "It rains"])
    ]
    queries = [{"_id": f"q-{s}", "text": "What does the dog do", "scope": s} for s in ("ada", "bo")]
    for name, items in (("corpus", rows), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(i) + "\n" for i in items))
    qrels = "".join(f"q-{s}\t{s}:1\t1\n" for s in ("ada", "bo"))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return folder


def place(folder: Path, lm) -> Workplace:
    return Workplace(folder, folder / "venvs", None, lm)


def demo() -> DemoCorpus:
    """A collection whose older statement is stale, and what a search of ours returned: the newer one only."""
    question = GoldenQuestion.model_validate(
        {
            "id": "d1", "question": "release day", "type": "updated",
            "evidence": [{"uri": "a.md", "quote": "Thursday"}], "stale": [{"uri": "a.md", "quote": "Tuesday"}],
        },
    )  # fmt: skip
    resolved = ResolvedQuestion(question, "team", needs=(frozenset({"new"}),), stale=frozenset({"old"}))
    texts = [Text("old", "team", "The release day is Tuesday"), Text("new", "team", "The release day is Thursday")]
    corpus = Corpus("demo", texts, [Question("d1", "team", "release day")], {})
    return DemoCorpus(corpus, {"d1": resolved}, {"d1": ["new"]})


def test_a_run_measures_every_peer_and_says_what_failed(suite: Path, tmp_path: Path):
    corpora = Corpora(timed_corpus(suite, 6, 10), [suite_corpus(suite, 6, 10)], [demo()])
    sizes = Sizes(memories=6, rounds=2, limit_s=60)
    with scripted_lm() as lm:
        reports = measure_peers([OVERLAP, BROKEN], corpora, place(tmp_path / "work", lm), sizes)
    overlap, broken = reports
    assert overlap.recall == {"pets": 1.0}
    assert overlap.rounds == 2 and overlap.errors == []
    assert overlap.phases["build"].seconds > 0 and overlap.phases["rebuild_same"].unsupported is None
    assert overlap.phases["update"].unsupported == "a text cannot be replaced by its id"
    assert overlap.peak_mb > 5 and overlap.disk_mb > 0 and overlap.p95_ms > 0
    assert broken.recall == {} and broken.p95_ms is None
    assert "ModuleNotFoundError: No module named" in broken.errors[0]
    text = write_report(tmp_path / "out", reports, sizes, this_machine())
    assert "| overlap " in text and "- broken: pets: ModuleNotFoundError" in text
    assert json.loads((tmp_path / "out" / "peers.json").read_text())["peers"][0]["recall"] == {"pets": 1.0}


def test_a_toolkit_that_calls_a_model_is_measured_once_and_on_the_small_parts_only(suite: Path, tmp_path: Path):
    small = [small_corpus(suite, 2, 10)]
    corpora = Corpora(timed_corpus(suite, 6, 10), [suite_corpus(suite, 6, 10)], [], timed_corpus(suite, 3, 10), small)
    with scripted_lm() as lm:
        reports = measure_peers([OVERLAP, WITH_LM], corpora, place(tmp_path, lm), Sizes(rounds=2, limit_s=60))
    everywhere, asking = reports
    assert everywhere.recall == {"pets": 1.0, "pets, 2 texts": 1.0} and (everywhere.texts, everywhere.rounds) == (6, 2)
    assert asking.recall == {"pets, 2 texts": 1.0} and (asking.texts, asking.rounds) == (3, 1)
    text = write_report(tmp_path / "out", reports, Sizes(), this_machine())
    assert "| asking 0" in text and "| 3 x 1 |" in text


def test_no_round_is_begun_when_the_time_is_over(suite: Path, tmp_path: Path):
    with scripted_lm() as lm:
        sizes = Sizes(rounds=3, limit_s=60, minutes=0)
        (report,) = measure_peers([OVERLAP], Corpora(timed_corpus(suite, 6, 10)), place(tmp_path, lm), sizes)
    assert report.rounds <= 1 and not (tmp_path / "overlap-round-2").exists()


def test_a_suite_is_cut_to_whole_scopes_and_a_small_part_has_the_texts_that_its_questions_need(suite: Path):
    corpus = small_corpus(suite, 2, 10)
    (question,) = corpus.questions
    assert {t.scope for t in corpus.texts} == {question.scope} and len(corpus.texts) == 2
    assert corpus.qrels[question.query_id].keys() <= {t.text_id for t in corpus.texts}
    corpus = suite_corpus(suite, 4, 10)
    assert len(corpus.texts) == 3 and len({text.scope for text in corpus.texts}) == 1
    assert [q.scope for q in corpus.questions] == [corpus.texts[0].scope]
    assert corpus.texts[0].words == "Ada: The cat sleeps"
    with pytest.raises(PalimpsestError, match="no scope with a judged query has at most 2 texts"):
        suite_corpus(suite, 2, 10)


def test_a_stale_memory_counts_only_where_a_person_wrote_it_down_and_every_peer_has_a_lock():
    scores = demo().score({"d1": ["old", "new"]})
    assert (scores.questions, scores.stale, scores.recall) == (1, 0.2, 1.0)
    assert demo().score({"d1": ["new"]}).stale == 0
    assert {p.venv for p in PEERS if p.venv} == {path.stem for path in LOCKS.glob("*.txt")}
    assert all(peer.version[0].isdigit() for peer in PEERS)


def test_one_text_in_a_hundred_changes_and_another_one_is_named_by_the_caller(tmp_path: Path):
    texts = [Text(str(i), "", f"text {i}", {"_id": str(i), "text": f"text {i}"}) for i in range(300)]
    files = write_corpus(Corpus("many", texts, [], {}), tmp_path / "many", is_timed=True)
    before, after, updated = (read_texts(path) for path in (files.texts, files.changed, files.updated))
    changed = [a for a, b in zip(after, before, strict=True) if a != b]
    assert len(changed) == len(updated) == 300 * CHANGED_SHARE
    assert changed[0].row["text"] == "text 0 Corrected once." == changed[0].words
    assert not {t.text_id for t in changed} & {t.text_id for t in updated}


def test_a_process_at_its_limit_leaves_what_it_had_done_and_a_peer_that_is_not_installed_says_so(
    suite: Path, tmp_path: Path
):
    files = write_corpus(suite_corpus(suite, 6, 10), tmp_path / "files", is_timed=False)
    with scripted_lm() as lm:
        run = run_job(OVERLAP, (files,), place(tmp_path, lm), "job", limit_s=0.01)
    assert run.result.error == "ended at its limit of 0 s"
    assert read_result(tmp_path / "job" / "result.json").peak_mb == run.result.peak_mb
    files = write_corpus(suite_corpus(suite, 6, 10), tmp_path / "other", is_timed=False)
    with scripted_lm() as lm:
        run = run_job(find_peers("txtai")[0], (files,), place(tmp_path / "other_place", lm), "job", limit_s=10)
    assert run.result.error == "not installed: txtai"


def test_an_unknown_peer_and_a_missing_folder_are_one_line(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_peers"])
    for options, message in (
        (["--peers", "nobody"], "error: --peers nobody: not one of"),
        (["--suites", str(tmp_path / "none")], "error: --suites"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["--out", str(tmp_path / "out"), *options])
        assert stopped.value.code == 2
        assert capsys.readouterr().err.startswith(message)
