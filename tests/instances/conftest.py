"""A built home, and folders of the user that a test may fill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from palimpsest.cli.processes import BUILDS, SERVICE, stop
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home
from tests.small_corpus import copy_built, write_notes


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory, shared_vectors: Path) -> Path:
    base = tmp_path_factory.mktemp("instances")
    corpus = write_notes(base / "corpus", {"a.md": "The bridge is 40 metres long.\n"}, user_id="ann")
    run_without_dagster(Home(base / "home", shared_vectors), make_plan(Home(base / "home", shared_vectors), [corpus]))
    return base


@pytest.fixture
def home(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A copy of the built home whose service is stopped afterwards; a key for tokens is set."""
    monkeypatch.setenv("PALIMPSEST_JWT_SECRET", "k" * 48)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    copy = copy_built(built, tmp_path)[0]
    yield copy
    for component in (BUILDS, SERVICE):
        stop(copy, component)
