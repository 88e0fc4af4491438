"""Names that are one, joined pair by pair with the reason of each; pairs that a person set apart never meet."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Edge(NamedTuple):
    """Two names that are one: `alias` stands for `target` because of `why`, as `memory_id` shows, where one does."""

    alias: str
    target: str
    why: str
    memory_id: str | None = None


class Clusters:
    """Disjoint sets of names. The order in which edges are offered decides; each accepted one is kept as a reason."""

    def __init__(self, apart: Iterable[tuple[str, str]] = ()):
        self._parent: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        self._apart: dict[str, set[str]] = {}
        for a, b in apart:
            self._apart.setdefault(a, set()).add(b)
            self._apart.setdefault(b, set()).add(a)
        self.edges: list[Edge] = []

    def root(self, name: str) -> str:
        """Returns what all names of a cluster have in common; it is no name to show."""
        path = []
        while (above := self._parent.get(name, name)) != name:
            path.append(name)
            name = above
        for p in path:
            self._parent[p] = name
        return name

    def members(self, name: str) -> set[str]:
        """Returns the cluster that holds a name, itself included."""
        return self._members.get(self.root(name), {name})

    def apart(self, a: str, b: str) -> bool:
        """Says whether a person set two names, or any that are one with them, apart."""
        theirs = self.members(b)
        return any(not theirs.isdisjoint(self._apart.get(m, ())) for m in self.members(a))

    def join(self, edge: Edge) -> bool:
        """Makes two names one and keeps the reason; says no where they are one already, or set apart."""
        a, b = self.root(edge.alias), self.root(edge.target)
        if a == b or self.apart(a, b):
            return False
        into, other = (a, b) if len(self.members(a)) >= len(self.members(b)) else (b, a)
        self._members[into] = self.members(into) | self.members(other)
        self._members.pop(other, None)
        self._parent[other] = into
        self.edges.append(edge)
        return True

    def canonical(self, order: Callable[[str], tuple[object, ...]]) -> dict[str, str]:
        """Maps each joined name to the one its cluster goes by: the least by `order` that stands for no other."""
        aliases = {e.alias for e in self.edges}
        out = {}
        for members in self._members.values():
            best = min(members - aliases or members, key=order)
            out.update(dict.fromkeys(members, best))
        return out
