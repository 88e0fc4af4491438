"""The fields of a collection's metadata_schema, and the kinds of values that each may have: what queries filter by."""

from collections.abc import Iterator, Mapping

from palimpsest.core.json_types import JsonValue
from palimpsest.store.json_schema import schema_parts

_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}
_MAX_LEVELS = 4


def schema_fields(schema: Mapping[str, JsonValue] | None) -> dict[str, list[str]]:
    """Returns the kinds of the fields of stated metadata, sorted; a field of an object has a dotted name.

    A field for which the schema states no type has no kinds: it may have any.
    """
    custom = schema_parts(schema).get("custom") if schema else None
    return {name: sorted(kinds) for name, kinds in sorted(_fields("", custom, 0))}


def _fields(name: str, schema: JsonValue, level: int) -> Iterator[tuple[str, set[str]]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or level >= _MAX_LEVELS:
        return
    for key, inner in properties.items():
        inside = f"{name}.{key}" if name else key
        if isinstance(inner, Mapping) and "properties" in inner:
            yield from _fields(inside, inner, level + 1)
        else:
            yield inside, _value_kinds(inner)


def _value_kinds(schema: JsonValue) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    stated = schema.get("type")
    types = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    if not types and isinstance(values := schema.get("enum"), list):
        types = [_json_type(v) for v in values]
    kinds = {_KINDS[t] for t in types if isinstance(t, str) and t in _KINDS}
    if "text" in kinds and schema.get("format") in ("date", "date-time"):
        kinds.add("date")
    if "array" in types:
        kinds |= _value_kinds(schema.get("items"))
    return kinds


def _json_type(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "null"
