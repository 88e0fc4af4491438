"""What the query path asks of Neo4j and gets, as its own types: filters, memories and links."""

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from palimpsest.neo4j_graph.cypher import querying
from palimpsest.query.ranking.scope_graph import telling
from palimpsest.query.request.types import Filters, Link, Memory
from palimpsest.query.request.withheld import Withheld

_BOUND = {"since": "observed_since", "until": "observed_until"}
_TIMES = ("observed_at", "valid_from", "valid_until", "created_at", "updated_at")
_UTC = ZoneInfo("UTC")
_FIELDS = tuple(n for n in Memory.__dataclass_fields__)


def withheld_of(arrays: dict[str, Any]) -> Withheld:
    """Returns what the packed part `withheld` says; a scope without that part withholds nothing."""
    if not arrays:
        return Withheld()
    began = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    ends = tuple(began + dt.timedelta(microseconds=m) for m in arrays["ends"].tolist())
    hidden, pii = arrays["flags"].tolist()
    return Withheld(ends, bool(hidden), bool(pii))


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the conditions of filters in a scope that withholds some memories, and their values by parameter."""
    filters = withheld.narrowed(filters)
    given = {name: v for name in querying.CONDITIONS if (v := getattr(filters, name)) is not None}
    conditions = [querying.CONDITIONS[name] for name in given]
    conditions += [querying.LEFT_OUT[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append(querying.LATEST)
    return tuple(conditions), {_BOUND.get(name, name): _as_stored(v) for name, v in given.items()}


def _as_stored(value: Any) -> Any:
    """Moments are stored in the zone named UTC; to Neo4j the same moment in `+00:00` is another value, and unequal."""
    return value.astimezone(_UTC) if isinstance(value, dt.datetime) else value


def sharing(source: str, entities: list[tuple[str, str, float, list[str]]], size: int, n: int) -> list[Link]:
    """Returns links over the most telling of (entity_id, name, df, targets), as `ScopeGraph.sharing` does."""
    weights = telling(np.array([df for _, _, df, _ in entities]), size)
    found: dict[str, Link] = {}
    for i in np.argsort(-weights, kind="stable").tolist():
        if weights[i] > 0:
            for target in entities[i][3]:
                found.setdefault(target, Link(source, target, "entity", float(weights[i]), entities[i][1]))
        if len(found) >= n:
            break
    return list(found.values())[:n]


def memory_of(told: dict[str, Any], source: dict[str, Any]) -> Memory:
    """Returns a memory from its node and from what its document's revision says of it."""
    held = {k: v for k, v in (told | source).items() if k in _FIELDS}
    for name in _TIMES:
        if held.get(name) is not None:
            held[name] = held[name].to_native()
    for name in ("page", "ordinal", "char_start", "char_end"):
        if held.get(name) == -1:
            held[name] = None
    return Memory(**(held | {"tags": tuple(held.get("tags") or ())}))


def newest_first(memory: Memory) -> tuple[float, str]:
    """Returns what versions are sorted by; those that nobody knows the day of come last."""
    seen = memory.valid_from or memory.observed_at
    return (-seen.timestamp() if seen else float("inf"), memory.memory_id)
