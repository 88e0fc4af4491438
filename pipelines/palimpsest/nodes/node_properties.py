"""What documents state of the entity that they are about: fields of their metadata."""

import json

import polars as pl

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.nodes.descriptions import quotable

_MAX_FIELDS, _MAX_VALUES, _MAX_CHARS = 20, 10, 200


def document_properties(titled: pl.DataFrame, memories: pl.DataFrame) -> dict[str, JsonObject]:
    """Returns the properties of entities by id: of each field its value, or its distinct values, sorted.

    Texts, numbers, booleans and lists of these are properties; at most 20 fields with 10 values of 200 characters.

    A document with a memory that `quotable` leaves out states none.

    Args:
        titled: as `titled_entities` returns them.
        memories: the memories table.
    """
    concealed = memories.join(quotable(memories).select("memory_id"), on="memory_id", how="anti")
    shown = titled.join(concealed.select("document_id").unique(), on="document_id", how="anti")
    found: dict[str, dict[str, set[str]]] = {}
    for entity_id, metadata in shown.select("entity_id", "metadata").drop_nulls().iter_rows():
        stated = json.loads(metadata or "{}")
        for field, value in stated.items() if isinstance(stated, dict) else ():
            values = [v for v in (value if isinstance(value, list) else [value]) if _is_property(v)]
            if values:
                found.setdefault(entity_id, {}).setdefault(field, set()).update(json.dumps(v) for v in values)
    return {entity_id: _properties(fields) for entity_id, fields in found.items()}


def _is_property(value: object) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _MAX_CHARS)


def _properties(fields: dict[str, set[str]]) -> JsonObject:
    kept: JsonObject = {}
    for field, written in sorted(fields.items())[:_MAX_FIELDS]:
        values: list[JsonValue] = [json.loads(v) for v in sorted(written)[:_MAX_VALUES]]
        kept[field] = values[0] if len(values) == 1 else [*values]
    return kept
