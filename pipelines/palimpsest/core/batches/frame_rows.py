"""The rows of a frame as a sequence whose tuples are made when a slice is taken."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import polars as pl


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
