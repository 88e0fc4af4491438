"""Types of JSON values. Containers are read-only inside a value, so that `dict[str, int]` is one too."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""Whatever `json.loads` returns or `json.dumps` accepts."""

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object that its owner may fill; a parameter that is only read is `Mapping[str, JsonValue]`."""
