"""The JSON Schema of an export: one definition for each kind of file in it."""

import json
import re
import sys
from collections.abc import Mapping
from functools import cache

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.export.layout import ANSWERS, DECISIONS, FORMAT, MANIFEST, PROFILE, PROPOSALS, STANDING, USAGE
from palimpsest.pipeline.stages import tables
from palimpsest.store.decisions import MEMORY_KINDS, NAME_KINDS, RELATION_KINDS
from palimpsest.store.graph_decisions import GRAPH_KINDS
from palimpsest.store.proposals import KINDS, STATES
from palimpsest.store.tables import SCHEMAS

_OF_COLLECTION = re.compile(r"collections/[^/]+/(?:(settings|sources)|tables/([a-z_]+))\.json")
_TEXT: JsonObject = {"type": "string"}
_OPTIONAL: JsonObject = {"type": ["string", "null"]}
_TIME: JsonObject = {"type": ["string", "null"], "format": "date-time"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_OBJECT: JsonObject = {"type": "object"}
_DECISIONS = (*RELATION_KINDS, *MEMORY_KINDS, *NAME_KINDS, *GRAPH_KINDS)
_NAME: JsonObject = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}
_HASH: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{16}$"}


def exported_tables() -> list[str]:
    """Returns the names of the tables that are exported: those of scopes, and the texts of documents."""
    return [t.name for t in tables() if "user_id" in SCHEMAS[t.name] or t.name == "document_texts"]


@cache
def export_schema() -> JsonObject:
    """Returns the JSON Schema (draft 2020-12) of an export; `kind_of` names the definition of a file."""
    definitions: JsonObject = {
        "manifest": _manifest(),
        "settings": _object(
            {"settings": _object({"name": _NAME, "description": _TEXT}, extra=True)},
            {"relations": _list(_object({"newer": _TEXT, "older": _TEXT, "label": {"enum": ["UPDATE", "EXTEND"]}}))},
            {"questions": _list(_OBJECT)},
        ),
        "sources": _list(_object({"uri": _text(4096), "versions": _list(_version())})),
        "decisions": _list(_object({"kind": {"enum": list(_DECISIONS)}, "at": _text(40)}, extra=True)),
        "proposals": _list(
            _object(
                {
                    **dict.fromkeys(("collection", "user_id", "project_id", "proposal_id"), _TEXT),
                    **{"kind": {"enum": list(KINDS)}, "state": {"enum": list(STATES)}, "memory_ids": _list(_HASH)},
                    **{"description": _text(4096), "confidence": {"type": "number", "minimum": 0, "maximum": 1}},
                },
                extra=True,
            )
        ),
        "usage": _list(_object({"memory_id": _HASH, "collection": _TEXT, "reads": _COUNT, "last_read": _TIME})),
        "profile": _list(
            _object(
                {"section": {"enum": ["static", "dynamic"]}, "kind": _TEXT, "key": _TEXT, "text": _TEXT, "time": _TIME},
                {"memory_ids": _list(_HASH), "confidence": {"type": "number"}, "scope": _list(_TEXT)},
                {"first_time": _TIME, "disputed_by": {"type": ["object", "null"]}, "later": _list(_OBJECT)},
            )
        ),
        "standing": _list(
            _object(
                {"collection": _NAME, "user_id": _TEXT, "question_id": _TEXT, "question": _TEXT, "k": _COUNT},
                {"memory_ids": _list(_HASH), "relevance": {"type": "number"}},
            )
        ),
        "answers": _list(
            _object({"newer_id": _TEXT, "older_id": _TEXT, "program": _TEXT, "model": _TEXT, "answer": _TEXT})
        ),
    }
    for name in exported_tables():
        definitions[f"table_{name}"] = _list(_object({c: _column(t) for c, t in SCHEMAS[name].items()}))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Palimpsest export, format {FORMAT}",
        "description": "What is stored about one person. Each JSON file of the folder is of one of the definitions.",
        "$defs": definitions,
    }


def kind_of(name: str) -> str | None:
    """Returns the definition that a file of an export is of, by its path in the folder; None where it has none."""
    if name in (MANIFEST, DECISIONS, PROPOSALS, USAGE, ANSWERS, PROFILE, STANDING):
        return "manifest" if name == MANIFEST else name.removesuffix(".json")
    match = _OF_COLLECTION.fullmatch(name)
    return None if match is None else match[1] or f"table_{match[2]}"


def check_file(name: str, value: JsonValue) -> None:
    """Checks the content of a file against its definition.

    Raises:
        PalimpsestError: it does not match; the message names the file and the place.
    """
    from jsonschema import Draft202012Validator

    definition = _definition(str(kind_of(name)))
    error = next(iter(Draft202012Validator(definition).iter_errors(value)), None)
    if error is not None:
        place = ".".join(map(str, error.absolute_path)) or "the file"
        raise PalimpsestError(f"{name}: {place}: {error.message[:160]}; export again, or put it back as it was")


@cache
def _definition(kind: str) -> Mapping[str, JsonValue]:
    definitions = export_schema()["$defs"]
    assert isinstance(definitions, dict)
    found = definitions[kind]
    assert isinstance(found, dict)
    return found


def _manifest() -> JsonObject:
    return _object(
        {
            "format": {"const": FORMAT},
            "user_id": _text(800),
            "build_id": _TEXT,
            "built_at": _TIME,
            "collections": _list(_NAME),
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "markdown": _list(_object({"file": _text(4096), "collection": _NAME, "document_id": _HASH})),
            "originals": _list(_object({"file": _text(4096), "collection": _NAME, "uri": _TEXT})),
            "left_out": _list(_object({"collection": _NAME, "uri": _TEXT, "reason": _TEXT})),
        }
    )


def _version() -> JsonObject:
    document = _object(
        {
            "uri": _text(4096),
            "media_type": _text(200),
            "text": _TEXT,
            "title": _TEXT,
            "session_id": _OPTIONAL,
            "user_id": _text(800),
            "project_id": _OPTIONAL,
            "source_time": _TIME,
            "metadata": _OBJECT,
            "relations": _list({"type": "array", "minItems": 2, "maxItems": 2, "items": _TEXT}),
            "kind": _OPTIONAL,
            "segments": _list({"type": "array", "minItems": 7, "maxItems": 8}),
            "redactions": {"type": ["array", "null"], "items": {"type": "array", "minItems": 4, "maxItems": 4}},
        }
    )
    return _object(
        {"ordinal": {"type": "integer", "minimum": 1}, "seen_at": _TIME, "gone_at": _TIME, "documents": _list(document)}
    )


def _object(*parts: Mapping[str, JsonValue], extra: bool = False) -> JsonObject:
    properties = {name: value for part in parts for name, value in part.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": extra,
    }


def _list(items: Mapping[str, JsonValue]) -> JsonObject:
    return {"type": "array", "items": items}


def _text(length: int) -> JsonObject:
    return {"type": "string", "minLength": 1, "maxLength": length}


def _column(dtype: pl.DataType | type[pl.DataType]) -> JsonObject:
    if isinstance(dtype, pl.List):
        return {"type": ["array", "null"], "items": {"type": "string"}}
    if isinstance(dtype, pl.Datetime):
        return _TIME
    names = {pl.Int64: "integer", pl.Float64: "number", pl.Boolean: "boolean"}
    found = next((name for of, name in names.items() if dtype == of), "string")
    return {"type": [found, "null"]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(export_schema(), indent=1, sort_keys=True) + "\n")
