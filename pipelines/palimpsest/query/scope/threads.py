"""Work on the arrays of a large scope in several threads: numpy works on them without Python's lock."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

MANY = 100_000
"""Values from which several threads are faster: two read memory faster than one."""
_THREADS = min(4, os.cpu_count() or 1)


class Threads:
    """The threads of this process, or none. Work must not wait for other work of theirs."""

    def __init__(self, pool: ThreadPoolExecutor | None):
        self._pool = pool

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """Returns what a function returns of each part, in the order of the parts; the parts are computed in any."""
        return list(map(function, parts) if self._pool is None else self._pool.map(function, parts))


def threads_for(size: int) -> Threads:
    """Returns threads for work on arrays of `size` values: none where there are few."""
    return Threads(_pool() if size >= MANY else None)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="palimpsest-scope")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has none of the threads
