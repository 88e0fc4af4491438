"""Batches on a Ray cluster: Ray schedules, moves data and runs a batch again whose node died.

A batch is a Ray task. Its result is fetched as soon as it is there and never computed again, so that a node that dies
costs only the batches that were running on it. A node that was refused is left out by Ray's own label selector.
"""

import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic

from palimpsest.core.batches.batch import Batch, BatchWork, Item, Result
from palimpsest.core.batches.ray_address import check_address, check_cluster, no_cluster
from palimpsest.core.batches.ray_worker import Refusal, compute_batch
from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.core.progress import say

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
