"""Reads sources in worker processes, so that no file can hang, end or fill the build that reads it.

A thread for each worker sends it a path and waits for its response; the worker limits its own time and memory.
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
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import ExtractedDocument, Extraction, ReadResult, Scope
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder

# A worker process: started when it is needed, sent one request at a time, and ended where one takes too much.
#
# Process pools (multiprocessing, Pebble 5.2) were tried and not used: their workers inherit the environment, so that
# `/proc/self/environ` shows a build's secrets to whatever the file makes a parser open; they import the caller's main
# module; a daemon cannot have them; and they unpickle here what comes from a process that parsed a hostile file.

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


class WorkerProcess:
    """A process that answers requests within limits; `serve_requests` is its other side."""

    def __init__(self, module: str, limits: Limits, arguments: Sequence[str] = ()) -> None:
        """Prepares it.

        Args:
            module: which is run.
            limits: of each request: time, and memory of the process.
            arguments: of the module, after the limits.
        """
        self._module, self._limits, self._arguments, self._is_stopped = module, limits, arguments, False
        self._process: subprocess.Popen[str] | None = None

    def request(self, request: JsonValue, seconds: float | None = None) -> JsonObject:
        """Returns the response to a request, or `reason`, why there is none.

        A request that ends the process, or takes all its memory, may do so because of requests before it: it is sent
        once more to a new process.

        Args:
            request: what the module takes.
            seconds: of processor time that it may use; None means the limit.

        Raises:
            ComponentFailed: the process cannot be started.
        """
        seconds = seconds or self._limits.max_seconds
        response = self._send(request, seconds)
        if response.get("again") and not self._is_stopped:
            self.end()
            response = self._send(request, seconds)
        return response

    def _send(self, request: JsonValue, seconds: float) -> JsonObject:
        process = self._process or self._start()
        requests, responses = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        with suppress(BrokenPipeError):  # it ended between two requests: there is no response
            requests.write(json.dumps([seconds, request]) + "\n")
            requests.flush()
        if (line := responses.readline()).endswith("\n"):
            response: JsonObject = json.loads(line)
            return response
        self.end()
        code = process.returncode
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            is_limit = seconds >= self._limits.max_seconds
            fix = f"split or simplify it{', or raise limits.max_seconds' if is_limit else ''}"
            return {"reason": f"timed out: reading took longer than {seconds:.3g} seconds; {fix}"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"it ended the reader process ({name}): damaged, hostile or too large; export it again or split it"
        return {"reason": reason, "again": True}

    def _start(self) -> subprocess.Popen[str]:
        environment = {k: v for k in _ENVIRONMENT if (v := os.environ.get(k)) is not None}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # -P: a docx.py in the folder where the build was started is not the library.
        command = [sys.executable, "-P", "-m", self._module, self._limits.model_dump_json(), *self._arguments]
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
        """Ends the process, also while another thread waits for its response; it is not started again."""
        self._is_stopped = True
        if process := self._process:
            process.kill()

    def end(self) -> None:
        """Ends the process; the next request starts it again."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()


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
        self._process = WorkerProcess("palimpsest.sources.worker_process", limits, arguments)
        self.stop, self.end = self._process.stop, self._process.end

    def read(self, path: Path, uri: str) -> ReadResult:
        size = path.stat().st_size if path.exists() else 0
        response = cast(dict[str, Any], self._process.request([str(path), uri], self._limits.seconds_for(size)))
        if "reason" in response:
            return Rejected(response["reason"])
        documents = tuple(ExtractedDocument.from_json(d) for d in response["documents"])
        return Extraction(documents, tuple(response["problems"]), response["left_out"], tuple(response["warnings"]))
