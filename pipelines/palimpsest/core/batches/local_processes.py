"""Chunks of many items, computed by as many processes of this machine as there are processors."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from palimpsest.core.batches.batch import Item, Result
from palimpsest.core.errors import ComponentFailed

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
