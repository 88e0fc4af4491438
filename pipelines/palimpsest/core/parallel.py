"""Batches of items, and the processes that compute them: of this machine, or of a Ray cluster."""

import logging
import os
import socket
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import psutil

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.core.files import say
from palimpsest.core.ids import content_id

if TYPE_CHECKING:
    import polars as pl

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """A batch.

    Attributes:
        key: hash of the items.
        rows: where each item is in the sequence that was cut into batches.
        items: what is computed at once.
    """

    key: str
    rows: tuple[int, ...]
    items: tuple[Item, ...]


class BatchWork(Protocol[Item, Result]):
    """What is computed of a batch. Hashable and small: it says what to load, and is sent to every worker."""

    def __hash__(self) -> int:
        """Returns a hash; a worker loads equal work once."""

    @property
    def name(self) -> str:
        """A verb, for messages."""

    def load(self) -> Callable[[Sequence[Item]], Result]:
        """Returns the function from items to a result; models are loaded once a process."""

    def probe(self, compute: Callable[[Sequence[Item]], Result]) -> str:
        """Returns a hash of what fixed items give, equal on two machines only where all results are equal in each bit.

        Args:
            compute: what `load` returned.
        """


class BatchRunner(Protocol):
    """Computes batches in other processes."""

    def run(
        self, work: BatchWork[Item, Result], batches: Sequence[Batch[Item]]
    ) -> Iterator[tuple[Batch[Item], Result]]:
        """Yields every batch once, with its result, as it finishes.

        Raises:
            ComponentFailed: no worker computes as this process does, or one failed and retries did not help.
        """


def cut(rows: Sequence[int], items: Sequence[Item], size: int, texts: Callable[[Item], str]) -> list[Batch[Item]]:
    """Returns batches of `size` items, the last one of fewer.

    Args:
        rows: which items, and in which order.
        items: what the rows refer to.
        size: items of a batch.
        texts: what of an item its key is made of.
    """
    batches = []
    for start in range(0, len(rows), size):
        part = tuple(rows[start : start + size])
        chosen = tuple(items[row] for row in part)
        batches.append(Batch(content_id(*map(texts, chosen)), part, chosen))
    return batches


# Where batches are computed: `PALIMPSEST_BATCHES` is local (the default) or ray.

RUNNERS = ("local", "ray")


def configured_runner() -> BatchRunner | None:
    """Returns what computes batches in other processes; None where this process computes everything itself.

    Raises:
        PalimpsestError: there is no runner of the name that the environment sets.
    """
    name = os.environ.get("PALIMPSEST_BATCHES") or "local"
    if name not in RUNNERS:
        raise PalimpsestError(
            f"PALIMPSEST_BATCHES: {name[:40]!r} must be one of {', '.join(RUNNERS)}; set one or unset it"
        )
    if name == "local":
        return None

    return RayRunner(os.environ.get("RAY_ADDRESS") or "")


# The rows of a frame as a sequence whose tuples are made when a slice is taken.


class FrameRows(Sequence[tuple[Any, ...]]):
    """The rows of a frame as tuples. A million texts as Python strings take half a gigabyte."""

    def __init__(self, frame: "pl.DataFrame") -> None:
        self._frame = frame

    def __len__(self) -> int:
        """Returns the number of rows."""
        return self._frame.height

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields each row."""
        return self._frame.iter_rows()

    @overload
    def __getitem__(self, index: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        """Returns a row, or the rows of a slice."""
        return self._frame.row(index) if isinstance(index, int) else self._frame[index].rows()


# Chunks of many items, computed by as many processes of this machine as there are processors.

MIN_CHUNKS = 8
"""Fewer are computed in this process: others first import libraries and load a model for some seconds."""

_IDLE_S = 20


def map_chunks(
    compute: Callable[[Sequence[Item]], Result], items: Sequence[Item], size: int, what: str
) -> Iterator[Result]:
    """Returns an iterator of what `compute` returns of each chunk of items, in order.

    Where there are several processors and `MIN_CHUNKS` chunks, processes begin at once and go on while the caller does
    something else; else a chunk is computed when its result is taken. All iterators share the processes: one that is
    dropped before its end ends the others' too.

    Args:
        compute: a function of a module; its results do not depend on which chunks it computed before.
        items: what is cut into chunks.
        size: items of a chunk; the last chunk has fewer.
        what: a verb, for messages.

    Raises:
        ComponentFailed: from the iterator: a process was ended from outside, as the system does where memory is short.
    """
    chunks = (items[start : start + size] for start in range(0, len(items), size))
    if len(items) < MIN_CHUNKS * size:
        return map(compute, chunks)
    from joblib import Parallel, cpu_count, delayed

    # max_nbytes: joblib would write large arguments to files. Processes whose build was killed end by the timeout.
    run = Parallel(n_jobs=cpu_count(), return_as="generator", max_nbytes=None, idle_worker_timeout=_IDLE_S)
    return _Results(run(delayed(compute)(chunk) for chunk in chunks), what)


class _Results(Iterator[Result], Generic[Result]):
    """The results of processes. Dropped before its end, it ends them without the warning that joblib prints."""

    def __init__(self, results: Iterator[Result], what: str) -> None:
        self._results, self._what = results, what

    def __next__(self) -> Result:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        try:
            return next(self._results)
        except TerminatedWorkerError:
            raise ComponentFailed(
                f"{self._what}: a process of this build was ended from outside, mostly for want of memory; free memory "
                "or set LOKY_MAX_CPU_COUNT=1, and run palimpsest build again, which continues with what is missing"
            ) from None

    def __del__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._results.close()  # type: ignore[attr-defined]


# Identity of processes on this machine: a process id alone may have been given to another process since.


def process_started(pid: int) -> str | None:
    """Returns when a process began, in clock ticks since the machine booted; None where it does not run.

    Ticks since boot, as Linux counts them in /proc, do not change when the machine's clock is set.
    """
    created_s = process_created_s(pid)
    if not created_s:
        return None if created_s is None else "running"
    return str(round((created_s - psutil.boot_time()) * os.sysconf("SC_CLK_TCK")))


def process_created_s(pid: int) -> float | None:
    """Returns when a process began, in seconds since 1970; None where it does not run, 0 where nobody may know.

    Another user's process runs, and cannot be distinguished from one that had its id before.
    """
    try:
        process = psutil.Process(pid)
        is_over = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if is_over else process.create_time()
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return 0.0


# Does a Ray cluster answer at an address? Ray itself tries for minutes where nothing, or something else, answers.


# Batches on a Ray cluster: Ray schedules, moves data and runs a batch again whose node died.
#
# A batch is a Ray task. Its result is fetched as soon as it is there and never computed again, so that a node that dies
# costs only the batches that were running on it. A node that was refused is left out by Ray's own label selector.

_CONNECT_S, _STATUS_S = 5.0, 25.0
_STATUS = (sys.executable, "-m", "ray.scripts.scripts", "status", "--address")
_HERE = ("", "local")
"""A Ray of this process is started."""


def check_address(address: str) -> None:
    """Opens a connection to an address and closes it, in 5 seconds at most.

    Raises:
        PalimpsestError: this is no address of a cluster.
        ComponentFailed: nothing answers there.
    """
    if address in (*_HERE, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise PalimpsestError(f"RAY_ADDRESS: {address[:80]!r} must be HOST:PORT or auto; correct it or unset it")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, UnicodeError) as e:
        raise ComponentFailed(no_cluster(address[:80], str(e))) from None


def check_cluster(address: str) -> None:
    """Runs `ray status` at an address, for 25 seconds at most: what accepts connections there may not be Ray.

    Raises:
        ComponentFailed: no Ray cluster answers there.
    """
    if address in _HERE:
        return
    try:
        done = subprocess.run(  # noqa: S603
            [*_STATUS, address], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_STATUS_S
        )
    except subprocess.TimeoutExpired:
        reason = f"what accepts connections there did not answer as Ray within {_STATUS_S:.0f} s"
        raise ComponentFailed(no_cluster(address, reason)) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"ray status ended with {done.returncode}"])[-1]
        raise ComponentFailed(no_cluster(address, last[:160]))


def no_cluster(address: str, reason: str) -> str:
    """Returns the message for an address where there is no cluster."""
    advice = "start one with ray start --head, or unset PALIMPSEST_BATCHES"
    return f"RAY_ADDRESS: no Ray cluster at {address or 'this machine'} ({reason}); {advice}"


# What a process of Ray runs: it checks once that it computes as the build's process does, then computes batches.


@dataclass(frozen=True)
class Refusal:
    """A worker that must not compute.

    Attributes:
        node_id: Ray's id of its node.
        host: name of that machine.
        reason: why.
    """

    node_id: str
    host: str
    reason: str


class _ProbeDiffers(Exception):
    """Probe items give another result here."""


def compute_batch(work: BatchWork[Item, Result], expected: str, items: Sequence[Item]) -> Result | Refusal:
    """Returns the result of a batch, or why this worker may not compute it.

    Args:
        work: what is computed.
        expected: what `work.probe` gave in the build's process.
        items: of the batch.
    """
    try:
        compute: Callable[[Sequence[Item]], Result] = _join(work, expected)
    except _ProbeDiffers:
        return _refusal("probe items give other bits there: another processor, library or version")
    except Exception as e:  # whatever a worker fails with while it loads, the others may not
        return _refusal(f"cannot load what it needs ({type(e).__name__}: {first_line_of(e)})")
    return compute(items)


@lru_cache(maxsize=8)
def _join(work: BatchWork[Item, Result], expected: str) -> Callable[[Sequence[Item]], Result]:
    compute = work.load()
    if work.probe(compute) != expected:
        raise _ProbeDiffers
    return compute


def _refusal(reason: str) -> Refusal:
    import ray

    return Refusal(ray.get_runtime_context().get_node_id(), socket.gethostname(), reason)


CPUS_PER_WORKER = 2
"""As many threads as the embedder and the pair encoder have."""
MIN_BATCHES = 4
"""Fewer are computed in this process: workers take longer to load a model."""
QUEUED_PER_WORKER = 2
"""Batches in flight: one runs, one waits at the node."""
_RETRIES = 3
_NODES_EVERY_S = 2.0
_AGAIN = "run palimpsest build again, which continues with what is missing"


class RayRunner:
    """See BatchRunner."""

    def __init__(self, address: str):
        """Makes a runner; it connects when it first has enough batches.

        Args:
            address: of a cluster that this machine is a node of; empty for one that lasts as long as this process.
        """
        self._address = address

    def run(
        self, work: BatchWork[Item, Result], batches: Sequence[Batch[Item]]
    ) -> Iterator[tuple[Batch[Item], Result]]:
        """Yields every batch once, with its result, as it finishes; see BatchRunner."""
        compute = work.load()
        if len(batches) < MIN_BATCHES:
            yield from ((batch, compute(batch.items)) for batch in batches)
            return
        _connect(self._address)
        yield from _Run(work, batches, work.probe(compute)).results()


def _connect(address: str) -> None:
    """Connects this process to Ray, once; nothing is sent to Ray's makers.

    Raises:
        PalimpsestError: this is no address of a cluster.
        ComponentFailed: no cluster answers there.
    """
    check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.exceptions import RayError

    if ray.is_initialized():
        return
    check_cluster(address)
    options: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, RayError) as e:
        reason = first_line_of(e)
        raise ComponentFailed(no_cluster(address, reason)) from None


class _Run(Generic[Item, Result]):
    """Batches in flight in a cluster."""

    def __init__(self, work: BatchWork[Item, Result], batches: Sequence[Batch[Item]], expected: str):
        import ray

        self._work, self._expected = work, expected
        self._waiting = deque(batches)
        self._running: dict[Any, Batch[Item]] = {}
        self._refused: dict[str, Refusal] = {}
        self._task: Any = ray.remote(compute_batch)

    def results(self) -> Iterator[tuple[Batch[Item], Result]]:
        """Yields each batch with its result, as it finishes."""
        import ray

        try:
            while self._waiting or self._running:
                room = QUEUED_PER_WORKER * self._count_workers()
                while self._waiting and len(self._running) < room:
                    self._submit(self._waiting.popleft())
                finished, _ = ray.wait(list(self._running), timeout=_NODES_EVERY_S)
                for reference in finished:
                    batch = self._running.pop(reference)
                    result = self._fetch(reference)
                    if isinstance(result, Refusal):
                        self._refuse(result)
                        self._waiting.appendleft(batch)
                    else:
                        yield batch, result
        finally:
            for reference in self._running:
                ray.cancel(reference)

    def _submit(self, batch: Batch[Item]) -> None:
        allowed = {"ray.io/node-id": f"!in({','.join(self._refused)})"} if self._refused else {}
        task = self._task.options(
            name=f"{self._work.name} {batch.key}",
            num_cpus=CPUS_PER_WORKER,
            max_retries=_RETRIES,
            scheduling_strategy="SPREAD",
            label_selector=allowed,
        )
        self._running[task.remote(self._work, self._expected, batch.items)] = batch

    def _fetch(self, reference: Any) -> Result | Refusal:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            result: Result | Refusal = ray.get(reference)
        except RayTaskError as e:
            if isinstance(e.cause, PalimpsestError):
                raise e.cause from None
            reason = first_line_of(e.cause)
            raise ComponentFailed(f"batches: {self._work.name} failed in a Ray worker ({reason}); {_AGAIN}") from None
        except RayError as e:
            raise ComponentFailed(
                f"batches: {self._work.name}: Ray gave up on a batch ({type(e).__name__}, {_RETRIES} retries); {_AGAIN}"
            ) from None
        return result

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.node_id not in self._refused:
            self._refused[refusal.node_id] = refusal
            say(f"batches: node {refusal.host} ({refusal.node_id[:8]}) is refused: {refusal.reason}")

    def _count_workers(self) -> int:
        """Returns how many batches the nodes that are not refused can compute at once.

        Raises:
            ComponentFailed: there is no such node.
        """
        nodes = [n for n in _nodes() if n["Alive"] and n["NodeID"] not in self._refused]
        if workers := sum(_workers_of(node) for node in nodes):
            return workers
        if not self._refused:
            raise ComponentFailed(
                f"batches: no node of the Ray cluster has {CPUS_PER_WORKER} processors; add one with ray start, then "
                f"{_AGAIN}"
            )
        names = ", ".join(f"{r.host} ({i[:8]}): {r.reason}" for i, r in sorted(self._refused.items()))
        raise ComponentFailed(
            f"batches: every Ray node is refused for {self._work.name}: {names}; use nodes like this machine with the "
            f"same palimpsest-memory, or unset PALIMPSEST_BATCHES; {_AGAIN}"
        )


def _nodes() -> list[dict[str, Any]]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return nodes


def _workers_of(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0)) // CPUS_PER_WORKER
