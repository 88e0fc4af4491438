"""What a process of Ray runs: it checks once that it computes as the build's process does, then computes batches."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from palimpsest.core.batches.batch import BatchWork, Item, Result
from palimpsest.core.errors import first_line_of


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
