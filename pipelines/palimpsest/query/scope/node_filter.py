"""Filters nodes by type, fields and metadata, the same over every backend."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.request.graph_types import Node
from palimpsest.query.request.where import Condition, Where
from palimpsest.query.scope.field_values import METADATA, FieldColumn, satisfied
from palimpsest.store.graph_decisions import PROPERTIES

_TEXTS, _NUMBERS, _TIMES = ("name", "type", "description"), ("importance", "memory_count"), ("created_at", "updated_at")
NODE_FIELDS = (*_TEXTS, "aliases", *_NUMBERS, *_TIMES)
"""The fields that every node has; any other name is metadata."""

_NUMBER, _TIME, _BOOLEAN = range(3)  # kinds of numbers in a FieldColumn


@dataclass(frozen=True)
class NodeFilter:
    """What nodes must be: of any of some types, none meaning all, and what their fields must satisfy."""

    types: tuple[str, ...] = ()
    where: Where | None = None

    def __bool__(self) -> bool:
        """Whether it can leave a node out."""
        return bool(self.types) or self.where is not None

    def matching(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        """Returns the nodes that satisfy the filter, by id, in their order."""
        kept = {i: node for i, node in nodes.items() if not self.types or node.type in self.types}
        if self.where is None or not kept:
            return kept
        values = [_values(node) for node in kept.values()]

        def of_condition(condition: Condition) -> np.ndarray:
            return _column(condition.field, values).satisfies(condition)

        wanted = satisfied(self.where.expression, of_condition)
        return {i: node for (i, node), is_wanted in zip(kept.items(), wanted.tolist(), strict=True) if is_wanted}


def _values(node: Node) -> dict[str, list[object]]:
    """Returns the values of each field of a node; metadata named like a field of nodes begins with `METADATA`."""
    fields = {name: getattr(node, name) for name in NODE_FIELDS}
    found = {name: list(v) if isinstance(v, tuple) else [v] for name, v in fields.items() if v is not None}
    stated = json.loads(node.metadata or "{}")
    properties = stated.pop(PROPERTIES, {})
    for name, value in (stated | properties).items():
        key = METADATA + name if name in NODE_FIELDS else name
        found[key] = value if isinstance(value, list) else [value]
    return found


def _column(field: str, values: Sequence[Mapping[str, list[object]]]) -> FieldColumn:
    """Returns the values of one field of nodes; what is neither a text, a number, a boolean nor a time is left out."""
    name = field if field.removeprefix(METADATA) in NODE_FIELDS else field.removeprefix(METADATA)
    entries = [(at, value) for at, of_node in enumerate(values) for value in of_node.get(name, ())]
    texts = [(at, value) for at, value in entries if isinstance(value, str)]
    distinct = sorted({value for _, value in texts})
    codes = {value: code for code, value in enumerate(distinct)}
    numbers = [(at, *_number(value)) for at, value in entries if isinstance(value, bool | int | float | dt.datetime)]
    return FieldColumn(
        len(values),
        distinct,
        np.array([codes[value] for _, value in texts], np.int64),
        np.array([at for at, _ in texts], np.int64),
        np.array([number for _, number, _ in numbers], np.float64),
        np.array([at for at, _, _ in numbers], np.int64),
        np.array([kind for _, _, kind in numbers], np.int64),
    )


def _number(value: bool | int | float | dt.datetime) -> tuple[float, int]:
    if isinstance(value, dt.datetime):
        return value.timestamp(), _TIME
    return float(value), _BOOLEAN if isinstance(value, bool) else _NUMBER
