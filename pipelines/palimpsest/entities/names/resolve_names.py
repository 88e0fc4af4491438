"""Decides which names of one scope are one, by rules that state their reason; an ambiguous name is left alone.

Four kinds of evidence, in this order: a person's decision; what a text says; another spelling; a short form of the only
name it can be short for. A short form that could refer to several names (two people with one first name) is resolved
only in documents that have just one of them.
"""

from palimpsest.entities.names.clusters import Merge, NameClusters
from palimpsest.entities.names.lexicon import ORDINARY
from palimpsest.entities.names.merge_rules import (
    FoundMerge,
    merge_bracketed_titles,
    merge_brackets,
    merge_offices,
    merge_spellings,
    merge_stated,
    merge_titles_of_people,
)
from palimpsest.entities.names.name_model import (
    WITH_ARTICLE,
    MergeContext,
    NameEvidence,
    Resolution,
    ScopeEvidence,
    preference_order,
)
from palimpsest.entities.names.short_forms import merge_short_forms

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
