"""The metadata of documents as values of fields, so that queries can filter memories by them."""

import json
from collections.abc import Iterator, Mapping

import polars as pl

from palimpsest.core.json_types import JsonValue

MAX_TEXT_CHARS = 1000
"""A longer text is no value to filter by."""
MAX_VALUES = 100
"""Values of a list, fields of a document, and levels of names are limited: a longer list is left out."""
_MAX_LEVELS = 4
_SCHEMA = {"scope": pl.Int32, "document_id": pl.String, "field": pl.String, "value": pl.String}


def metadata_table(documents: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, document_id, field, value) of the documents of memories; values are JSON scalars.

    Args:
        documents: document_id and metadata, a JSON object or null.
        rows: scope and document_id of every memory.
    """
    used = rows.select("scope", "document_id").drop_nulls().unique()
    stated = documents.select("document_id", "metadata").drop_nulls().unique("document_id")
    found = used.join(stated, on="document_id").sort("scope", "document_id")
    made = [
        (scope, document_id, field, value)
        for scope, document_id, metadata in found.select("scope", "document_id", "metadata").iter_rows()
        for field, value in field_values(metadata)
    ]
    return pl.DataFrame(made, schema=_SCHEMA, orient="row")


def field_values(metadata: str) -> list[tuple[str, str]]:
    """Returns (field, value) of a JSON object, sorted: of a list each value, of an object fields with dotted names."""
    stated = json.loads(metadata or "{}")
    if not isinstance(stated, Mapping):
        return []
    found = {(field, json.dumps(value, ensure_ascii=False)) for field, value in _scalars("", stated, 0)}
    return sorted(found)[: MAX_VALUES**2]


def _scalars(name: str, value: JsonValue, level: int) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, Mapping) and level < _MAX_LEVELS and len(value) <= MAX_VALUES:
        for key, inner in value.items():
            yield from _scalars(f"{name}.{key}" if name else str(key), inner, level + 1)
    elif isinstance(value, list) and len(value) <= MAX_VALUES:
        for inner in value:
            yield from _scalars(name, inner, level + 1)
    elif name and isinstance(value, str) and len(value) <= MAX_TEXT_CHARS:
        yield name, value.encode("utf-8", "replace").decode("utf-8")
    elif name and isinstance(value, bool | int | float):
        yield name, value
