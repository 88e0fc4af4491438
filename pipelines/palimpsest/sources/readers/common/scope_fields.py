"""Whose a text is: the `user_id`, `project_id` and `session_id` that a source states.

A field that is missing has the collection's default. One that is there and cannot be used never has: the text would be
served to another user.
"""

import math
import re
from collections.abc import Mapping

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonValue
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.records.scope import Scope
from palimpsest.sources.records.stated_fields import format_value

SCOPE_FIELDS = ("user_id", "project_id", "session_id")

# What cleaning would remove or replace: two names that differ in it alone would become one.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\ud800-\udfff\ufeff]")


def parse_scope_name(field: str, value: JsonValue) -> tuple[str | None, str | None]:
    """Returns (name, problem); both are None where no name is stated: null, or a text of no characters."""
    if value is None or value == "":
        return None, None
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if isinstance(value, bool):
        return None, f"{field} {str(value).lower()} is no name; write a name in quotes"
    if not is_number and not isinstance(value, str):
        return None, f"{field} {format_value(value)} is no name; write one name, as text"
    if isinstance(value, str) and _CONTROL.search(value):
        return None, f"{field} {format_value(value)} contains a control character; remove it"
    if name := parse_name(value):
        return name, None
    return None, f"{field} {format_value(value)} is blank; write a name, or leave the field out"


def parse_scope(values: Mapping[str, JsonValue]) -> tuple[Scope, list[str]]:
    """Returns the names in a mapping, and a problem for each that is stated and cannot be used."""
    found = {field: parse_scope_name(field, values.get(field)) for field in SCOPE_FIELDS}
    names = Scope(**{field: name for field, (name, _) in found.items()})
    return names, [problem for _, problem in found.values() if problem]


def require_scope(values: Mapping[str, JsonValue], where: str) -> Scope:
    """Returns the names in a mapping.

    Raises:
        Rejected: one cannot be used; the message begins with `where`.
    """
    names, problems = parse_scope(values)
    if problems:
        raise Rejected(f"{where}: {'; '.join(problems)}")
    return names
