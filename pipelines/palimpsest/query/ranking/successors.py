"""A superseded memory answers through what took its place, and what disputes one comes before it.

A question often has the words of what was said first: `Where do we rent?` is nearer to `We rent a flat in Kothrud`
than to `The last box is unpacked in Nashik`. The newer memory therefore takes the score of the older one where that is
higher.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from palimpsest.index.index_format import DISPUTE
from palimpsest.query.ranking.candidate import Candidate
from palimpsest.query.ranking.fusion import standardize
from palimpsest.query.request.types import Link, ScoreStats
from palimpsest.query.scope.scope_arrays import known_rows
from palimpsest.query.scope.scope_graph import ScopeLinks
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

SUCCEEDS = "UPDATE"
"""The kind of the link from a superseded memory to the one that answers for it."""
MAX_CHAIN = 20
"""Versions that are followed to the latest one."""
_JUST_ABOVE = 1e-6

More: TypeAlias = Callable[[Sequence[str]], dict[str, Candidate]]
"""Returns further candidates by id, with their own scores."""


@dataclass(frozen=True)
class Successors:
    """Superseded memories of a scope by local row, each with the row of what took its place, through others too."""

    older: np.ndarray
    newer: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.older.nbytes + self.newer.nbytes

    @classmethod
    def of(cls, links: ScopeLinks) -> "Successors":
        """Follows each replaced memory to the end of its chain."""
        starts = links.replaced.starts
        by = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        next_of = dict(zip(links.replaced.values.tolist(), by.tolist(), strict=True))
        older, newer = [], []
        for row in sorted(next_of):
            head, steps = next_of[row], 0
            while head in next_of and steps < MAX_CHAIN and head != row:
                head, steps = next_of[head], steps + 1
            if head != row:
                older.append(row)
                newer.append(head)
        return cls(np.array(older, np.int64), np.array(newer, np.int64))


def applies(query: ScopeQuery) -> bool:
    """Returns whether a search reads what is latest now, with links: other times and all versions keep their order."""
    filters = query.filters
    return query.weights.graph > 0 and not filters.history and filters.as_of is None


def lift_successors(
    view: ScopeView,
    query: ScopeQuery,
    stats: tuple[ScoreStats, ScoreStats],
    found: dict[str, Candidate],
    more: More,
) -> None:
    """Gives memories the score of what they superseded, where it is higher; `found` is updated.

    Args:
        view: the scope.
        query: its query.
        stats: of cosines and of word scores over all candidates of the scope.
        found: the candidates so far, by id.
        more: returns other candidates by id.
    """
    at = view.cached("successors", lambda: Successors.of(view.links()))
    visible = view.allowed(replace(query.filters, history=True))
    kept = visible[at.older] & view.allowed(query.filters)[at.newer] if len(at.older) else np.zeros(0, bool)
    older, newer = at.older[kept], at.newer[kept]
    if len(older) == 0:
        return
    weights = query.weights
    cosines = standardize(view.cosines_of(query.vector, older), stats[0])
    sums = sum((term.scores_of(older) for term in view.postings(query.word_terms)), np.zeros(len(older)))
    words = standardize(sums, stats[1])
    scores = weights.vector * cosines + weights.words * words
    least = min((c.score for c in found.values()), default=0.0)
    for place in np.argsort(-scores, kind="stable").tolist():
        score = float(scores[place])
        if score <= least:
            break
        old_id, new_id = str(view.ids[older[place]]), str(view.ids[newer[place]])
        if new_id not in found:
            found |= more([new_id])
        if new_id in found and found[new_id].score < score:
            link = Link(old_id, new_id, SUCCEEDS, 1.0)
            found[new_id] = replace(found[new_id], score=score, score_path=tuple, hops=(link,))


def lift_disputing(view: ScopeView, query: ScopeQuery, found: dict[str, Candidate], more: More) -> None:
    """Lifts a memory that disputes a better candidate just above it; `found` is updated.

    Args:
        view: the scope.
        query: its query.
        found: the candidates so far, by id.
        more: returns other candidates by id.
    """
    disputes = view.links().disputes
    if not disputes:
        return
    allowed = view.allowed(query.filters)
    row_of = known_rows(view.ids, found)
    for older in sorted(found, key=lambda i: (-found[i].score, i)):
        for newer_row, likelihood in disputes.get(row_of[older], ()):
            if not allowed[newer_row]:
                continue
            newer = str(view.ids[newer_row])
            if newer not in found:
                found |= more([newer])
            above = found[older].score + _JUST_ABOVE
            if newer in found and found[newer].score < above:
                link = Link(older, newer, DISPUTE, likelihood)
                found[newer] = replace(found[newer], score=above, hops=(*found[older].hops, link))
