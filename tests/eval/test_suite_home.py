"""The home of a suite: one that is half built or damaged is built anew; vectors and paid answers remain."""

from collections.abc import Callable
from pathlib import Path

import pytest

from palimpsest.query import rerank
from palimpsest.store.home import Home
from palimpsest_eval.golden import retrieval_run
from palimpsest_eval.runs import suite_runs
from palimpsest_eval.runs.suite_runs import suite_home


class Stopped(Exception):
    """Ends a build."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bees"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "bees make honey"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "honey?"}\n')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    monkeypatch.setenv("PALIMPSEST_CACHE", str(tmp_path / "cache"))
    return folder


def test_an_interrupted_build_is_begun_anew_with_the_answers_that_were_paid(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[list[str]] = []

    def stop(home: Home, _: object) -> None:
        found.append(sorted(path.name for path in home.path.rglob("*.txt")))
        (home.builds / "000001").mkdir()
        (home.builds / "000001" / "begun.txt").touch()
        (home.path / f"{home.lm_ledger.name}-answers.txt").touch()
        raise Stopped

    monkeypatch.setattr(suite_runs, "run_without_dagster", stop)
    for _ in range(2):
        with pytest.raises(Stopped):
            suite_home(folder)
    assert found == [[], ["lm-ledger.sqlite-answers.txt"]]
    assert capsys.readouterr().err.count("its build was interrupted; it is built anew\n") == 1


def _cut(name: str) -> Callable[[Home], None]:
    def cut(home: Home) -> None:
        (path,) = home.path.rglob(name)
        path.write_bytes(path.read_bytes()[:20])

    return cut


def _unpublish(home: Home) -> None:
    """As a home is whose process was killed while its ingest log was written."""
    (home.path / "published.json").unlink()
    for path in home.log.rglob("*.parquet"):
        path.write_bytes(b"PAR1")


def test_a_damaged_home_is_built_anew_and_a_whole_one_is_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = suite_home(folder)[1]
    faults = {
        "published.json is damaged": _cut("published.json"),
        "index.duckdb is damaged": _cut("index.duckdb"),
        "memories.parquet is damaged": _cut("memories.parquet"),
        "manifest.json is damaged": _cut("manifest.json"),
        "format.json is damaged": _cut("format.json"),
        "its build was interrupted": _unpublish,
    }
    for fault, damage in faults.items():
        damage(suite_home(folder)[0])
        capsys.readouterr()
        measured = suite_runs.measure(folder, None, "auto", 100, None)
        lines = [line for line in capsys.readouterr().err.splitlines() if "built anew" in line]
        assert len(lines) == 1 and fault in lines[0], (fault, lines)
        assert measured.build["digest"] == first["digest"] and measured.metrics["R@5"] == 1.0
    suite_home(folder)
    assert "built anew" not in capsys.readouterr().err


def test_what_was_read_in_one_run_is_not_read_in_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, line in (("queries.jsonl", '{"_id": "r", "text": "bees?"}'), ("qrels.tsv", "r\ta\t1")):
        (folder / name).write_text(f"{(folder / name).read_text()}{line}\n")
    monkeypatch.setattr(retrieval_run, "TIMED", 1)  # that question is read again, for its time
    read, questions = rerank._read, list[str]()

    def record(question: str, line: str) -> float:
        questions.append(question)
        return read(question, line)

    monkeypatch.setattr(rerank, "_read", record)
    first, second = (suite_runs.measure(folder, None, "auto", 100, None).metrics for _ in range(2))
    assert first == second and questions.count("bees?") == 1 and questions.count("honey?") == 4
