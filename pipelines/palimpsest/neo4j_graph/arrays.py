"""Named arrays as Arrow IPC: how a node of the graph stores what readers need of a scope."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.scope.scope_arrays import Arrays

_DTYPES = {"halffloat": "<f2", "float": "<f4", "double": "<f8"}
"""Numpy's names of Arrow types, where they differ."""


def pack_arrays(arrays: Mapping[str, np.ndarray | list[str]]) -> bytes:
    """Returns the bytes of named arrays: one record batch of one row, a list column for each array, sorted by name.

    Args:
        arrays: numbers of shape (n,) or (n, width); or texts, as a list or an object array.
    """
    columns = {name: _column(value) for name, value in sorted(arrays.items())}
    rows = [pa.ListArray.from_arrays(pa.array([0, len(c)], pa.int32()), c) for c in columns.values()]
    batch = pa.record_batch(rows, names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_arrays(data: bytes) -> Arrays:
    """Reads what `pack_arrays` wrote: numbers as read-only arrays, texts as lists.

    Raises:
        PalimpsestError: the bytes are of an earlier version.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            batch = reader.read_next_batch()
    except (pa.ArrowException, OSError, StopIteration):
        raise PalimpsestError(
            "neo4j: the loaded build was written by an earlier version; run palimpsest build --graph"
        ) from None
    return {name: _value(batch.column(name).values) for name in batch.schema.names}


def _column(value: np.ndarray | list[str]) -> Any:
    if isinstance(value, list) or value.dtype == object:
        # As bytes: Arrow's strings cannot contain a lone surrogate.
        return pa.array([str(text).encode("utf-8", "surrogatepass") for text in value], pa.binary())
    flat = pa.array(np.ascontiguousarray(value).reshape(-1))
    return flat if value.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, value.shape[1])


def _value(column: Any) -> np.ndarray | list[str]:
    if pa.types.is_binary(column.type):
        return _texts(column)
    if pa.types.is_fixed_size_list(column.type):
        flat = column.values
        return _numbers(flat).reshape(-1, column.type.list_size)
    return _numbers(column)


def _numbers(column: Any) -> np.ndarray:
    """Returns a column as numpy, not copied: `to_numpy` would import pandas, for 1 s."""
    name = str(column.type)
    dtype = np.dtype(_DTYPES.get(name, name))
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)


def _texts(column: Any) -> list[str]:
    if len(column) == 0:
        return []
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset).tolist()
    content = bytes(data) if data is not None else b""
    if content.isascii():  # then bytes are characters, and slices of one text are ten times as fast
        text = content.decode("ascii")
        return [text[a:b] for a, b in pairwise(ends)]
    return [content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(ends)]
