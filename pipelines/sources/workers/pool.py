"""Reads sources in worker processes, so that no file can hang, kill or fill the build that reads it.

A thread for each worker sends it a path and waits for a line of JSON; the worker bounds its own time and memory.
Process pools (multiprocessing, Pebble 5.2) were tried and left: their workers inherit the environment, so that
`/proc/self/environ` shows a build's secrets to whatever the file makes a parser open; they import the caller's main
module; a daemon cannot have them; and they unpickle here what comes from a process that parsed a hostile file.
"""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, cast

from palimpsest.core.errors import ComponentFailed, Rejected
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, ReadResult
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_MAX_WORKERS = 2
_AHEAD = 16  # sources read before the one whose turn it is: bounds the memory of what waits
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


def read_sources(
    items: Iterable[tuple[Path, str]],
    limits: Limits | None = None,
    workers: int | None = None,
    dates: DateOrder | None = None,
) -> Iterator[tuple[str, ReadResult]]:
    """Yields (uri, what was read or the rejection) of each source, in the order of `items`.

    Workers are reused. A source that ends its worker, or takes all its memory, may do so because of sources before it:
    it is read once more in a new worker, and rejected when that fails too.

    Args:
        items: (path, uri relative to the collection).
        limits: bounds; the defaults when null.
        workers: processes at most; by the number of processors when null.
        dates: what comes first in dates of three numbers.

    Raises:
        ComponentFailed: no worker can be started.
    """
    size = workers or min(_MAX_WORKERS, os.cpu_count() or 1)
    readers = [_Reader(limits or Limits(), dates) for _ in range(size)]
    idle: SimpleQueue[_Reader] = SimpleQueue()
    for reader in reversed(readers):
        idle.put(reader)

    def read(path: Path, uri: str) -> ReadResult:
        reader = idle.get()
        try:
            return reader.read(path, uri)
        finally:
            idle.put(reader)

    threads = ThreadPoolExecutor(size)
    waiting: deque[tuple[str, Future[ReadResult]]] = deque()
    try:
        for path, uri in items:
            waiting.append((uri, threads.submit(read, path, uri)))
            if len(waiting) > _AHEAD:
                first, outcome = waiting.popleft()
                yield first, outcome.result()
        for first, outcome in waiting:
            yield first, outcome.result()
    finally:
        for reader in readers:
            reader.stop()
        threads.shutdown(cancel_futures=True)
        for reader in readers:
            reader.end()


class _Reader:
    """One worker process: started when it is needed, and again after each end."""

    def __init__(self, limits: Limits, dates: DateOrder | None) -> None:
        self._limits, self._dates, self._stopped = limits, dates, False
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path, uri: str) -> ReadResult:
        answer = self._ask(path, uri)
        if answer.get("again") and not self._stopped:
            self.end()
            answer = self._ask(path, uri)
        if "reason" in answer:
            return Rejected(answer["reason"])
        return Extraction(tuple(ExtractedDocument.from_json(d) for d in answer["documents"]), tuple(answer["problems"]))

    def _ask(self, path: Path, uri: str) -> dict[str, Any]:
        process = self._process or self._start()
        orders, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        with suppress(BrokenPipeError):  # it ended between two sources: there is no answer
            orders.write(json.dumps([str(path), uri]) + "\n")
            orders.flush()
        if (line := answers.readline()).endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.end()
        code = process.returncode
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            spent = f"took longer than {self._limits.max_seconds:g} seconds"
            return {"reason": f"timed out: reading {spent}; split or simplify it, or raise limits.max_seconds"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        told = f"it ended the reader process ({name}): damaged, hostile or too large; export it again or split it"
        return {"reason": told, "again": True}

    def _start(self) -> subprocess.Popen[str]:
        environment = {k: v for k in _ENVIRONMENT if (v := os.environ.get(k)) is not None}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # -P: a docx.py in the folder where the build was started is not the library.
        command = [
            sys.executable,
            "-P",
            "-m",
            "palimpsest.sources.workers.process",
            self._limits.model_dump_json(),
            self._dates or "",
        ]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self._process = subprocess.Popen(command, env=environment, encoding="ascii", **pipes)  # noqa: S603
            if cast(IO[str], self._process.stdout).readline():
                return self._process
        except OSError:
            pass  # told below
        raise ComponentFailed("a reader process does not start; free memory or processes, or run palimpsest doctor")

    def stop(self) -> None:
        self._stopped = True
        if process := self._process:
            process.kill()

    def end(self) -> None:
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()
