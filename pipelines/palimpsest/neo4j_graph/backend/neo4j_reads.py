"""Reads of one build in a server: a build that was swept meanwhile is an error, never a part of an answer."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.times import is_of_own_clock
from palimpsest.neo4j_graph.connect import Connection, CypherParameters
from palimpsest.neo4j_graph.cypher import querying
from palimpsest.query.request.types import MEMORY_TIMES, Filters, Memory, Scope, stored_memory
from palimpsest.query.scope.view import Withheld


@dataclass(frozen=True)
class BuildReads:
    """Runs statements over one build.

    Attributes:
        connection: to the server.
        home_id: of the home.
        number: of the build there.
        begun: when its numbering began.
        build_id: of the build, for errors.
    """

    connection: Connection
    home_id: str
    number: int
    begun: str
    build_id: str

    def read(self, scope: Scope, statement: str, values: CypherParameters, **more: object) -> list[Any]:
        """Returns the rows of a scope, if this build was still retained after reading them.

        Raises:
            ComponentFailed: it was not.
        """
        key = {"collection": scope.collection, "user": scope.user_id, "project": scope.project_id}
        parameters = {**values, **more, **self._build, **key}
        found = self.connection.query(statement, parameters)
        self._check(bool(found) and found[0]["kept"])
        return list(found[0]["found"])

    def packed(self, statement: str, **values: object) -> list[Any]:
        """Returns rows too large to be collected; checks afterwards whether the build was still retained.

        Raises:
            ComponentFailed: it was not.
        """
        parameters = {**self._build, **values}
        found = self.connection.query(statement, parameters)
        retained = self.connection.query(querying.STILL_KEPT, parameters)
        self._check(bool(retained) and retained[0]["kept"])
        return found

    @property
    def _build(self) -> CypherParameters:
        return {"home": self.home_id, "number": self.number, "begun": self.begun}

    def _check(self, retained: bool) -> None:
        if not retained:
            raise ComponentFailed(f"neo4j: build {self.build_id} is no longer served; refresh or reopen the reader")


# Filters as Cypher conditions, and nodes of Neo4j as memories.

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
