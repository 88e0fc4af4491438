"""Which names of one scope are one, by rules that name their reason; a name that could be two things is left alone.

Four kinds of evidence, in this order: a person's decision; what a text says; another spelling; a short form of the only
name it can be short for. A short form that could stand for several names (two people with one first name) is resolved
only in documents that name just one of them.
"""

from palimpsest.entities.names import name_rules as rules
from palimpsest.entities.names.clusters import Clusters, Edge
from palimpsest.entities.names.lexicon import ORDINARY
from palimpsest.entities.names.name_model import WITH_ARTICLE, Name, Resolution, Scope, order
from palimpsest.entities.names.short import ShortForms


def resolve(scope: Scope) -> Resolution:
    """Resolves the names of one scope: a pure function of it, whatever the order of its parts."""
    names = dict(scope.names)
    for name in scope.names.values():  # `Dr. Vale` makes Vale a name, though nobody says it bare
        bare = " ".join(name.tokens)
        if bare not in names and bare not in ORDINARY:
            names[bare] = Name(bare, name.n, max(1, name.person))
    for person in scope.people:
        names.setdefault(person, Name(person, person=1))
    clusters = Clusters(scope.apart)
    for pair in sorted(scope.same):
        target, alias = sorted(pair, key=lambda k: order(names.get(k, Name(k))))
        clusters.join(Edge(alias, target, "decided"))
    here = list(rules.stated(scope, names, clusters))
    for edge in (*rules.brackets(names, scope.stated), *rules.spellings(names, scope)):
        clusters.join(edge)
    for document, edge in list(rules.titles_of_people(names, scope, clusters)):
        if document is None:
            clusters.join(edge)
        else:
            here.append((document, edge))
    here += ShortForms(scope, names, clusters).run()
    here += [*rules.bracketed_titles(names, scope, clusters), *rules.offices(scope, names, clusters)]
    first: dict[tuple[str, str], Edge] = {}
    for document, edge in here:
        if not clusters.apart(edge.alias, edge.target):
            first.setdefault((document, edge.alias), edge)
    canonical = {k: c for k, c in clusters.canonical(lambda k: order(names.get(k, Name(k)))).items() if k != c}
    local = {at: (canonical.get(e.target, e.target), e.why == WITH_ARTICLE) for at, e in first.items()}
    return Resolution(canonical, local, clusters.edges, sorted((d, e) for (d, _), e in first.items()))
