"""Short forms of names: by whom or what one word can be meant in a scope, and where."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from palimpsest.entities.names.clusters import Clusters, Edge
from palimpsest.entities.names.lexicon import DEMONYMS, FIRM, HONORIFICS, LINKS, ORGANISATION, PLACES, WORKS, personal
from palimpsest.entities.names.name_model import WITH_ARTICLE, Name, Scope

_COVERED = 0.2  # of the documents with a short form, the share that also has the long one
_LEAST_OF_NAME = 3  # letters that a cut-off first name must keep


class ShortForms:
    """First names, surnames, initials, acronyms that nobody explained, an organisation without its last word."""

    def __init__(self, scope: Scope, names: dict[str, Name], clusters: Clusters):
        self.scope, self.names, self.clusters = scope, names, clusters
        self.long = sorted(
            k
            for k, n in names.items()
            if len(n.tokens) > 1 and not n.code and not any(c.isdigit() for c in k) and k.split()[0] not in HONORIFICS
        )
        self.renamed = {e.alias for e in clusters.edges if e.why == "renamed"}
        self.at_start, self.at_end = defaultdict(list), defaultdict(list)
        for key in self.long:
            words = key.split()
            self.at_start[words[0]].append(key)
            self.at_end[words[-1]].append(key)

    def run(self) -> list[tuple[str, Edge]]:
        """Joins what is sure in the whole scope; returns (document, edge) for what is sure only there."""
        local: list[tuple[str, Edge]] = []
        for document, edge in list(self._acronyms()):
            if document is None:
                self._shorten(edge)
            else:
                local.append((document, edge))
        for edge in [*self._initialled(), *self._without_last_word()]:
            self._shorten(edge)
        self.persons = [k for k in sorted(self.names) if self.is_person(k)]
        alone = [k for k in sorted(self.names) if " " not in k and len(k) > 1 and not self.names[k].code]
        for key in alone:
            if not self.names[key].acronym and not self._has_long(key):
                local += self._short(key)
        for key in alone:
            if self.is_person(key) and not self._has_long(key) and not self.at_start.get(key):
                self._nickname(key)
        return [(d, e) for d, e in local if not self.clusters.apart(e.alias, e.target)]

    def is_person(self, key: str) -> bool:
        """Says whether anything shows that a name, or one that is one with it, is a person's."""
        return any(
            m in self.scope.people or ((n := self.names.get(m)) and n.person > 0) for m in self.clusters.members(key)
        )

    def _has_long(self, key: str) -> bool:
        """Says whether a name is one with a long one already; a new name that somebody took leaves room for the old."""
        long = (m for m in self.clusters.members(key) if " " in m and m.split()[0] not in HONORIFICS)
        return any(m not in self.renamed for m in long)

    def _shorten(self, edge: Edge) -> None:
        """Joins a short form, unless it is one with another long name already: two long names never meet over it."""
        if not self._has_long(edge.alias) or " " in edge.alias:
            self.clusters.join(edge)

    def _edge(self, alias: str, target: str, why: str) -> Edge:
        return Edge(alias, target, why, self.names[target].memory_id or self.names[alias].memory_id)

    def _initialled(self) -> Iterator[Edge]:
        """`O. Vale` where the scope has one Vale whose first name starts with O."""
        for key in self.long:
            first, *_, last = key.split()
            if len(first) == 1 and len(last) > 1 and personal(key.split()):
                full = {
                    self.clusters.root(k): k
                    for k in sorted(self.at_end[last], reverse=True)
                    if k.startswith(first) and len(k.split()[0]) > 1 and personal(k.split())
                }
                if len(full) == 1:
                    yield self._edge(key, next(iter(full.values())), "initial")

    def _acronyms(self) -> Iterator[tuple[str | None, Edge]]:
        """Three letters or more that one name of the scope spells: everywhere, if half of their documents have it."""
        spelled: dict[str, list[str]] = defaultdict(list)
        for key in self.long:
            spelled["".join(w[0] for w in key.split() if w not in LINKS)].append(key)
        for key, name in sorted(self.names.items()):
            if name.acronym and len(key) > 2 and len(spelled.get(key, ())) == 1:
                edge = self._edge(key, spelled[key][0], "initials")
                both = self._documents(key).keys() & self._documents(edge.target)
                if both and 2 * len(both) >= len(self._documents(key)):
                    yield None, edge
                else:
                    yield from ((d, edge) for d in sorted(both))

    def _without_last_word(self) -> Iterator[Edge]:
        """`Vale Dam` for the Vale Dam Authority, where no other name starts so."""
        for key in self.long:
            *rest, last = key.split()
            short = " ".join(rest)
            if last in ORGANISATION and len(rest) > 1 and short in self.names and not personal(rest):
                others = [k for k in self.at_start[rest[0]] if k.startswith(short + " ") and k != key]
                if not others and not self.names[short].inside and self._introduces(key, short):
                    yield self._edge(short, key, "short form")

    def _short(self, key: str) -> Iterator[tuple[str, Edge]]:
        """Joins one word to the only name it starts or ends; yields what holds in some documents only."""
        mine = self.clusters.members(key)
        found = _least([k for k in (*self.at_start.get(key, ()), *self.at_end.get(key, ())) if k not in mine])
        by_root = {self.clusters.root(k): k for k in sorted(found, reverse=True)}
        if not by_root:
            return
        name = self.names[key]
        ways = {r: self._way(name, k) for r, k in by_root.items()}
        if len(by_root) == 1:
            (_root, full), way = next(iter(by_root.items())), next(iter(ways.values()))
            if way == "everywhere":
                firm = not personal(full.split()) or not (self.is_person(full) or self.is_person(key))
                self._shorten(self._edge(key, full, "short form of a firm" if firm else "short form"))
                return
        for document in sorted(self._documents(key)):
            there = [r for r in by_root if any(document in self._documents(m) for m in self.clusters.members(r))]
            if len(there) == 1 and (way := ways[there[0]]):
                why = WITH_ARTICLE if way == "the" else "named so in this document"
                yield document, self._edge(key, by_root[there[0]], why)

    def _way(self, short: Name, full: str) -> str:
        """Says where `short` may stand for `full`: `everywhere`, where that is named (`here`, `the`), or nowhere."""
        words = full.split()
        if short.many or short.one or (words[-1] == short.key and short.key in self.scope.people):
            return ""  # who is known by that one word is not known by a surname
        if personal(words) and (self.is_person(full) or self.is_person(short.key)):
            if 2 * short.definite > short.n:
                return ""
            if short.titled:
                return ""
            known = not short.inside and short.key not in ORGANISATION and self._recurs(short.key, full)
            return "everywhere" if known else "here"
        if personal(words) and words[-1] == short.key and not (short.definite or short.inside or short.titled):
            return "here" if self._introduces(full, short.key) else ""
        if short.titled or LINKS & set(words):
            return ""
        if words[-1] == short.key:
            return "the" if short.key in ORGANISATION and short.definite else ""
        return "everywhere" if self._is_firm(short, full) else ""

    def _recurs(self, short: str, full: str) -> bool:
        """Says whether a person belongs to the world of this scope: two documents, or most with the short one, name it.

        Of somebody whom one page of an encyclopedia names, other pages do not speak by first name.
        """
        named = {d for m in self.clusters.members(full) if " " in m for d in self._documents(m)}
        mine = self._documents(short).keys()
        return len(named) > 1 or 3 * len(mine & named) > 2 * len(mine)

    def _is_firm(self, short: Name, full: str) -> bool:
        """Says whether a name has the shape of a firm's and the short form follows it: `Vale Batteries`, then Vale.

        Both stand without an article, and the short form is no place, people or thing that others are named after.
        """
        first, *rest = full.split()
        long = self.names[full]
        bare = not (short.definite or short.inside or long.definite or long.one or long.inside)
        shape = len(rest) == 1 or rest[-1] in FIRM
        odd = (ORGANISATION - FIRM) | PLACES | WORKS | DEMONYMS
        if not (bare and shape) or odd & {first, rest[-1]}:
            return False
        if self._documents(short.key).keys() & self._documents(full):
            return bool(long.acts or short.acts) and self._introduces(full, short.key)
        return bool(long.acts)

    def _nickname(self, key: str) -> None:
        """Joins a cut-off first name to the only person it can be cut from: one with a surname, or a speaker there.

        Two that stand in one memory are two people, and so may be two that differ by one letter (Paul and Paula).
        """
        mine = self.scope.memories.get(key, frozenset())
        people: dict[str, str] = {}
        for k in sorted((k for k in self.persons if k.startswith(key) and k != key), reverse=True):
            words = self.names[k].tokens
            if words[0].startswith(key) and words[0] != key:
                people[self.clusters.root(k)] = k
        if len(people) != 1 or len(key) < _LEAST_OF_NAME:
            return
        full = next(iter(people.values()))
        here = self._documents(key).keys() & self._documents(full)
        sure = personal(full.split()) or (full in self.scope.people and here)
        apart = any(mine & self.scope.memories.get(m, frozenset()) for m in self.clusters.members(full))
        if sure and not apart and len(full.split()[0]) >= len(key) + 2:
            self._shorten(self._edge(key, full, "nickname"))

    def _documents(self, key: str) -> Mapping[str, int]:
        return self.scope.documents.get(key, {})

    def _introduces(self, full: str, short: str) -> bool:
        """Says whether documents name the long form first, and enough of those with the short one have it."""
        mine, theirs = self._documents(short), self._documents(full)
        both = [d for d in mine if d in theirs]
        first = sum(theirs[d] <= mine[d] for d in both)
        enough = " " in short or len(both) >= _COVERED * len(mine)
        return bool(both) and 2 * first > len(both) and enough


def _least(keys: list[str]) -> set[str]:
    """Drops names that hold another of them: a foundation named after a person is not a second person."""
    return {k for k in keys if not any(o != k and f" {o} " in f" {k} " for o in keys)}
