"""Checks that the fields of a `where` exist in what a search reads, and that they are compared with their own kind."""

import difflib
from collections.abc import Iterable, Mapping

from palimpsest.core.errors import ArgumentError
from palimpsest.query.request.where import Condition, Kind, Where
from palimpsest.query.scope.field_values import MEMORY_FIELDS, METADATA
from palimpsest.query.scope.served_scope import ServedScope

_MAX_NAMED, _MAX_NAME_CHARS = 12, 60
_A_KIND = {"text": "a text", "number": "a number", "date": "a date", "boolean": "true or false"}
_EXAMPLES = {"text": '"word"', "number": "3", "date": "2026-05-31", "boolean": "true"}


def check_fields(where: Where, scopes: Iterable[ServedScope]) -> None:
    """Checks the fields of an expression against metadata_schema, the metadata of visible memories, and memories.

    Raises:
        ArgumentError: a field is in none of the scopes, or all its values are of other kinds than it is compared with.
    """
    known = _known_fields(scopes)
    for condition in where.conditions():
        name = condition.field if condition.field in MEMORY_FIELDS else condition.field.removeprefix(METADATA)
        kinds = frozenset({MEMORY_FIELDS[name]}) if condition.field in MEMORY_FIELDS else known.get(name)
        if kinds is None:
            raise ArgumentError("where", _unknown_field(condition.field, known))
        if kinds:
            _check_values(condition, kinds)


def _known_fields(scopes: Iterable[ServedScope]) -> dict[str, frozenset[Kind]]:
    """Returns the fields of metadata by name; the kinds of a schema are those of its field, dates in texts apart."""
    known: dict[str, frozenset[Kind]] = {}
    for served in scopes:
        info = served.backend.collections().get(served.scope.collection)
        declared = {name: frozenset(kinds) for name, kinds in info.fields.items()} if info else {}
        stated = served.field_kinds()
        for name in declared.keys() | stated.keys():
            kinds = stated.get(name, frozenset())
            if of_schema := declared.get(name):
                kinds = of_schema | (kinds & {"date"} if "text" in of_schema else frozenset())
            known[name] = known.get(name, frozenset()) | kinds
    return known


def _check_values(condition: Condition, kinds: frozenset[Kind]) -> None:
    for value in condition.values:
        if value.kind in kinds or (value.kind == "text" and "date" in kinds and value.is_date):
            continue
        named = " or ".join(_A_KIND[k] for k in sorted(kinds))
        example = _EXAMPLES[min(kinds)]
        raise ArgumentError(
            "where",
            f"{_shorten(condition.field)} is {named}, and {_shorten(value.written)} is {_A_KIND[value.kind]};"
            f" compare it with a value such as {example}",
        )


def _unknown_field(name: str, known: Mapping[str, frozenset[Kind]]) -> str:
    """Returns what is wrong with a name, and the closest known ones."""
    fields = sorted({*known, *MEMORY_FIELDS})
    close = difflib.get_close_matches(name.removeprefix(METADATA), fields, n=3, cutoff=0.5)
    listed = close or [*sorted(known)[:_MAX_NAMED], *MEMORY_FIELDS][:_MAX_NAMED]
    names = ", ".join(_shorten(n) for n in listed)
    return f"no memory here has a field {_shorten(name)!r}; {'did you mean' if close else 'fields are'} {names}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_NAME_CHARS else line[: _MAX_NAME_CHARS - 1] + "…"
