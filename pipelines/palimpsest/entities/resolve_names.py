"""Decides which names of one scope are one, by rules that state their reason; an ambiguous name is left alone.

Four kinds of evidence, in this order: a person's decision; what a text says; another spelling; a short form of the only
name it can be short for. A short form that could refer to several names (two people with one first name) is resolved
only in documents that have just one of them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from palimpsest.entities.find_names import (
    DEMONYMS,
    FEMALE,
    FIRM,
    HONORIFICS,
    LINKS,
    MALE,
    OFFICES,
    ORDINARY,
    ORGANISATION,
    PLACES,
    SETTLEMENTS,
    WORKS,
    is_full_name,
)
from palimpsest.entities.name_model import (
    ACRONYM_REASONS,
    WITH_ARTICLE,
    Merge,
    MergeContext,
    NameClusters,
    NameEvidence,
    Resolution,
    ScopeEvidence,
    preference_order,
)

# Rules that merge names by what texts say and by spelling.
#
# Each rule yields (document, merge): the merge holds in that document only, or in the whole scope where it is None.

_MIN_STATEMENTS = 2  # memories that have a name with a code in brackets
_SEPARATORS = re.compile(r"(?<!\d)[\s\-'.]+|[\s\-'.]+(?!\d)")
_BRACKETED = re.compile(r"(.+?) \(([^()]+)\)?")


FoundMerge = tuple[str | None, Merge]
"""A merge and the document that it holds in, None where it holds in the whole scope."""


def merge_stated(context: MergeContext) -> Iterator[FoundMerge]:
    """Joins names that texts say are one; an alias of two things is not merged.

    One word that other names start or end with (a first name) holds only in the documents that have what it refers to;
    these are yielded, the others are joined at once, because what an alias refers to depends on earlier merges.
    """
    clusters = context.clusters
    targets: dict[str, set[str]] = defaultdict(set)
    statements = [m for m in context.scope.stated if m.why != "in brackets" and m.alias != m.target]
    for m in statements:
        targets[m.alias].add(m.target)
    ends = Counter(w for k in context.names for w in {k.split()[0], k.split()[-1]} if " " in k)
    for m in sorted(statements, key=lambda m: (len(targets[m.alias]), m)):
        if len({clusters.root(t) for t in targets[m.alias]}) > 1:
            continue
        own = {k for k in (m.alias, m.target) if m.alias in (k.split()[0], k.split()[-1]) and " " in k}
        is_shared = ends[m.alias] > len(own) or m.alias in DEMONYMS
        if m.why in ACRONYM_REASONS or " " in m.alias or not is_shared or m.why == "renamed":
            clusters.join(m)
        elif not clusters.are_apart(m.alias, m.target):
            yield from ((d, m) for d in sorted(context.documents_of(m.target)))


def merge_brackets(context: MergeContext) -> Iterator[FoundMerge]:
    """`Name (CODE)`: one where each has only the other in brackets, and a title or two memories say so."""
    names = context.names
    codes: dict[str, set[str]] = defaultdict(set)
    holders: dict[str, set[str]] = defaultdict(set)
    memories: dict[tuple[str, str], set[str]] = defaultdict(set)
    titled = set()
    for m in context.scope.stated:
        if m.why == "in brackets":
            codes[m.target].add(m.alias)
            holders[m.alias].add(m.target)
            memories[m.alias, m.target].add(m.memory_id or "")
    for key in sorted(names):
        name, code = found.groups() if (found := _BRACKETED.fullmatch(key)) else ("", "")
        if code in names and names[code].code:
            titled.add((code, name))
            codes[name].add(code)
            holders[code].add(name)
            yield None, Merge(key, code, "in brackets", names[key].memory_id)
    for code, name in sorted({*titled, *memories}):
        is_sure = (code, name) in titled or len(memories[code, name]) >= _MIN_STATEMENTS
        if is_sure and name in names and len(codes[name]) == len(holders[code]) == 1:
            memory_id = min(memories[code, name], default=names[name].memory_id)
            yield None, Merge(code, name, "in brackets", memory_id)


def merge_spellings(context: MergeContext) -> Iterator[FoundMerge]:
    """Hyphens, spaces and points; plurals of what is counted; a town called `town of`; middle initials."""
    names = context.names
    squeezed: dict[str, list[NameEvidence]] = defaultdict(list)
    for key, name in sorted(names.items()):
        bare = _SEPARATORS.sub("", key)
        if len(bare) > 3:
            squeezed[bare].append(name)
        yield from ((None, m) for m in _administrative(context, key, name))
        words = key.split()
        kept = [w for i, w in enumerate(words) if len(w) > 1 or i in (0, len(words) - 1) or not w.isalpha()]
        if len(words) > len(kept) > 1 and is_full_name(words) and (full := " ".join(kept)) in names:
            yield None, Merge(key, full, "middle initial", name.memory_id)
        for ending, replacement in (("ies", "y"), ("es", ""), ("s", "")):
            one = names.get(key.removesuffix(ending) + replacement) if key.endswith(ending) else None
            if one is not None and len(one.key) > 1 and _is_plural(name, one):
                yield None, Merge(key, one.key, "acronym plural" if one.acronym else "plural", name.memory_id)
                break
    for same in squeezed.values():
        first = min(same, key=preference_order)
        yield from ((None, Merge(n.key, first.key, "spelling", n.memory_id)) for n in same if n is not first)


def _administrative(context: MergeContext, key: str, name: NameEvidence) -> Iterator[Merge]:
    """`Town of Lindow` and Lindow, where one document has both."""
    words = key.split()
    if len(words) > 2 and words[0] in SETTLEMENTS and words[1] == "of":
        place = " ".join(words[2:])
        if place in context.names and context.documents_of(key).keys() & context.documents_of(place):
            yield Merge(key, place, "administrative", name.memory_id)


def _is_plural(many: NameEvidence, one: NameEvidence) -> bool:
    if one.acronym:
        return many.key == one.key + "s" and not many.acronym
    return many.many > 0 and one.definite + one.one > 0 and not one.person and not many.person


def merge_titles_of_people(context: MergeContext) -> Iterator[FoundMerge]:
    """`Dr. Vale` and Vale, in the whole scope or in a document; `President Ada Vale` and Ada Vale.

    Mr and Mrs Vale are two people, and so neither is Vale; nor is Dr. Vale, where Vale is the name of others too.
    """
    names = context.names
    titled: dict[str, set[str]] = defaultdict(set)
    ends: dict[str, set[str]] = defaultdict(set)
    for key in names:
        words = key.split()
        if len(words) > 1 and words[0] not in HONORIFICS:
            ends[words[0]].add("")
            ends[words[-1]].add(context.clusters.root(key))
        elif len(words) > 1 and words[1] not in LINKS | OFFICES:
            titled[" ".join(words[1:])].add(key)
    for bare, keys in sorted(titled.items()):
        honorifics, name = {k.split()[0] for k in keys}, names.get(bare)
        if name is None or name.acronym or (honorifics & MALE and honorifics & FEMALE):
            continue
        is_shared = bool(name.inside) or "" in ends[bare] or len(ends[bare]) > 1
        for key in sorted(keys):
            memory_id = names[key].memory_id
            if " " in bare or not is_shared:
                yield None, Merge(key, bare, "title", memory_id)
            elif not name.inside:
                both = context.documents_of(bare).keys() & context.documents_of(key)
                yield from ((d, Merge(bare, key, "title", memory_id)) for d in sorted(both))
    for key, name in sorted(names.items()):
        first, *rest = key.split()
        if first in OFFICES and len(rest) > 1 and (full := " ".join(rest)) in names and is_full_name(rest):
            yield None, Merge(key, full, "title", name.memory_id)


def merge_bracketed_titles(context: MergeContext) -> Iterator[FoundMerge]:
    """`Mercury (planet)` where the scope has `Mercury (metal)` too: in a document so titled, Mercury is that one."""
    names, titles = context.names, context.scope.titles
    meanings: dict[str, set[str]] = defaultdict(set)
    for title in titles.values():
        if m := _BRACKETED.fullmatch(title):
            meanings[m.group(1)].add(title)
    for document, title in sorted(titles.items()):
        m = _BRACKETED.fullmatch(title)
        if m is None or m.group(1) not in names or len(meanings[m.group(1)]) < 2:
            continue
        if context.clusters.members(title) == {title}:
            yield document, Merge(m.group(1), title, "title", names[title].memory_id if title in names else None)


def merge_offices(context: MergeContext) -> Iterator[FoundMerge]:
    """An office is its holder in the documents that name one holder of it; elsewhere it may have passed on."""
    clusters, nobody = context.clusters, NameEvidence("")
    stated = [
        (document, m)
        for document, m in context.scope.offices
        if is_full_name(m.target.split()) or context.names.get(m.target, nobody).person
    ]
    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    for document, m in stated:
        holders[document, m.alias].add(clusters.root(m.target))
    for document, m in stated:
        if len(holders[document, m.alias]) == 1 and not clusters.are_apart(m.alias, m.target):
            yield document, m


# Rules that merge short forms: by whom or what one word can be meant in a scope, and where.

_MIN_COVERED = 0.2  # share of the documents with a short form that also have the long one
_MIN_NICKNAME_LETTERS = 3

_NOWHERE, _SAME_DOCUMENT, _WITH_ARTICLE, _EVERYWHERE = "nowhere", "same document", "with article", "everywhere"
"""Where a short form may refer to a long one; the two in the middle need a document that has both."""


def merge_short_forms(context: MergeContext) -> Iterator[FoundMerge]:
    """First names, surnames, initials, unexplained acronyms, an organisation without its last word.

    What holds in the whole scope is joined at once, because what a word is short for depends on earlier merges; what
    holds only in some documents is yielded.
    """
    yield from _ShortForms(context).merge()


class _ShortForms:
    def __init__(self, context: MergeContext):
        self.scope, self.names, self.clusters = context.scope, context.names, context.clusters
        self._documents = context.documents_of
        self._long = sorted(
            k
            for k, n in self.names.items()
            if len(n.tokens) > 1 and not n.code and not any(c.isdigit() for c in k) and k.split()[0] not in HONORIFICS
        )
        self._renamed = {m.alias for m in self.clusters.merges if m.why == "renamed"}
        self._by_first_word, self._by_last_word = defaultdict(list), defaultdict(list)
        for key in self._long:
            words = key.split()
            self._by_first_word[words[0]].append(key)
            self._by_last_word[words[-1]].append(key)

    def merge(self) -> list[FoundMerge]:
        """Joins what holds in the whole scope; returns (document, merge) for what holds only there."""
        local: list[FoundMerge] = []
        for document, merge in list(self._acronyms()):
            if document is None:
                self._join(merge)
            else:
                local.append((document, merge))
        for merge in [*self._initials(), *self._without_last_word()]:
            self._join(merge)
        persons = [k for k in sorted(self.names) if self._is_person(k)]
        single = [k for k in sorted(self.names) if " " not in k and len(k) > 1 and not self.names[k].code]
        for key in single:
            if not self.names[key].acronym and not self._has_long(key):
                local += self._merge_single_word(key)
        for key in single:
            if self._is_person(key) and not self._has_long(key) and not self._by_first_word.get(key):
                self._join_nickname(key, persons)
        return [(d, m) for d, m in local if not self.clusters.are_apart(m.alias, m.target)]

    def _is_person(self, key: str) -> bool:
        """Returns whether anything shows that a name, or one of its cluster, is a person's."""
        return any(
            m in self.scope.people or ((n := self.names.get(m)) and n.person > 0) for m in self.clusters.members(key)
        )

    def _has_long(self, key: str) -> bool:
        """Returns whether a name's cluster has a long name; one that a person gave up for a new one does not count."""
        long = (m for m in self.clusters.members(key) if " " in m and m.split()[0] not in HONORIFICS)
        return any(m not in self._renamed for m in long)

    def _join(self, merge: Merge) -> None:
        """Joins a short form, unless its cluster has a long name: two long names are never joined by a short form."""
        if not self._has_long(merge.alias) or " " in merge.alias:
            self.clusters.join(merge)

    def _merge(self, alias: str, target: str, why: str) -> Merge:
        return Merge(alias, target, why, self.names[target].memory_id or self.names[alias].memory_id)

    def _initials(self) -> Iterator[Merge]:
        """`O. Vale` where the scope has one Vale whose first name starts with O."""
        for key in self._long:
            first, *_, last = key.split()
            if len(first) == 1 and len(last) > 1 and is_full_name(key.split()):
                full = {
                    self.clusters.root(k): k
                    for k in sorted(self._by_last_word[last], reverse=True)
                    if k.startswith(first) and len(k.split()[0]) > 1 and is_full_name(k.split())
                }
                if len(full) == 1:
                    yield self._merge(key, next(iter(full.values())), "initial")

    def _acronyms(self) -> Iterator[FoundMerge]:
        """Three letters or more that one name of the scope spells: everywhere, if half of their documents have it."""
        spelled: dict[str, list[str]] = defaultdict(list)
        for key in self._long:
            spelled["".join(w[0] for w in key.split() if w not in LINKS)].append(key)
        for key, name in sorted(self.names.items()):
            if name.acronym and len(key) > 2 and len(spelled.get(key, ())) == 1:
                merge = self._merge(key, spelled[key][0], "initials")
                both = self._documents(key).keys() & self._documents(merge.target)
                if both and 2 * len(both) >= len(self._documents(key)):
                    yield None, merge
                else:
                    yield from ((d, merge) for d in sorted(both))

    def _without_last_word(self) -> Iterator[Merge]:
        """`Vale Dam` for the Vale Dam Authority, where no other name starts so."""
        for key in self._long:
            *rest, last = key.split()
            short = " ".join(rest)
            if last in ORGANISATION and len(rest) > 1 and short in self.names and not is_full_name(rest):
                others = [k for k in self._by_first_word[rest[0]] if k.startswith(short + " ") and k != key]
                if not others and not self.names[short].inside and self._is_introduced(short, key):
                    yield self._merge(short, key, "short form")

    def _merge_single_word(self, key: str) -> Iterator[FoundMerge]:
        """Joins one word to the only name that it starts or ends; yields what holds in some documents only."""
        cluster = self.clusters.members(key)
        long = [*self._by_first_word.get(key, ()), *self._by_last_word.get(key, ())]
        shortest = _without_extensions([k for k in long if k not in cluster])
        by_root = {self.clusters.root(k): k for k in sorted(shortest, reverse=True)}
        if not by_root:
            return
        reach = {root: self._reach(self.names[key], k) for root, k in by_root.items()}
        if len(by_root) == 1:
            root, full = next(iter(by_root.items()))
            if reach[root] == _EVERYWHERE:
                is_firm = not is_full_name(full.split()) or not (self._is_person(full) or self._is_person(key))
                self._join(self._merge(key, full, "short form of a firm" if is_firm else "short form"))
                return
        for document in sorted(self._documents(key)):
            there = [r for r in by_root if any(document in self._documents(m) for m in self.clusters.members(r))]
            if len(there) == 1 and reach[there[0]] != _NOWHERE:
                why = WITH_ARTICLE if reach[there[0]] == _WITH_ARTICLE else "named so in this document"
                yield document, self._merge(key, by_root[there[0]], why)

    def _reach(self, short: NameEvidence, full: str) -> str:
        """Returns where `short` may refer to `full`."""
        words = full.split()
        if short.many or short.one or (words[-1] == short.key and short.key in self.scope.people):
            return _NOWHERE  # who is known by that one word is not known by a surname
        if words == ["project", short.key]:
            return _EVERYWHERE
        if is_full_name(words) and (self._is_person(full) or self._is_person(short.key)):
            if 2 * short.definite > short.n or short.titled:
                return _NOWHERE
            is_known = not short.inside and short.key not in ORGANISATION and self._recurs(short.key, full)
            return _EVERYWHERE if is_known else _SAME_DOCUMENT
        if is_full_name(words) and words[-1] == short.key and not (short.definite or short.inside or short.titled):
            return _SAME_DOCUMENT if self._is_introduced(short.key, full) else _NOWHERE
        if short.titled or LINKS & set(words):
            return _NOWHERE
        if words[-1] == short.key:
            return _WITH_ARTICLE if short.key in ORGANISATION and short.definite else _NOWHERE
        return _EVERYWHERE if self._is_firm(short, full) else _NOWHERE

    def _recurs(self, short: str, full: str) -> bool:
        """Returns whether two documents, or most documents with the short form, have the person's full name.

        Of somebody whom one page of an encyclopedia mentions, other pages do not speak by first name.
        """
        named = {d for m in self.clusters.members(full) if " " in m for d in self._documents(m)}
        with_short = self._documents(short).keys()
        return len(named) > 1 or 3 * len(with_short & named) > 2 * len(with_short)

    def _is_firm(self, short: NameEvidence, full: str) -> bool:
        """Returns whether a name has the shape of a firm's and the short form follows it: `Vale Batteries`, then Vale.

        Neither has an article, and the short form is no place, people or thing that others are named after.
        """
        first, *rest = full.split()
        long = self.names[full]
        is_bare = not (short.definite or short.inside or long.definite or long.one or long.inside)
        has_shape = len(rest) == 1 or rest[-1] in FIRM
        other_kinds = (ORGANISATION - FIRM) | PLACES | WORKS | DEMONYMS
        if not (is_bare and has_shape) or other_kinds & {first, rest[-1]}:
            return False
        if self._documents(short.key).keys() & self._documents(full):
            return bool(long.acts or short.acts) and self._is_introduced(short.key, full)
        return bool(long.acts)

    def _join_nickname(self, key: str, persons: list[str]) -> None:
        """Joins a first name cut short to the only person it can be: one with a surname, or a speaker there.

        Two names in one memory are two people, and so may be two that differ by one letter (Paul and Paula).
        """
        memories = self.scope.memories.get(key, frozenset())
        candidates: dict[str, str] = {}
        for k in sorted((k for k in persons if k.startswith(key) and k != key), reverse=True):
            words = self.names[k].tokens
            if words[0].startswith(key) and words[0] != key:
                candidates[self.clusters.root(k)] = k
        if len(candidates) != 1 or len(key) < _MIN_NICKNAME_LETTERS:
            return
        full = next(iter(candidates.values()))
        both = self._documents(key).keys() & self._documents(full)
        is_sure = is_full_name(full.split()) or (full in self.scope.people and both)
        together = any(memories & self.scope.memories.get(m, frozenset()) for m in self.clusters.members(full))
        if is_sure and not together and len(full.split()[0]) >= len(key) + 2:
            self._join(self._merge(key, full, "nickname"))

    def _is_introduced(self, short: str, full: str) -> bool:
        """Returns whether documents have the long form first, and enough of those with the short form have it."""
        with_short, with_full = self._documents(short), self._documents(full)
        both = [d for d in with_short if d in with_full]
        first = sum(with_full[d] <= with_short[d] for d in both)
        is_covered = " " in short or len(both) >= _MIN_COVERED * len(with_short)
        return bool(both) and 2 * first > len(both) and is_covered


def _without_extensions(keys: list[str]) -> set[str]:
    """Drops names that contain another of them: a foundation named after a person is not a second person."""
    return {k for k in keys if not any(o != k and f" {o} " in f" {k} " for o in keys)}


_RULES = (
    merge_stated,
    merge_brackets,
    merge_spellings,
    merge_titles_of_people,
    merge_short_forms,
    merge_bracketed_titles,
    merge_offices,
)


def resolve(scope: ScopeEvidence) -> Resolution:
    """Resolves the names of one scope: a pure function of it, whatever the order of its parts."""
    names = _all_names(scope)
    clusters = NameClusters(scope.apart)

    def preference(key: str) -> tuple[object, ...]:
        return preference_order(names.get(key, NameEvidence(key)))

    for pair in sorted(scope.same):
        target, alias = sorted(pair, key=preference)
        clusters.join(Merge(alias, target, "decided"))
    local = _apply_rules(MergeContext(scope, names, clusters))
    canonical = {k: c for k, c in clusters.canonical(preference).items() if k != c}
    meanings = {at: (canonical.get(m.target, m.target), m.why == WITH_ARTICLE) for at, m in local.items()}
    return Resolution(canonical, meanings, clusters.merges, sorted((d, m) for (d, _), m in local.items()))


def _all_names(scope: ScopeEvidence) -> dict[str, NameEvidence]:
    """Returns the scope's names, those of people, and `Vale` where only `Dr. Vale` is mentioned."""
    names = dict(scope.names)
    for name in scope.names.values():
        bare = " ".join(name.tokens)
        if bare not in names and bare not in ORDINARY:
            names[bare] = NameEvidence(bare, name.n, max(1, name.person))
    for person in scope.people:
        names.setdefault(person, NameEvidence(person, person=1))
    return names


def _apply_rules(context: MergeContext) -> dict[tuple[str, str], Merge]:
    """Joins what holds in the whole scope; returns the first merge of each (document, alias) of what does not."""
    found: list[FoundMerge] = []
    for rule in _RULES:
        for document, merge in list(rule(context)):
            if document is None:
                context.clusters.join(merge)
            else:
                found.append((document, merge))
    local: dict[tuple[str, str], Merge] = {}
    for document, merge in found:
        if document is not None and not context.clusters.are_apart(merge.alias, merge.target):
            local.setdefault((document, merge.alias), merge)
    return local
