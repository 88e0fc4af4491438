"""The JSON Schema of a collection's metadata: its parts, and whether it can be used."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated

import pydantic
from pydantic import AfterValidator, BeforeValidator

from palimpsest.core.json_types import JsonObject, JsonValue


def schema_parts(schema: Mapping[str, JsonValue]) -> JsonObject:
    """Returns the schemas of a metadata_schema: `custom` validates stated metadata, `system` the derived fields.

    A mapping with no other key than these two is that form; any other is a JSON Schema of the stated metadata.
    """
    return dict(schema) if schema and schema.keys() <= {"custom", "system"} else {"custom": schema}


def check_schema(schema: JsonValue) -> None:
    """Refuses what is no JSON Schema.

    Raises:
        ValueError: the schema is not valid, or refers to something outside itself.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as e:
        where = ".".join(str(p) for p in e.path)
        raise ValueError(f"is no JSON Schema (draft 2020-12): {where + ': ' if where else ''}{e.message}") from None
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"refers to {reference!r}, which is not in it; fix the $ref") from None


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (v for k, v in schema.items() if k in ("$ref", "$dynamicRef") and isinstance(v, str))
        yield from (r for v in schema.values() for r in _references(v))
    elif isinstance(schema, list):
        yield from (r for v in schema for r in _references(v))


def _check_json(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("has a value that JSON does not have, such as a date; write it in quotes") from None
    return value


def _check_parts(schema: dict[str, pydantic.JsonValue]) -> dict[str, pydantic.JsonValue]:
    for part in schema_parts(schema).values():
        check_schema(part)
    return schema


MetadataSchema = Annotated[dict[str, pydantic.JsonValue], BeforeValidator(_check_json), AfterValidator(_check_parts)]
"""A metadata_schema as `collection.yaml` states it: JSON, valid, and without references to anything outside itself."""
