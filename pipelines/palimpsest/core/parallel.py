"""Batches of items, and the processes that compute them: of this machine, or of a Ray cluster (`ray_runner`)."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.ids import content_id

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
    from palimpsest.core.ray_runner import RayRunner

    return RayRunner(os.environ.get("RAY_ADDRESS") or "")


# The rows of a frame as a sequence whose tuples are made when a slice is taken.


class FrameRows(Sequence[tuple[Any, ...]]):
    """The rows of a frame as tuples. A million texts as Python strings take half a gigabyte."""

    def __init__(self, frame: pl.DataFrame) -> None:
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
