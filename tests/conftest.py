"""Shared by all tests: nothing of a test lands in the user's folders, and versions are in the header.

`tests/README.md` lists the fixtures and how tests are spread over processes.
"""

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings
from psutil import virtual_memory

from palimpsest.core.imports import import_with_json_schema
from palimpsest.store.home import Home
from tests.kept_readers import KeptWorkerProcess, end_kept
from tests.kept_readings import read_once

# Many tests start processes: without compiled modules each would compile all of the project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A build flushes some sixty files: in memory, where there is room and programs may run, that takes no time.
_MEMORY_DISK, _ROOM = Path("/dev/shm"), 8 << 30
if (
    _MEMORY_DISK.is_dir()
    and not os.statvfs(_MEMORY_DISK).f_flag & os.ST_NOEXEC
    and min(shutil.disk_usage(_MEMORY_DISK).free, virtual_memory().available) > _ROOM
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY_DISK))

import_with_json_schema("jsonschema")  # before a test module imports it with its grammar, 3 s of each process

# A test that waits for a processor is no slow one.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# One home; one Neo4j server; one home, and one kernel after another; one home behind the service.
_TOGETHER = ("tests/instances", "tests/neo4j_graph", "tests/notebooks", "tests/serve")
_LONGEST = (
    "tests/serve",
    "tests/neo4j_graph",
    "tests/notebooks",
    "tests/build/test_delete.py",
    "tests/build/test_lm_faults.py",
    "tests/cli/test_cli.py",
    "tests/orchestration/test_postgres.py",
    "tests/store/remote/test_races.py",
    "tests/instances",
    "tests/orchestration/test_schedule.py",
    "tests/chaos/test_histories.py",
)


def pytest_report_header() -> str:
    names = ("palimpsest-memory", "dagster", "duckdb", "polars", "torch", "sentence-transformers", "onnxruntime")
    return "versions: " + ", ".join(f"{n} {version(n)}" for n in names)


def _group(nodeid: str) -> str:
    """Returns the group that a test is of: its file, or the folder of those that share a costly fixture."""
    file = nodeid.split("::")[0]
    return next((folder for folder in _TOGETHER if file.startswith(f"{folder}/")), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns how many processes `-n auto` means: one more than processors, for many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Runs each group in one process. pytest-xdist's own `loadgroup` does not see its marks under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under pytest-xdist the longest groups come first, so that no process ends with one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        order = {name: place for place, name in enumerate(_LONGEST)}
        items.sort(key=lambda item: order.get(_group(item.nodeid), len(order)))


def pytest_collection_finish() -> None:
    """What test modules import stays: a collection of garbage need not look at it again, half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the home, cache, settings or Dagster instance of whoever runs it."""
    base = tmp_path_factory.mktemp("own", numbered=True)
    monkeypatch.setenv("PALIMPSEST_CONFIG", "off")
    monkeypatch.setenv("PALIMPSEST_HOME", str(base / "home"))
    monkeypatch.setenv("PALIMPSEST_CACHE", str(base / "cache"))
    monkeypatch.setenv("PALIMPSEST_NEO4J_HOME", str(base / "neo4j"))
    settings = ("DAGSTER_HOME", "PALIMPSEST_LM", "PALIMPSEST_LABELER", "PALIMPSEST_DATA", "PALIMPSEST_EMBEDDER")
    for name in (*settings, "NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "NEO4J_DATABASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _kept_readers() -> Iterator[None]:
    """Builds of this process share the processes that read sources; tests/sources/workers tests those as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palimpsest.sources.worker_pool.WorkerProcess", KeptWorkerProcess)
        patch.setattr("palimpsest.sources.crawl.read_page.WorkerProcess", KeptWorkerProcess)
        yield
    end_kept()


@pytest.fixture(scope="session", autouse=True)
def _kept_readings() -> Iterator[None]:
    """Builds of this process read no list of candidates twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palimpsest.relations.labelers.change_encoder.ChangeEncoder._run", read_once)
        yield


@pytest.fixture(scope="session")
def shared_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store of vectors for all homes of a test process: no text is embedded twice."""
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="session")
def embed_corpus(tmp_path_factory: pytest.TempPathFactory, shared_vectors: Path) -> Callable[[Path, Path], Path]:
    """Returns a function (home, corpus) -> home that stores the vectors of a corpus in a home.

    A command that builds the home afterwards need not load torch, which takes ten seconds of processor time.
    """
    from palimpsest.pipeline.plan import make_plan, stage_context
    from palimpsest.pipeline.run_stage import run_stage
    from palimpsest.pipeline.stages import STAGES

    def embed(home: Path, corpus: Path) -> Path:
        scratch = Home(tmp_path_factory.mktemp("embedded") / "home", shared_vectors)
        scratch.create()
        for name, folder in make_plan(scratch, [corpus]).collections.items():
            part = stage_context(scratch, name, folder)
            for stage in list(STAGES)[: list(STAGES).index("embeddings") + 1]:
                run_stage(part, stage)
        shutil.copytree(shared_vectors, Home(home).embeddings, copy_function=os.link, dirs_exist_ok=True)
        return home

    return embed
