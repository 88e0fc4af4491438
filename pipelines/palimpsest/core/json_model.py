"""Models of the JSON that dataclasses become: what describes an answer is made of the fields that it is made of."""

import inspect
import re
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as ModelField

from palimpsest.core.ids import JsonRecord

_SECTION = re.compile(r"^(?:Attributes|Keys):\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): ((?:.|\n(?=      ))+)", re.MULTILINE)


class JsonModel(BaseModel):
    """A JSON object with the fields of its class and no others. It describes answers, and is never made."""

    model_config = ConfigDict(extra="forbid")


@cache
def json_model(kind: type, left_out: Collection[str] = (), optional: bool = False) -> Any:
    """Returns the model of the JSON object of a dataclass, as `JsonRecord.to_json` or `asdict` makes it.

    Args:
        kind: the dataclass.
        left_out: fields that the JSON does not have.
        optional: whether fields that are None are left out of it; of a `JsonRecord` that follows from the class.
    """
    is_record = issubclass(kind, JsonRecord)
    names = kind.json_names if is_record else {}
    hidden = {*left_out, *(kind.json_hidden if is_record else ())}
    optional = optional or (is_record and not kind.json_has_none)
    return create_model(
        kind.__name__,
        __base__=JsonModel,
        __module__=kind.__module__,
        __doc__=(inspect.getdoc(kind) or "").partition("\n")[0],
        **json_fields_of(kind, [names.get(f.name, f.name) for f in fields(kind)], hidden, optional),
    )


def json_fields_of(kind: type, names: Collection[str], hidden: Collection[str] = (), optional: bool = False) -> Any:
    """Returns the fields of a dataclass as `create_model` takes them, each with what the docstring says of it."""
    types, said = get_type_hints(kind, include_extras=True), descriptions(kind)
    return {
        name: (types[f.name], ModelField(_default(f, optional), description=said.get(f.name)))
        for name, f in zip(names, fields(kind), strict=True)
        if f.name not in hidden
    }


def _default(of: "Field[Any]", optional: bool) -> Any:
    return None if optional and of.default is not MISSING and of.default is None else ...


def descriptions(kind: type) -> dict[str, str]:
    """Returns what the docstrings of a class and of those that it extends say of their fields."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for section in _SECTION.findall(inspect.cleandoc(base.__doc__ or "")):
            for given, text in _ENTRY.findall(section):
                found |= dict.fromkeys(given.split(", "), " ".join(text.split()).removesuffix("."))
    return found
