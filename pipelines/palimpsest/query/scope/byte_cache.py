"""A cache bounded in bytes, shared between threads: the least recently used value is dropped first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar


class Sized(Protocol):
    """A value that knows its size."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""


Value = TypeVar("Value", bound=Sized)


class ByteCache:
    """A cache bounded in bytes, safe to share between threads: one of them loads a value while the others wait."""

    def __init__(self, limit_bytes: int):
        self._limit, self._used = limit_bytes, 0
        self._values: OrderedDict[Hashable, Sized] = OrderedDict()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """Returns the value of `key`, made by `load` where it is not cached; the newest stays whatever its size."""
        with self._lock:
            if (value := self._find(key)) is not None:
                return value
            gate = self._loading.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                if (value := self._find(key)) is not None:
                    return value
            value = load()
            self.put(key, value)
            with self._lock:
                self._loading.pop(key, None)
        return value

    def peek(self, key: Hashable) -> Any:
        """Returns the value of `key`, or None where it is not cached."""
        with self._lock:
            return self._find(key)

    def put(self, key: Hashable, value: Sized) -> None:
        """Caches a value and drops the least recently used ones that no longer fit."""
        with self._lock:
            if (old := self._values.pop(key, None)) is not None:
                self._used -= old.nbytes
            self._values[key] = value
            self._used += value.nbytes
            while self._used > self._limit and len(self._values) > 1:
                self._used -= self._values.popitem(last=False)[1].nbytes

    def get_each(
        self, keys: Mapping[int, Hashable], load: Callable[[list[int]], Mapping[int, Value]]
    ) -> dict[int, Value]:
        """Returns the values of several rows, in their order; `load` makes those that are not cached, all at once.

        Args:
            keys: the key of each row.
            load: returns the value of every row that it is given.
        """
        found = {row: self.peek(key) for row, key in keys.items()}
        if missing := [row for row, value in found.items() if value is None]:
            for row, value in load(missing).items():
                self.put(keys[row], value)
                found[row] = value
        return found

    def clear(self) -> None:
        """Drops every value."""
        with self._lock:
            self._values.clear()
            self._used = 0

    def _find(self, key: Hashable) -> Any:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value
