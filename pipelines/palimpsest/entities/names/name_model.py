"""What resolution in one scope depends on (`ScopeEvidence`), works on (`MergeContext`) and finds (`Resolution`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from palimpsest.entities.names.clusters import Merge, NameClusters
from palimpsest.entities.names.lexicon import HONORIFICS

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
