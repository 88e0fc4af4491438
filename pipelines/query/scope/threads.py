"""Work on the arrays of a large scope in several threads: numpy works on them without Python's lock."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

Part = TypeVar("Part", contravariant=True)
Result = TypeVar("Result", covariant=True)

MANY = 100_000
"""Values that take longer than it takes to start threads for one query; two read memory faster than one."""
_THREADS = min(4, os.cpu_count() or 1)


class _Function(Protocol[Part, Result]):
    def __call__(self, part: Part, /) -> Result: ...


class Run(Protocol):
    """Calls a function with each part, in any order, and returns what it returned, in the order of the parts."""

    def __call__(self, function: "_Function[Part, Result]", parts: "Iterable[Part]", /) -> "list[Result]": ...


@contextmanager
def threads_for(size: int) -> Iterator[Run]:
    """Yields what runs parts of work on arrays of `size` values: in this thread where there are few."""
    if size < MANY:
        yield lambda function, parts: list(map(function, parts))
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield lambda function, parts: list(pool.map(function, parts))
