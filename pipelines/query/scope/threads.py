"""Work on the arrays of a large scope in several threads: numpy works on them without Python's lock."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

MANY = 100_000
"""Values that take longer than it takes to start threads for one query; two read memory faster than one."""
_THREADS = min(4, os.cpu_count() or 1)


class Threads:
    """Threads of one query, or none."""

    def __init__(self, pool: ThreadPoolExecutor | None):
        self._pool = pool

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """Returns what a function returns of each part, in the order of the parts; the parts are computed in any."""
        return list(map(function, parts) if self._pool is None else self._pool.map(function, parts))


@contextmanager
def threads_for(size: int) -> Iterator[Threads]:
    """Yields threads for work on arrays of `size` values: none where there are few."""
    if size < MANY:
        yield Threads(None)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield Threads(pool)
