"""Worker processes as a build has them: started for it, and ended with it."""

import pytest

from palimpsest.sources.worker_pool import WorkerProcess


@pytest.fixture(autouse=True)
def _own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palimpsest.sources.worker_pool.WorkerProcess", WorkerProcess)
