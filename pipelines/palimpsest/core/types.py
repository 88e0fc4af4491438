"""Types of JSON values. Containers are read-only inside a value, so that `dict[str, int]` is one too."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

JsonValue: TypeAlias = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""Whatever `json.loads` returns or `json.dumps` accepts."""

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object that its owner may fill; a parameter that is only read is `Mapping[str, JsonValue]`."""


# The types and units of memories.

MEMORY_TYPES = ("episodic", "semantic", "document", "summary", "preference", "inference", "task")
TASK = "task"


# The unit and the kinds of memories that are formed from others. What a source says has its collection's unit.

REFLECTION = "reflection"
"""The unit of formed memories, and the word in `form` of collection.yaml."""

FormedKind = Literal[
    "fact", "preference", "decision", "solution", "gap", "inference", "emotion", "topic", "connection", "summary"
]
"""Kinds of items of notes, and of the memories that are formed of them."""
