"""Batches on a Ray cluster: Ray schedules, moves data and runs a batch again whose node died.

A batch is a Ray task. Its result is fetched as soon as it is there and never computed again, so that a node that dies
costs only the batches that were running on it. A node that was refused is left out by Ray's own label selector.
"""

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.core.parallel import Batch, BatchWork, Item, Result
from palimpsest.core.progress import say

# Does a Ray cluster answer at an address? Ray itself tries for minutes where nothing, or something else, answers.

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
