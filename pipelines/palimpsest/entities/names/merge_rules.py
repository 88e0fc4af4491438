"""Rules that merge names by what texts say and by spelling.

Each rule yields (document, merge): the merge holds in that document only, or in the whole scope where it is None.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from palimpsest.entities.names.clusters import Merge
from palimpsest.entities.names.lexicon import (
    DEMONYMS,
    FEMALE,
    HONORIFICS,
    LINKS,
    MALE,
    OFFICES,
    SETTLEMENTS,
    is_full_name,
)
from palimpsest.entities.names.name_model import ACRONYM_REASONS, MergeContext, NameEvidence, preference_order

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
