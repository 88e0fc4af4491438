"""What resolution in one scope depends on, and what it finds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from palimpsest.entities.names.clusters import Edge
from palimpsest.entities.names.lexicon import HONORIFICS

ACRONYM = ("long form", "initials", "short for", "stands for", "acronym plural")
"""Reasons for which letters stand for words: only where they are written in capitals."""
WITH_ARTICLE = "the only one of its kind in this document"


@dataclass(frozen=True, slots=True)
class Name:
    """A key of one scope with what its mentions show; counts of mentions by what stands beside them."""

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
        """The words of the name, without an honorific."""
        words = self.key.split()
        return words[1:] if len(words) > 1 and words[0] in HONORIFICS else words


@dataclass(frozen=True)
class Scope:
    """All that resolution in one scope depends on.

    Attributes:
        names: by key.
        stated: what texts say: alias, target, why, a memory.
        offices: who holds an office (the alias) by the words of a document.
        people: keys known to be persons: speakers, and names in the metadata of documents.
        documents: of each key, where each document first names it: in its text, or at -1 by title, metadata or speaker.
        memories: of each key, the memories whose text names it.
        titles: of each document, the key of its title.
        same: pairs that a person made one.
        apart: pairs that a person set apart.
    """

    names: Mapping[str, Name]
    stated: tuple[Edge, ...] = ()
    offices: tuple[tuple[str, Edge], ...] = ()
    people: frozenset[str] = frozenset()
    documents: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    memories: Mapping[str, frozenset[str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    same: tuple[tuple[str, str], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Resolution:
    """What was found: `canonical` by key where it is another, and the reasons.

    `local` maps (document, key) to the key that it stands for there, and whether only with an article (`the Trust`).
    """

    canonical: dict[str, str]
    local: dict[tuple[str, str], tuple[str, bool]]
    edges: list[Edge]
    local_edges: list[tuple[str, Edge]]

    @property
    def acronyms(self) -> list[str]:
        """The keys that stand for a long form only where they are written in capitals."""
        return sorted({e.alias for e in self.edges if e.why in ACRONYM} & self.canonical.keys())

    def reasons(self) -> Iterator[tuple[str | None, Edge, str]]:
        """Yields (document or none, edge, key of the entity that it leads to)."""
        for e in self.edges:
            yield None, e, self.canonical.get(e.target, e.target)
        for document, e in self.local_edges:
            yield document, e, self.canonical.get(e.target, e.target)


def order(name: Name) -> tuple[object, ...]:
    """Orders names by how well they stand for an entity: whole and long ones first, codes and acronyms last."""
    words = name.key.split()
    titled = len(words) > 1 and words[0] in HONORIFICS
    return (name.code, name.acronym, titled, any(len(w) == 1 for w in words), -len(words), -len(name.key), name.key)
