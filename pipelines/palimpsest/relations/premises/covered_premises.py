"""Premises that together supply the terms of a conclusion, linked by a term that it lacks, as in a syllogism.

`It still speaks to Punt.` and `Herons built before 2022 need firmware 4.1 to speak to Ferry.` share `speak`; together
they support `So it needs firmware 4.1.`
"""

from itertools import combinations
from typing import NamedTuple

from palimpsest.relations.premises.conclusions import MAX_CHARS, Conclusion
from palimpsest.relations.premises.scope_statements import MIN_WEIGHT, ScopeStatements, statement_terms

NEXT_TO = 3
"""The distance up to which one of the premises must be."""
MIN_COVERED = 0.25
"""Of the weight of the conclusion's terms, in both premises together."""
MIN_MIDDLE = 0.5
"""The weight of the terms that both premises share and the conclusion lacks."""
MIN_OWN = 1.0
"""Instead of it, the weight of the terms that each premise alone supplies."""
_MAX_MIDDLE = 1.5  # more shared terms say that the premises are about the same, not that they are linked
_FROM_PREVIOUS = 10


class CoveredPremises(NamedTuple):
    """Rows of two premises, the terms of the conclusion that they supply, and those that link them."""

    score: float
    rows: tuple[int, int]
    terms: tuple[str, ...]
    middle: tuple[str, ...]


def covered_premises(scope: ScopeStatements, i: int, conclusion: Conclusion) -> CoveredPremises | None:
    """Returns the best two premises that supply the terms of row i's conclusion, None where there are none.

    Args:
        scope: the statements.
        i: the row of the conclusion.
        conclusion: the sentence of row i.
    """
    terms = statement_terms(conclusion.text)
    if not conclusion.is_marked or conclusion.is_question or not terms:
        return None
    near = {j: d for j, d in scope.near(i).items() if d <= NEXT_TO}
    previous = [j for j, d in near.items() if d == 1]
    linked = (r for j in previous for r in scope.related(i, scope.terms(j))[:_FROM_PREVIOUS])
    rows = [j for j in sorted({*near, *linked, *scope.related(i, terms)}) if _is_sentence(scope.rows[j].text)]
    pairs = ((a, b) for a, b in combinations(rows, 2) if a in near or b in near)
    found = [p for pair in pairs if (p := _premises(scope, pair, terms, near, conclusion.has_reason))]
    return max(found, key=lambda p: (p.score, [-j for j in p.rows]), default=None)


def _is_sentence(text: str) -> bool:
    return len(text) <= MAX_CHARS and not text.lstrip().startswith("|")


def _premises(
    scope: ScopeStatements, rows: tuple[int, int], terms: frozenset[str], near: dict[int, int], has_reason: bool
) -> CoveredPremises | None:
    a, b = (scope.terms(j) for j in rows)
    middle = scope.weight(a & b - terms)
    covered = scope.weight((a | b) & terms) / scope.weight(terms)
    own = min(scope.weight(a & terms - b), scope.weight(b & terms - a))
    # A sentence that states its own reason needs more.
    if covered < MIN_COVERED or (middle < (MIN_OWN if has_reason else MIN_MIDDLE) and own < MIN_OWN):
        return None
    supplies = [scope.weight(scope.terms(j) & terms) >= MIN_WEIGHT for j in rows]
    # `So` and `Then` refer to the statement right before, which need not repeat a word.
    is_linked = all(s or near.get(j) == 1 for s, j in zip(supplies, rows, strict=True)) and any(supplies)
    if not is_linked or (own < MIN_WEIGHT and all(near.get(j) != 1 for j in rows)):
        return None
    score = covered + 0.4 * min(middle, _MAX_MIDDLE) + sum(0.5 / near[j] for j in rows if j in near)
    return CoveredPremises(round(score, 6), rows, tuple(sorted((a | b) & terms)), tuple(sorted(a & b - terms)))
