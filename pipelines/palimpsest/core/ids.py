"""Content-addressed ids: 16 hex digits of blake2b, so that the same content has the same id on every machine."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

if TYPE_CHECKING:
    import polars as pl


# The scope columns: (collection, user_id, project_id), the isolation boundary of every derived table.
#
# `project_id` is never null in a table: "" is the user's general memory, so that no join drops its rows.

SCOPE = ("collection", "user_id", "project_id")
GENERAL = ""
"""The project_id of what belongs to no project."""

ScopeKey = tuple[str, str, str]


def scope_parts(collection: str, user_id: str, project_id: str = GENERAL) -> tuple[str, ...]:
    """Returns what ids are made of for a scope: the project only where there is one, so that older ids stay."""
    return (collection, user_id, project_id) if project_id else (collection, user_id)


def by_scope(frame: pl.DataFrame) -> dict[ScopeKey, pl.DataFrame]:
    """Splits a table by its scope columns; sorted by scope, rows in their order."""
    parts = frame.partition_by(SCOPE, as_dict=True, maintain_order=True)
    return {(str(c), str(u), str(p)): rows for (c, u, p), rows in sorted(parts.items())}


def content_id(*parts: str | int | None) -> str:
    """Returns 16 hex digits for the parts, each length-prefixed so that no two lists of parts collide by joining."""
    h = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = b"" if part is None else str(part).encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def text_hash(text: str) -> str:
    """Returns the 32-hex-digit key of an embedded text in the shared embedding store."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def entity_id(collection: str, user_id: str, project_id: str, key: str) -> str:
    """Returns the id of the entity that a name's key denotes in a scope while it is not merged with another."""
    return content_id("entity", *scope_parts(collection, user_id, project_id), key)


# The versions of a document: what they have in common, and in which order they came.

DOCUMENT = (*SCOPE, "uri", "session_id")
"""Columns that all versions of a document have in common; some are null, so joins need `nulls_equal`."""
VERSION_ORDER = ("is_current", "seq", "document_id")
"""Columns that order the versions of a document: the current one is the last, whatever its number."""


# Types of JSON values. Containers are read-only inside a value, so that `dict[str, int]` is one too.

JsonValue: TypeAlias = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""Whatever `json.loads` returns or `json.dumps` accepts."""

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object that its owner may fill; a parameter that is only read is `Mapping[str, JsonValue]`."""


def json_value(value: Any, decimals: int | None = None) -> Any:
    """Returns a value as JSON has it: dataclasses as objects, times in ISO 8601, paths as texts, floats rounded."""
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, float):
        return value if decimals is None else round(float(value), decimals)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value):
        return {f.name: json_value(getattr(value, f.name), decimals) for f in fields(value)}
    if isinstance(value, Mapping):
        return {name: json_value(v, decimals) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_value(v, decimals) for v in value]
    return value


class JsonRecord:
    """A dataclass whose JSON object has its fields.

    Attributes:
        json_names: names of fields in JSON, where they differ.
        json_decimals: of numbers; None leaves them as they are.
        json_hidden: fields that JSON does not have.
        json_has_none: whether fields that are None are null; otherwise they are left out.
    """

    json_names: ClassVar[Mapping[str, str]] = {}
    json_decimals: ClassVar[int | None] = None
    json_hidden: ClassVar[tuple[str, ...]] = ()
    json_has_none: ClassVar[bool] = True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Returns the schema of its JSON, wherever it is a field of an answer that pydantic describes."""
        from palimpsest.core.json_model import json_model

        return handler.generate_schema(json_model(cast(Any, cls)))

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        names = [f.name for f in fields(cast(Any, self)) if f.name not in self.json_hidden]
        values = {self.json_names.get(n, n): json_value(getattr(self, n), self.json_decimals) for n in names}
        return values if self.json_has_none else {n: v for n, v in values.items() if v is not None}


# The types and units of memories.

MEMORY_TYPES = ("episodic", "semantic", "document", "summary", "preference", "inference", "task")
TASK = "task"


# The unit and the kinds of memories that are formed from others. What a source says has its collection's unit.

REFLECTION = "reflection"
"""The unit of formed memories, and the word in `form` of collection.yaml."""
BY_MODEL = "model"
"""`confidence_source` of what a language model formed: statements of its own words, which are versioned like others."""

FormedKind = Literal[
    "fact", "preference", "decision", "solution", "gap", "inference", "emotion", "topic", "connection", "summary"
]
"""Kinds of items of notes, and of the memories that are formed of them."""
