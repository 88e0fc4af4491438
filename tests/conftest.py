"""Shared by all tests: nothing of a test lands in the user's folders, and versions are told in the header."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest


def pytest_report_header() -> str:
    names = ("palimpsest-memory", "dagster", "duckdb", "polars", "torch", "sentence-transformers", "onnxruntime")
    return "versions: " + ", ".join(f"{n} {version(n)}" for n in names)


@pytest.fixture(scope="session", autouse=True)
def _labelers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One place for the labeler that all homes of a test run share: it is trained once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALIMPSEST_LABELERS", str(tmp_path_factory.mktemp("labelers")))
        yield


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the home, cache or Dagster instance of whoever runs it."""
    base = tmp_path_factory.mktemp("own", numbered=True)
    monkeypatch.setenv("PALIMPSEST_HOME", str(base / "home"))
    monkeypatch.setenv("PALIMPSEST_CACHE", str(base / "cache"))
    monkeypatch.setenv("PALIMPSEST_NEO4J_HOME", str(base / "neo4j"))
    told = ("DAGSTER_HOME", "PALIMPSEST_LM", "PALIMPSEST_LABELER")
    for name in (*told, "NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "NEO4J_DATABASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store of vectors for all homes of a test run: no text is embedded twice."""
    return tmp_path_factory.mktemp("vectors")
