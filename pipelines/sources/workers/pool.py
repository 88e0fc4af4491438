"""Reads sources in worker processes, so that no file can hang, end or fill the build that reads it.

A thread for each worker sends it a path and waits for a line of JSON; the worker limits its own time and memory.
Process pools (multiprocessing, Pebble 5.2) were tried and not used: their workers inherit the environment, so that
`/proc/self/environ` shows a build's secrets to whatever the file makes a parser open; they import the caller's main
module; a daemon cannot have them; and they unpickle here what comes from a process that parsed a hostile file.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, cast

from palimpsest.core.errors import ComponentFailed, Rejected
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, ReadResult
from palimpsest.sources.records.scope import Scope
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_MAX_WORKERS = 2
_PATIENCE_S = 1.0
_FEW_SOURCES = 64
_MAX_PENDING = 16  # sources read ahead of the consumer: bounds the memory of their results
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


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
    """One worker process: started when it is needed, and again after each end."""

    def __init__(self, limits: Limits, dates: DateOrder | None, defaults: Scope) -> None:
        self._limits, self._dates, self._defaults, self._is_stopped = limits, dates, defaults, False
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path, uri: str) -> ReadResult:
        response = self._request(path, uri)
        if response.get("again") and not self._is_stopped:
            self.end()
            response = self._request(path, uri)
        if "reason" in response:
            return Rejected(response["reason"])
        documents = tuple(ExtractedDocument.from_json(d) for d in response["documents"])
        return Extraction(documents, tuple(response["problems"]), response["left_out"])

    def _request(self, path: Path, uri: str) -> dict[str, Any]:
        """Returns the worker's response, see `process`, or one that says why there is none."""
        process = self._process or self._start()
        requests, responses = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        with suppress(BrokenPipeError):  # it ended between two sources: there is no response
            requests.write(json.dumps([str(path), uri]) + "\n")
            requests.flush()
        if (line := responses.readline()).endswith("\n"):
            response: dict[str, Any] = json.loads(line)
            return response
        self.end()
        code = process.returncode
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            spent = f"took longer than {self._limits.max_seconds:g} seconds"
            return {"reason": f"timed out: reading {spent}; split or simplify it, or raise limits.max_seconds"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"it ended the reader process ({name}): damaged, hostile or too large; export it again or split it"
        return {"reason": reason, "again": True}

    def _start(self) -> subprocess.Popen[str]:
        environment = {k: v for k in _ENVIRONMENT if (v := os.environ.get(k)) is not None}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # -P: a docx.py in the folder where the build was started is not the library.
        command = [sys.executable, "-P", "-m", "palimpsest.sources.workers.process"]
        command += [self._limits.model_dump_json(), self._dates or "", json.dumps(self._defaults)]
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603
                command,
                env=environment,
                encoding="ascii",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            if cast(IO[str], self._process.stdout).readline():
                return self._process
        raise ComponentFailed("a reader process does not start; free memory or processes, or run palimpsest doctor")

    def stop(self) -> None:
        self._is_stopped = True
        if process := self._process:
            process.kill()

    def end(self) -> None:
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()
