"""Filters as Cypher conditions, and nodes of Neo4j as memories."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from palimpsest.core.times import is_of_own_clock
from palimpsest.neo4j_graph.connect import CypherParameters
from palimpsest.neo4j_graph.cypher import querying
from palimpsest.query.request.types import MEMORY_TIMES, Filters, Memory, stored_memory
from palimpsest.query.scope.withheld import Withheld

_BOUND = {"since": "observed_since", "until": "observed_until"}
_UTC = ZoneInfo("UTC")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[tuple[str, ...], CypherParameters]:
    """Returns the conditions of filters in a scope, and the values of their parameters."""
    filters = withheld.narrowed(filters)
    given = {name: v for name in querying.CONDITIONS if (v := getattr(filters, name)) not in (None, ())}
    conditions = [querying.CONDITIONS[name].replace("{observed_at}", _observed_at(v)) for name, v in given.items()]
    conditions += [querying.LEFT_OUT[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append(querying.LATEST)
    return tuple(conditions), {_BOUND.get(name, name): _as_stored(v) for name, v in given.items()}


def _observed_at(limit: object) -> str:
    """Returns what compares with a limit: a time without an offset is one of each speaker's own clock."""
    return querying.OWN_CLOCK if is_of_own_clock(limit) else "m.observed_at"


def _as_stored(value: object) -> object:
    """Returns a time in the zone named UTC, for to Neo4j the same time in `+00:00` is unequal, and names as a list."""
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, dt.datetime):
        return value
    return value.astimezone(_UTC) if value.tzinfo else value.replace(tzinfo=_UTC)


def memories_of(memories: Sequence[Mapping[str, Any]], revisions: Sequence[Sequence[Sequence[Any]]]) -> list[Memory]:
    """Returns memories of one document from their nodes and their places in its revisions, as MEMORIES returns both."""
    places = {memory_id: place for revision in revisions for memory_id, *place in revision}
    return [_memory_of(node, places.get(node["memory_id"], ())) for node in memories]


def _memory_of(node: Mapping[str, Any], place: Sequence[Any]) -> Memory:
    fields = {name: value for name, value in node.items() if value is not None}  # a node has no nulls: defaults
    for name in MEMORY_TIMES:
        if name in fields:
            fields[name] = _EPOCH + dt.timedelta(microseconds=fields[name])
    of_document = dict(zip(querying.PLACE, place, strict=False))  # none where the home read no document
    for name in ("page", "ordinal", "char_start", "char_end"):
        if of_document.get(name) == -1:
            of_document[name] = None
    return stored_memory(fields | of_document | {"tags": tuple(fields.get("tags", ()))})
