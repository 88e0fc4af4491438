"""Reads sources in worker processes, so that no file can hang, end or fill the build that reads it.

A thread for each worker sends it a path and waits for its response; the worker limits its own time and memory.
"""

import json
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from palimpsest.core.errors import Rejected
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, ReadResult
from palimpsest.sources.records.scope import Scope
from palimpsest.sources.workers.worker_process import WorkerProcess
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_MAX_WORKERS = 2
_PATIENCE_S = 1.0
_FEW_SOURCES = 64
_MAX_PENDING = 16  # sources read ahead of the consumer: bounds the memory of their results


def read_sources(
    items: Iterable[tuple[Path, str]],
    limits: Limits | None = None,
    workers: int | None = None,
    dates: DateOrder | None = None,
    defaults: Scope | None = None,
) -> Iterator[tuple[str, ReadResult]]:
    """Yields (uri, result) of each source, in the order of `items`.

    Workers are reused. A source that ends its worker, or takes all its memory, may do so because of sources before it:
    it is read once more in a new worker, and rejected when that fails too.

    Args:
        items: (path, uri relative to the collection).
        limits: of each source; the defaults when null.
        workers: processes at most; by the number of processors when null.
        dates: which part comes first in dates of three numbers.
        defaults: the user and project of texts that state none.

    Raises:
        ComponentFailed: no worker can be started.
    """
    size = workers or min(_MAX_WORKERS, os.cpu_count() or 1)
    all_workers = [_Worker(limits or Limits(), dates, defaults or Scope()) for _ in range(size)]
    team = _Team(all_workers)

    def read(path: Path, uri: str) -> ReadResult:
        worker = team.take()
        try:
            return worker.read(path, uri)
        finally:
            team.put(worker)

    threads = ThreadPoolExecutor(size)
    pending: deque[tuple[str, Future[ReadResult]]] = deque()
    try:
        for path, uri in items:
            pending.append((uri, threads.submit(read, path, uri)))
            if len(pending) > _MAX_PENDING:
                first, result = pending.popleft()
                yield first, result.result()
        for first, result in pending:
            yield first, result.result()
    finally:
        for worker in all_workers:
            worker.stop()
        threads.shutdown(cancel_futures=True)
        for worker in all_workers:
            worker.end()


class _Team:
    """Workers of which one begins; another joins when a source waits for long or there are many sources.

    A worker takes half a second of processor time to start: for a few short texts one is enough.
    """

    def __init__(self, workers: Sequence["_Worker"]) -> None:
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._spare, self._taken, self._lock = list(workers), 0, threading.Lock()

    def take(self) -> "_Worker":
        """Returns a worker that reads nothing now; waits for one."""
        with self._lock:
            self._taken += 1
            patience_s = _PATIENCE_S if 1 < self._taken <= _FEW_SOURCES else 0.0
        with suppress(Empty):
            return self._idle.get(timeout=patience_s) if patience_s else self._idle.get_nowait()
        with self._lock:
            joining = self._spare.pop() if self._spare else None
        return joining or self._idle.get()

    def put(self, worker: "_Worker") -> None:
        """Takes a worker back."""
        self._idle.put(worker)


class _Worker:
    """Reads sources in one worker process."""

    def __init__(self, limits: Limits, dates: DateOrder | None, defaults: Scope) -> None:
        arguments = (dates or "", json.dumps(defaults))
        self._limits = limits
        self._process = WorkerProcess("palimpsest.sources.workers.process", limits, arguments)
        self.stop, self.end = self._process.stop, self._process.end

    def read(self, path: Path, uri: str) -> ReadResult:
        size = path.stat().st_size if path.exists() else 0
        response = cast(dict[str, Any], self._process.request([str(path), uri], self._limits.seconds_for(size)))
        if "reason" in response:
            return Rejected(response["reason"])
        documents = tuple(ExtractedDocument.from_json(d) for d in response["documents"])
        return Extraction(documents, tuple(response["problems"]), response["left_out"])
