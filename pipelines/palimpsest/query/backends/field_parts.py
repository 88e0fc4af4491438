"""Reads the fields of a scope's memories that `where` filters by: columns of the index, and metadata of documents."""

from typing import Any

import duckdb
import numpy as np

from palimpsest.query.backends.part_query import Query, Range, read_clocks
from palimpsest.query.scope.field_values import BOOLEANS, CLOCK, NUMBERS, TEXTS, TIMES
from palimpsest.query.scope.scope_arrays import Arrays

_SECONDS = [f"epoch({name}) AS {name}" for name in TIMES]
_COLUMNS = ", ".join([*TEXTS, *NUMBERS, *_SECONDS, *BOOLEANS, f"coalesce(utc_offset, 0) AS {CLOCK}"])
_FIELDS = f"SELECT {_COLUMNS} FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_TAGS = """
    SELECT row, tag FROM (SELECT row, unnest(tags) AS tag FROM memories WHERE row BETWEEN $first AND $last)
    ORDER BY row, tag"""
_METADATA = "SELECT document_id, field, value FROM metadata WHERE scope = $scope ORDER BY document_id, field, value"
_DOCUMENTS = "SELECT document_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"


def read_fields(query: Query, at: Range) -> Arrays:
    """Returns each column by local row: texts as codes of `<name>.texts` with -1 for null, times in seconds.

    `clock` is how many minutes the clock of each memory's speaker is ahead of UTC.
    """
    found = read_clocks(query, _FIELDS, at.rows).fetchnumpy()
    arrays: Arrays = {}
    for name in TEXTS:
        arrays[name], arrays[f"{name}.texts"] = encode(_objects(found[name]))
    for name in (*NUMBERS, *TIMES):
        arrays[name] = np.ma.filled(np.ma.asarray(found[name], np.float64), np.nan)
    for name in BOOLEANS:
        arrays[name] = np.ma.filled(np.ma.asarray(found[name]).astype(np.int8), -1)
    arrays[CLOCK] = np.asarray(found[CLOCK], "<i4")
    rows, tags = zip(*(query(_TAGS, at.rows).fetchall() or [(at.first, None)]), strict=True)
    codes, texts = encode(list(tags))
    kept = codes >= 0
    arrays |= {"tags.row": (np.asarray(rows, np.int64) - at.first)[kept].astype("<i4")}
    return arrays | {"tags": codes[kept], "tags.texts": texts}


def read_metadata(query: Query, at: Range) -> Arrays:
    """Returns the metadata of the scope's documents: `document` is the number of each memory's, -1 without any.

    `of`, `field` and `value` name the document, the field among `fields` and the JSON text among `values`.
    """
    try:
        found = query(_METADATA, at.scope).fetchall()
    except duckdb.CatalogException:
        return {}  # an index of an earlier version has no metadata
    if not found:
        return {}
    documents, fields, values = (list(column) for column in zip(*found, strict=True))
    of, names = encode(documents)
    number = {name: i for i, name in enumerate(names)}
    document = [number.get(i, -1) for (i,) in query(_DOCUMENTS, at.rows).fetchall()]
    arrays: Arrays = {"document": np.array(document, "<i4"), "of": of}
    arrays["field"], arrays["fields"] = encode(fields)
    arrays["value"], arrays["values"] = encode(values)
    return arrays


def _objects(column: Any) -> list[str | None]:
    """Returns a column of texts as DuckDB gives it, as a masked array where any is null."""
    return [None if null else text for text, null in zip(column, np.ma.getmaskarray(column), strict=True)]


def encode(values: list[str | None]) -> tuple[np.ndarray, list[str]]:
    """Returns the number of each text among the distinct ones, -1 for null, and the distinct ones."""
    numbers: dict[str, int] = {}
    codes = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
    return np.array(codes, "<i4"), list(numbers)
