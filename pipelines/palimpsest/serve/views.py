"""What the service answers about one memory, as JSON; what is not the caller's is not there."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE, JsonObject, ScopeKey
from palimpsest.query.request.types import Scope, ShownMemory
from palimpsest.query.result import history_json, memory_json
from palimpsest.serve.open_reader import CallerView
from palimpsest.serve.problems import NotFound, Problem
from palimpsest.store.builds import published
from palimpsest.store.home import Home


def show_memory(view: CallerView, memory_id: str) -> JsonObject:
    """Returns one memory, with what disputes it and what was said later about the same.

    Raises:
        NotFound: the caller has none with this id.
    """
    return memory_json(find_memory(view, view.scopes(include_pending=True), memory_id)[1])


def find_memory(view: CallerView, scopes: Sequence[Scope], memory_id: str) -> tuple[Scope, ShownMemory]:
    """Returns a memory of some scopes, built or pending, and its scope.

    After a publication what is pending is formed again: it is waited for.

    Raises:
        NotFound: none of them has it.
    """
    for form in (view.reader.form_pending, view.wait_for_pending):
        form(scopes)
        for scope in scopes:
            if (found := view.reader.memory_with_changes([scope], memory_id)) is not None:
                return scope, found
    raise NotFound


def show_history(view: CallerView, memory_id: str) -> JsonObject:
    """Returns all versions of a memory's fact, newest first.

    Raises:
        NotFound: the caller has no memory with this id.
    """
    found = (view.reader.history_of(s, memory_id) for s in view.formed_scopes())
    if (versions := next((v for v in found if v), None)) is None:
        raise NotFound
    return {"versions": list(history_json(versions))}


def show_source(view: CallerView, memory_id: str, reach: int) -> JsonObject:
    """Returns a memory among those before and after it.

    Raises:
        NotFound: the caller has none with this id.
    """
    scopes = view.formed_scopes()
    found = view.reader.surroundings(scopes, memory_id, reach) if scopes else []
    if not found:
        raise NotFound
    return {"memory_id": memory_id, "memories": [memory_json(m) for m in found]}


def own_scope(view: CallerView, memory_id: str) -> Scope:
    """Returns the scope of a memory that is the caller's own and that the caller may see, built or pending.

    Raises:
        NotFound: there is none.
    """
    return find_memory(view, view.own_scopes(include_pending=True), memory_id)[0]


def retiring_relation(view: CallerView, memory_id: str) -> str:
    """Returns the id of the UPDATE that retired one of the caller's own memories.

    Raises:
        Problem: no UPDATE did.
    """
    for scope in view.own_scopes():
        for version in view.reader.history_of(scope, memory_id):
            if version.memory.memory_id == memory_id and version.why is not None and version.why.relation_id:
                return str(version.why.relation_id)
    raise Problem(409, "no update retired it")


def check_own(view: CallerView, memory_id: str) -> None:
    """Checks that a memory is the caller's own, as what is deleted must be.

    Raises:
        NotFound: it is not.
    """
    scopes = view.own_scopes()
    if not scopes or view.reader.memory(scopes, memory_id, include_hidden=True, include_pii=True) is None:
        own_scope(view, memory_id)


# Where the nodes of a caller's graph are drawn: as the build laid them out, scope beside scope.

TABLE = "node_positions"
_GAP = 8.0
_SCHEMA = {"node_id": pl.String, **dict.fromkeys(SCOPE, pl.String), "x": pl.Float64, "y": pl.Float64}


@dataclass(frozen=True)
class _Layout:
    """The positions of a build, and of each scope its left and right end and its middle from top to bottom."""

    build_id: str = ""
    table: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_SCHEMA))
    extents: Mapping[ScopeKey, tuple[float, float, float]] = field(default_factory=dict)


class Positions:
    """Reads the layout of a build when it is first needed, and keeps that of one build."""

    def __init__(self, home: Home):
        self._home, self._lock, self._layout = home, threading.Lock(), _Layout()

    def place(self, build_id: str, scopes: Sequence[Scope], nodes: Iterable[JsonObject]) -> list[JsonObject]:
        """Returns nodes with `x` and `y`; None where an earlier version built them.

        Args:
            build_id: of the build that the nodes are read from.
            scopes: all that the caller may read: they lie beside one another in this order.
            nodes: with their `id`.
        """
        with self._lock:
            if self._layout.build_id != build_id:
                self._layout = self._read(build_id)
            layout = self._layout
        nodes = list(nodes)
        shifts = _shifts(layout, scopes)
        wanted = pl.DataFrame({"node_id": [str(n["id"]) for n in nodes]}, schema={"node_id": pl.String})
        found = {}
        for node_id, collection, user, project, x, y in layout.table.join(wanted, on="node_id", how="semi").iter_rows():
            if shift := shifts.get((collection, user, project)):
                found[node_id] = (round(x + shift[0], 2), round(y + shift[1], 2))
        return [n | dict(zip("xy", found.get(str(n["id"]), (None, None)), strict=True)) for n in nodes]

    def _read(self, build_id: str) -> _Layout:
        try:
            build = published(self._home)
            if build is None or build.build_id != build_id:
                return _Layout(build_id)
            table = build.tables([TABLE])[TABLE].select(*_SCHEMA)
        except (PalimpsestError, OSError, pl.exceptions.PolarsError):
            return _Layout(build_id)  # the graph is served without them
        middle = (pl.col("y").min() + pl.col("y").max()) / 2
        rows = table.group_by(SCOPE).agg(pl.col("x").min().alias("left"), pl.col("x").max().alias("right"), y=middle)
        return _Layout(build_id, table, {(str(c), str(u), str(p)): (a, b, y) for c, u, p, a, b, y in rows.iter_rows()})


def _shifts(layout: _Layout, scopes: Sequence[Scope]) -> dict[ScopeKey, tuple[float, float]]:
    """Returns how far each scope is moved so that none overlaps another."""
    shifts: dict[ScopeKey, tuple[float, float]] = {}
    at = 0.0
    for scope in scopes:
        key = (scope.collection, scope.user_id, scope.project_id)
        if extent := layout.extents.get(key):
            left, right, middle = extent
            shifts[key] = (at - left, -middle)
            at += right - left + _GAP
    return shifts
