"""Models of the JSON that dataclasses become: what describes an answer is made of the fields that it is made of."""

import inspect
import re
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from palimpsest.core.ids import JsonRecord

_SECTION = re.compile(r"^(?:Attributes|Keys):\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): ((?:.|\n(?=      ))+)", re.MULTILINE)


class JsonModel(BaseModel):
    """A JSON object with the fields of its class and no others. It describes answers, and is never made."""

    model_config = ConfigDict(extra="forbid")


@cache
def json_model(
    kind: Any, left_out: tuple[str, ...] = (), optional: bool = False, names: tuple[tuple[str, str], ...] = ()
) -> Any:
    """Returns the model of the JSON object of a dataclass, as `JsonRecord.to_json` or `asdict` makes it.

    Args:
        kind: the dataclass.
        left_out: fields that the JSON does not have.
        optional: whether fields that are None are left out of it; of a `JsonRecord` that follows from the class.
        names: fields that have another name in the JSON, with it; of a `JsonRecord` they follow from the class.
    """
    known, hidden = dict(names), {*left_out}
    if issubclass(kind, JsonRecord):
        known, hidden = {**kind.json_names, **known}, {*kind.json_hidden, *left_out}
        optional = optional or not kind.json_has_none
    types, said = get_type_hints(kind, include_extras=True), descriptions(kind)
    stated: Any = {
        known.get(f.name, f.name): (types[f.name], _field(optional and f.default is None, said.get(f.name)))
        for f in fields(kind)
        if f.name not in hidden
    }
    first_line = (inspect.getdoc(kind) or "").partition("\n")[0]
    return create_model(kind.__name__, __base__=JsonModel, __module__=kind.__module__, __doc__=first_line, **stated)


def part_model(kind: type, *names: str) -> Any:
    """Returns the model of some fields of a dataclass or model, for an answer that leaves out what is empty."""
    types = get_type_hints(kind)
    stated: Any = {name: (types[name], None) for name in names}
    return create_model(kind.__name__, __base__=JsonModel, __module__=kind.__module__, **stated)


def _field(is_optional: bool, description: str | None) -> Any:
    return Field(default_factory=type(None), description=description) if is_optional else Field(description=description)


def descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a class and of those that it extends say of their fields."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for section in _SECTION.findall(inspect.cleandoc(base.__doc__ or "")):
            for given, text in _ENTRY.findall(section):
                found |= dict.fromkeys(given.split(", "), " ".join(text.split()).removesuffix("."))
    return found
