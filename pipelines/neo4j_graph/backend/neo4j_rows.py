"""Filters as Cypher conditions, and nodes of Neo4j as memories."""

import datetime as dt
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from palimpsest.neo4j_graph.connect import CypherParameters
from palimpsest.neo4j_graph.cypher import querying
from palimpsest.query.request.types import MEMORY_TIMES, Filters, Memory
from palimpsest.query.scope.withheld import Withheld

_BOUND = {"since": "observed_since", "until": "observed_until"}
_UTC = ZoneInfo("UTC")
_FIELDS = frozenset(Memory.__dataclass_fields__)


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[tuple[str, ...], CypherParameters]:
    """Returns the conditions of filters in a scope, and the values of their parameters."""
    filters = withheld.narrowed(filters)
    given = {name: v for name in querying.CONDITIONS if (v := getattr(filters, name)) not in (None, ())}
    conditions = [querying.CONDITIONS[name] for name in given]
    conditions += [querying.LEFT_OUT[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append(querying.LATEST)
    return tuple(conditions), {_BOUND.get(name, name): _as_stored(v) for name, v in given.items()}


def _as_stored(value: object) -> object:
    """Returns a time in the zone named UTC, for to Neo4j the same time in `+00:00` is unequal, and names as a list."""
    if isinstance(value, tuple):
        return list(value)
    return value.astimezone(_UTC) if isinstance(value, dt.datetime) else value


def memory_of(node: Mapping[str, Any], source: Mapping[str, Any]) -> Memory:
    """Returns a memory from its node and from the fields that its document's revision has of it."""
    fields = {k: v for k, v in {**node, **source}.items() if k in _FIELDS}
    for name in MEMORY_TIMES:
        if fields.get(name) is not None:
            fields[name] = fields[name].to_native()
    for name in ("page", "ordinal", "char_start", "char_end"):
        if fields.get(name) == -1:
            fields[name] = None
    return Memory(**(fields | {"tags": tuple(fields.get("tags") or ())}))
