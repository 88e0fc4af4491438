"""What resolution in one scope depends on (`ScopeEvidence`), works on (`MergeContext`) and finds (`Resolution`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from palimpsest.entities.find_names import HONORIFICS

# Clusters of names that are one, joined pair by pair with the reason of each; pairs set apart are never joined.


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


ACRONYM_REASONS = ("long form", "initials", "short for", "stands for", "acronym plural")
"""Reasons of merges that hold only where the alias is written in capitals."""
WITH_ARTICLE = "the only one of its kind in this document"


@dataclass(frozen=True, slots=True)
class NameEvidence:
    """A name of one scope and what its mentions show.

    Attributes:
        key: the folded name.
        n: mentions outside titles.
        person: mentions whose context is a person's: an honorific, `said`, a pronoun.
        definite: mentions after `the` or a possessive.
        one: mentions after `a`, `each` or the like.
        many: mentions after a number or `many`.
        inside: mentions as a place: after `in`, or by a library.
        acts: mentions as a firm: before `sells` or the like, or by a library.
        code: whether it is a code such as `KT-20`.
        acronym: whether it is written in capitals only.
        titled: whether it is the title of a document.
        memory_id: the first memory that mentions it.
    """

    key: str
    n: int = 0
    person: int = 0
    definite: int = 0
    one: int = 0
    many: int = 0
    inside: int = 0
    acts: int = 0
    code: bool = False
    acronym: bool = False
    titled: bool = False
    memory_id: str | None = None

    @property
    def tokens(self) -> list[str]:
        """Words of the name, without an honorific."""
        words = self.key.split()
        return words[1:] if len(words) > 1 and words[0] in HONORIFICS else words


@dataclass(frozen=True)
class ScopeEvidence:
    """All that the resolution of one scope depends on.

    Attributes:
        names: by key.
        stated: names that texts say are one.
        offices: (document, merge) of an office (the alias) and its holder, as the document says.
        people: keys known to be persons: speakers, and names in the metadata of documents.
        documents: of each key, where each document first names it: in its text, or at -1 by title, metadata or speaker.
        memories: of each key, the memories whose text names it.
        titles: of each document, the key of its title.
        same: pairs that a person made one.
        apart: pairs that a person set apart.
    """

    names: Mapping[str, NameEvidence]
    stated: tuple[Merge, ...] = ()
    offices: tuple[tuple[str, Merge], ...] = ()
    people: frozenset[str] = frozenset()
    documents: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    memories: Mapping[str, frozenset[str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    same: tuple[tuple[str, str], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MergeContext:
    """What a rule of resolution reads: the evidence, all names (people and bare names included), and the clusters."""

    scope: ScopeEvidence
    names: Mapping[str, NameEvidence]
    clusters: NameClusters

    def documents_of(self, key: str) -> Mapping[str, int]:
        """Returns the documents that have a name, with the place where each first has it."""
        return self.scope.documents.get(key, {})


@dataclass(frozen=True)
class Resolution:
    """What the names of one scope refer to.

    Attributes:
        canonical: canonical key of each key that has another.
        local: (document, key) to the key that it refers to there, and whether only with an article (`the Trust`).
        merges: reasons for `canonical`.
        local_merges: (document, reason) for `local`.
    """

    canonical: dict[str, str]
    local: dict[tuple[str, str], tuple[str, bool]]
    merges: list[Merge]
    local_merges: list[tuple[str, Merge]]

    @property
    def acronyms(self) -> list[str]:
        """Keys that refer to a long form only where they are written in capitals."""
        return sorted({m.alias for m in self.merges if m.why in ACRONYM_REASONS} & self.canonical.keys())

    def reasons(self) -> Iterator[tuple[str | None, Merge, str]]:
        """Yields (document or None, merge, key of the entity that it leads to)."""
        for document, merge in (*((None, m) for m in self.merges), *self.local_merges):
            yield document, merge, self.canonical.get(merge.target, merge.target)


def preference_order(name: NameEvidence) -> tuple[object, ...]:
    """Returns a sort key: whole and long names, which suit an entity best, come first; codes and acronyms last."""
    words = name.key.split()
    titled = len(words) > 1 and words[0] in HONORIFICS
    return (name.code, name.acronym, titled, any(len(w) == 1 for w in words), -len(words), -len(name.key), name.key)
