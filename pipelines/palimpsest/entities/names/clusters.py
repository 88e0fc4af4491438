"""Clusters of names that are one, joined pair by pair with the reason of each; pairs set apart are never joined."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Merge(NamedTuple):
    """Two names that are one: `alias` refers to `target` because of `why`; `memory_id` shows it, where one does."""

    alias: str
    target: str
    why: str
    memory_id: str | None = None


class NameClusters:
    """Disjoint sets of names. Merges are accepted in the order they come; each accepted one is kept as a reason."""

    def __init__(self, apart: Iterable[tuple[str, str]] = ()):
        self._parent: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        self._apart: dict[str, set[str]] = {}
        for a, b in apart:
            self._apart.setdefault(a, set()).add(b)
            self._apart.setdefault(b, set()).add(a)
        self.merges: list[Merge] = []

    def root(self, name: str) -> str:
        """Returns the key of a name's cluster; it is not a name to show."""
        path = []
        while (above := self._parent.get(name, name)) != name:
            path.append(name)
            name = above
        for p in path:
            self._parent[p] = name
        return name

    def members(self, name: str) -> set[str]:
        """Returns the cluster that contains a name, itself included."""
        return self._members.get(self.root(name), {name})

    def are_apart(self, a: str, b: str) -> bool:
        """Returns whether a person set two names, or any in their clusters, apart."""
        theirs = self.members(b)
        return any(not theirs.isdisjoint(self._apart.get(m, ())) for m in self.members(a))

    def join(self, merge: Merge) -> bool:
        """Joins two names and keeps the reason; returns False where they are joined already, or set apart."""
        a, b = self.root(merge.alias), self.root(merge.target)
        if a == b or self.are_apart(a, b):
            return False
        into, other = (a, b) if len(self.members(a)) >= len(self.members(b)) else (b, a)
        self._members[into] = self.members(into) | self.members(other)
        self._members.pop(other, None)
        self._parent[other] = into
        self.merges.append(merge)
        return True

    def canonical(self, order: Callable[[str], tuple[object, ...]]) -> dict[str, str]:
        """Maps each joined name to the canonical one of its cluster: the least by `order` that is no alias."""
        aliases = {m.alias for m in self.merges}
        out = {}
        for members in self._members.values():
            best = min(members - aliases or members, key=order)
            out.update(dict.fromkeys(members, best))
        return out
