"""Names that are one by what texts say and by how they are spelled; each rule yields edges with its reason."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from palimpsest.entities.names.clusters import Clusters, Edge
from palimpsest.entities.names.lexicon import DEMONYMS, FEMALE, HONORIFICS, LINKS, MALE, OFFICES, SETTLEMENTS, personal
from palimpsest.entities.names.name_model import ACRONYM, Name, Scope, order

_STATED_TWICE = 2
_JOINTS = re.compile(r"(?<!\d)[\s\-'.]+|[\s\-'.]+(?!\d)")
_BRACKETED = re.compile(r"(.+?) \(([^()]+)\)?")


def stated(scope: Scope, names: Mapping[str, Name], clusters: Clusters) -> Iterator[tuple[str, Edge]]:
    """Joins what texts say; an alias of two things stands for itself.

    One word that other names start or end with (a first name) holds only in the documents that name what it stands for,
    which are yielded.
    """
    targets: dict[str, set[str]] = defaultdict(set)
    told = [e for e in scope.stated if e.why != "in brackets" and e.alias != e.target]
    for e in told:
        targets[e.alias].add(e.target)
    ends = Counter(w for k in names for w in {k.split()[0], k.split()[-1]} if " " in k)
    for e in sorted(told, key=lambda e: (len(targets[e.alias]), e)):
        if len({clusters.root(t) for t in targets[e.alias]}) > 1:
            continue
        own = {k for k in (e.alias, e.target) if e.alias in (k.split()[0], k.split()[-1]) and " " in k}
        loose = e.why not in ACRONYM and " " not in e.alias and (ends[e.alias] > len(own) or e.alias in DEMONYMS)
        if not loose or e.why == "renamed":
            clusters.join(e)
        elif not clusters.apart(e.alias, e.target):
            yield from ((d, e) for d in sorted(scope.documents.get(e.target, {})))


def brackets(names: Mapping[str, Name], told: Iterable[Edge]) -> Iterator[Edge]:
    """`Name (CODE)`: one where each has only the other in brackets, and a title or two memories say so."""
    codes: dict[str, set[str]] = defaultdict(set)
    holders: dict[str, set[str]] = defaultdict(set)
    memories: dict[tuple[str, str], set[str]] = defaultdict(set)
    titled = set()
    for e in told:
        if e.why == "in brackets":
            codes[e.target].add(e.alias)
            holders[e.alias].add(e.target)
            memories[e.alias, e.target].add(e.memory_id or "")
    for key in sorted(names):
        whole, inside = m.groups() if (m := _BRACKETED.fullmatch(key)) else ("", "")
        if inside in names and names[inside].code:
            titled.add((inside, whole))
            codes[whole].add(inside)
            holders[inside].add(whole)
            yield Edge(key, inside, "in brackets", names[key].memory_id)
    for code, name in sorted({*titled, *memories}):
        sure = (code, name) in titled or len(memories[code, name]) >= _STATED_TWICE
        if sure and name in names and len(codes[name]) == len(holders[code]) == 1:
            yield Edge(code, name, "in brackets", min(memories[code, name], default=names[name].memory_id))


def bracketed_titles(names: Mapping[str, Name], scope: Scope, clusters: Clusters) -> Iterator[tuple[str, Edge]]:
    """`Mercury (planet)` where the scope has `Mercury (metal)` too: in a document so titled, Mercury is that one."""
    meant: dict[str, set[str]] = defaultdict(set)
    for title in scope.titles.values():
        if m := _BRACKETED.fullmatch(title):
            meant[m.group(1)].add(title)
    for document, title in sorted(scope.titles.items()):
        m = _BRACKETED.fullmatch(title)
        if m and m.group(1) in names and len(meant[m.group(1)]) > 1 and clusters.members(title) == {title}:
            yield document, Edge(m.group(1), title, "title", names[title].memory_id if title in names else None)


def spellings(names: Mapping[str, Name], scope: Scope) -> Iterator[Edge]:
    """Hyphens, spaces and points; plurals of what is counted; a town called `town of`; middle initials."""
    squeezed: dict[str, list[Name]] = defaultdict(list)
    for key, name in sorted(names.items()):
        bare = _JOINTS.sub("", key)
        if len(bare) > 3:
            squeezed[bare].append(name)
        words = key.split()
        if len(words) > 2 and words[0] in SETTLEMENTS and words[1] == "of" and (y := " ".join(words[2:])) in names:
            together = scope.documents.get(key, {}).keys() & scope.documents.get(y, {})
            yield from [Edge(key, y, "administrative", name.memory_id)] if together else []
        middle = [w for i, w in enumerate(words) if len(w) > 1 or i in (0, len(words) - 1) or not w.isalpha()]
        if len(words) > len(middle) > 1 and personal(words) and (full := " ".join(middle)) in names:
            yield Edge(key, full, "middle initial", name.memory_id)
        for end, new in (("ies", "y"), ("es", ""), ("s", "")):
            one = names.get(key.removesuffix(end) + new) if key.endswith(end) else None
            if one is not None and len(one.key) > 1 and _is_plural(name, one):
                yield Edge(key, one.key, "acronym plural" if one.acronym else "plural", name.memory_id)
                break
    for same in squeezed.values():
        first = min(same, key=order)
        yield from (Edge(n.key, first.key, "spelling", n.memory_id) for n in same if n is not first)


def _is_plural(many: Name, one: Name) -> bool:
    if one.acronym:
        return many.key == one.key + "s" and not many.acronym
    return many.many > 0 and one.definite + one.one > 0 and not one.person and not many.person


def titles_of_people(names: Mapping[str, Name], scope: Scope, clusters: Clusters) -> Iterator[tuple[str | None, Edge]]:
    """`Dr. Vale` and Vale; `President Ada Vale` and Ada Vale; yields the document where it holds only there.

    Mr and Mrs Vale are two, and so neither is Vale; nor is Dr. Vale, where Vale is the name of others too.
    """
    titled: dict[str, set[str]] = defaultdict(set)
    ends: dict[str, set[str]] = defaultdict(set)
    for key in names:
        words = key.split()
        if len(words) > 1 and words[0] not in HONORIFICS:
            ends[words[0]].add("")
            ends[words[-1]].add(clusters.root(key))
        elif len(words) > 1 and words[1] not in LINKS | OFFICES:
            titled[" ".join(words[1:])].add(key)
    for bare, keys in sorted(titled.items()):
        said, of = {k.split()[0] for k in keys}, names.get(bare)
        if of is None or of.acronym or (said & MALE and said & FEMALE):
            continue
        for key in sorted(keys):
            edge = Edge(key, bare, "title", names[key].memory_id)
            if " " in bare or not (of.inside or "" in ends[bare] or len(ends[bare]) > 1):
                yield None, edge
            elif not of.inside:
                there = scope.documents.get(bare, {}).keys() & scope.documents.get(key, {})
                yield from ((d, Edge(bare, key, "title", names[key].memory_id)) for d in sorted(there))
    for key, name in sorted(names.items()):
        first, *rest = key.split()
        if first in OFFICES and len(rest) > 1 and (full := " ".join(rest)) in names and personal(rest):
            yield None, Edge(key, full, "title", name.memory_id)


def offices(scope: Scope, names: Mapping[str, Name], clusters: Clusters) -> Iterator[tuple[str, Edge]]:
    """An office is its holder in the documents that name one holder of it; elsewhere it may have passed on."""
    stated = [(d, e) for d, e in scope.offices if personal(e.target.split()) or names.get(e.target, Name("")).person]
    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    for document, e in stated:
        holders[document, e.alias].add(clusters.root(e.target))
    for document, e in stated:
        if len(holders[document, e.alias]) == 1 and not clusters.apart(e.alias, e.target):
            yield document, e
