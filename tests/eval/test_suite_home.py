"""The home of a suite: what another process has begun is never removed."""

from pathlib import Path

import pytest

from palimpsest.store.home import Home
from palimpsest_eval.runs import suite_runs

BEGUN = "begun.txt"


class Stopped(Exception):
    """Ends a build."""


def test_a_home_that_is_not_published_is_built_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bees"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "bees make honey"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "honey?"}\n')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    monkeypatch.setenv("PALIMPSEST_CACHE", str(tmp_path / "cache"))
    found: list[bool] = []

    def stop(home: Home, _: object) -> None:
        found.append((home.path / BEGUN).exists())
        (home.path / BEGUN).touch()
        raise Stopped

    monkeypatch.setattr(suite_runs, "run_without_dagster", stop)
    for _ in range(2):
        with pytest.raises(Stopped):
            suite_runs.suite_home(folder)
    assert found == [False, True]
