"""Reads sources in worker processes, so that no file can hang, kill or fill the build that reads it."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import pipelines
from pipelines.corpus.limits import Limits
from pipelines.corpus.types import ExtractedDocument, Extraction
from pipelines.corpus.worker import LENGTH, send
from pipelines.errors import ComponentFailed, Rejected

Outcome = Extraction | Rejected

_MAX_WORKERS = 2
_AHEAD = 32  # sources read before the one whose turn it is: bounds the memory of what waits
_START_SECONDS = 60
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH")


@dataclass(eq=False, slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    deadline: float
    job: "_Job | None" = None
    ready: bool = False
    done: int = 0
    buffer: bytearray = field(default_factory=bytearray)

    @property
    def answers(self) -> BinaryIO:
        return cast(BinaryIO, self.process.stdout)

    @property
    def orders(self) -> BinaryIO:
        return cast(BinaryIO, self.process.stdin)


@dataclass(eq=False, slots=True)
class _Job:
    number: int
    path: Path
    uri: str
    tries: int = 0


def read_sources(
    items: Iterable[tuple[Path, str]], limits: Limits | None = None, workers: int | None = None
) -> Iterator[tuple[str, Outcome]]:
    """Yields (uri, what was read or the rejection) of each source, in the order of `items`.

    Workers are reused from source to source, take nothing from the environment but paths, and are killed and replaced
    when a source takes longer than `max_seconds` or ends them. A worker ended by a source, or out of memory, may be so
    because of sources before it: such a source is read again in a new worker, and rejected only when that ends too.

    Args:
        items: (path, uri relative to the collection).
        limits: bounds; the defaults when null.
        workers: processes at most; by the number of processors when null.

    Raises:
        ComponentFailed: no worker can be started.
    """
    pool = _Pool(limits or Limits(), workers or min(_MAX_WORKERS, os.cpu_count() or 1))
    try:
        yield from pool.run(items)
    finally:
        pool.close()


class _Pool:
    def __init__(self, limits: Limits, size: int) -> None:
        self._limits, self._size = limits, size
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[_Job] = deque()
        self._outcomes: dict[int, Outcome] = {}

    def run(self, items: Iterable[tuple[Path, str]]) -> Iterator[tuple[str, Outcome]]:
        jobs = (_Job(number, path, uri) for number, (path, uri) in enumerate(items))
        order: deque[_Job] = deque()
        more = True
        while more or order:
            while more and len(order) < _AHEAD:
                job = next(jobs, None)
                more = job is not None
                if job:
                    order.append(job)
                    self._waiting.append(job)
            self._assign()
            while order and order[0].number in self._outcomes:
                job = order.popleft()
                outcome = self._outcomes.pop(job.number)
                asked = time.monotonic()
                yield job.uri, outcome
                for worker in self._workers:  # nobody listened meanwhile: that time is not the readers'
                    worker.deadline += time.monotonic() - asked
            if order and order[0].number not in self._outcomes:
                self._listen()

    def _assign(self) -> None:
        idle = [w for w in self._workers if w.ready and w.job is None]
        starting = sum(not w.ready for w in self._workers)
        while self._waiting and idle:
            worker, job = idle.pop(), self._waiting.popleft()
            worker.job = job
            worker.deadline = time.monotonic() + self._limits.max_seconds
            job.tries += 1
            try:
                send(worker.orders, {"path": str(job.path), "uri": job.uri})
            except BrokenPipeError:
                self._ended(worker)
        for _ in range(min(len(self._waiting) - starting, self._size - len(self._workers))):
            self._start()

    def _start(self) -> None:
        root = str(Path(pipelines.__file__).resolve().parent.parent)
        environment = {k: v for k in _ENVIRONMENT if (v := os.environ.get(k)) is not None}
        environment |= {"PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            process = subprocess.Popen(  # noqa: S603 (the interpreter that runs this, no shell)
                [sys.executable, "-m", "pipelines.corpus.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as e:
            raise ComponentFailed(f"no reader process can be started: {e.strerror}; free memory or processes") from None
        worker = _Worker(process, time.monotonic() + _START_SECONDS)
        os.set_blocking(worker.answers.fileno(), False)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        try:
            send(worker.orders, self._limits.model_dump())
        except BrokenPipeError:
            self._ended(worker)

    def _listen(self) -> None:
        soonest = min((w.deadline for w in self._workers if w.job or not w.ready), default=time.monotonic())
        for key, _ in self._selector.select(max(0.0, soonest - time.monotonic())):
            self._answered(key.data)
        now = time.monotonic()
        for worker in [w for w in self._workers if (w.job or not w.ready) and w.deadline <= now]:
            job = worker.job
            self._end(worker)
            if job is None:
                raise ComponentFailed("a reader process does not start; the machine is too busy: run again")
            self._outcomes[job.number] = Rejected(
                f"timed out: reading took longer than {self._limits.max_seconds:g} seconds; split or simplify it"
            )

    def _answered(self, worker: _Worker) -> None:
        data = worker.answers.read(1 << 20)
        if data == b"":
            self._ended(worker)
            return
        worker.buffer += data or b""
        while len(worker.buffer) >= LENGTH.size:
            size = LENGTH.unpack_from(worker.buffer)[0]
            if len(worker.buffer) < LENGTH.size + size:
                return
            message = json.loads(worker.buffer[LENGTH.size : LENGTH.size + size].decode("utf-8", "surrogatepass"))
            del worker.buffer[: LENGTH.size + size]
            if message.get("ready"):
                worker.ready = True
            else:
                self._finished(worker, message)

    def _finished(self, worker: _Worker, message: dict) -> None:
        job, worker.job = worker.job, None
        assert job is not None
        if message.get("memory"):
            used = worker.done > 0
            self._end(worker)
            if used and job.tries == 1:
                self._waiting.appendleft(job)
                return
        worker.done += 1
        if "reason" in message:
            self._outcomes[job.number] = Rejected(message["reason"])
        else:
            documents = tuple(ExtractedDocument.from_json(d) for d in message["documents"])
            self._outcomes[job.number] = Extraction(documents, tuple(message["problems"]))

    def _ended(self, worker: _Worker) -> None:
        """Takes note that a worker's process is gone."""
        job, used = worker.job, worker.done > 0
        self._end(worker)
        if job is None:
            if not worker.ready:
                raise ComponentFailed("a reader process ends at once; run `palimpsest doctor`")
            return
        if used and job.tries == 1:
            self._waiting.appendleft(job)
            return
        code = worker.process.returncode
        name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        self._outcomes[job.number] = Rejected(
            f"the reader process was ended by it ({name}): damaged or hostile; export it again or remove it"
        )

    def _end(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._selector.unregister(worker.answers)
        worker.process.kill()
        worker.process.wait()
        for pipe in (worker.orders, worker.answers):
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def close(self) -> None:
        for worker in list(self._workers):
            self._end(worker)
        self._selector.close()
