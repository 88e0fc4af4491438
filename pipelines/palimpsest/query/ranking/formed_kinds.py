"""Lifts formed memories of the kind that a question is about: words of the question rarely name what was decided."""

from dataclasses import replace

from palimpsest.query.ranking.scoring import Scored
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.formed_cue import requested_kinds

KIND_WEIGHT = 1.0
"""Standard deviations of a signal that a memory of the kind gains."""


def lift_requested_kinds(scored: Scored, view: ScopeView, query: ScopeQuery) -> Scored:
    """Returns scores in which formed memories of the kind that the question is about, and their evidence, gain.

    Nothing changes where a scope forms no memories, or the question is about no kind of them.
    """
    if not (kinds := requested_kinds(query.text)) or not query.served.has_formed:
        return scored
    total = scored.total.copy()
    rows = view.formed().of_kinds(kinds)
    total[scored.layout.places(rows[scored.layout.allowed[rows]])] += KIND_WEIGHT
    return replace(scored, total=total)
