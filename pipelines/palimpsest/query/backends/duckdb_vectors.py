"""Reads the vectors of a scope from an index."""

import re
from importlib.util import find_spec
from typing import Any, NamedTuple

import duckdb
import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends.part_query import Range
from palimpsest.query.scope.scope_arrays import ScopeVectors

_BATCH = 16_384  # vectors read at a time
_VECTORS = "SELECT row, vector FROM {table} WHERE row BETWEEN $first AND $last"
_NAME = re.compile(r"vectors(_[0-9]+)?")
TABLE, DIMENSIONS = "vectors", 384

_RowsAndMatrices = tuple[np.ndarray, tuple[np.ndarray, ...]]


class VectorTable(NamedTuple):
    """A table of vectors of one space."""

    name: str = TABLE
    dimensions: int = DIMENSIONS

    @property
    def select(self) -> str:
        """The statement that reads the vectors of some rows.

        Raises:
            PalimpsestError: the name is none that this project writes; a table cannot be a parameter.
        """
        if not _NAME.fullmatch(self.name):
            raise PalimpsestError(f"index: {self.name[:40]!r} is no table of vectors; build it again")
        return _VECTORS.format(table=self.name)


def read_vectors(cursor: duckdb.DuckDBPyConnection, at: Range, table: VectorTable) -> ScopeVectors:
    """Returns the vectors of every memory of a scope."""
    read = _read_numpy if find_spec("pyarrow") is None else _read_arrow
    rows, matrices = read(cursor, at.rows, table)
    starts = np.searchsorted(rows, np.arange(at.first, at.first + at.size))
    return ScopeVectors(matrices, starts, len(rows))


def _read_arrow(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any], table: VectorTable) -> _RowsAndMatrices:
    """Returns rows and vectors without a copy."""
    batches = list(cursor.sql(table.select, params=bounds).to_arrow_reader(_BATCH))
    matrices = tuple(_as_numpy(b.column(1).values, np.float32).reshape(-1, table.dimensions) for b in batches)
    return np.concatenate([_as_numpy(b.column(0), np.int32) for b in batches]), matrices


def _read_numpy(cursor: duckdb.DuckDBPyConnection, bounds: dict[str, Any], table: VectorTable) -> _RowsAndMatrices:
    """Returns the same without pyarrow, which the base install leaves out: half as fast, one copy."""
    found = cursor.execute(table.select, bounds).fetchnumpy()
    matrix = np.stack(list(found["vector"])) if len(found["row"]) else np.empty((0, table.dimensions), np.float32)
    return np.asarray(found["row"], np.int32), (matrix,)


def _as_numpy(array: Any, dtype: type[np.generic]) -> np.ndarray:
    """Returns an Arrow array without nulls as numpy, not copied: `to_numpy` would import pandas, for 1 s."""
    data = array.buffers()[1]
    return np.frombuffer(data, dtype, len(array), array.offset * np.dtype(dtype).itemsize)
