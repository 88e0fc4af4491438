"""Premises whose amounts give an amount of a conclusion: 180,000 and 64,000 for `That leaves 116,000 euros`.

Small numbers follow from many pairs of others by chance. The fewer digits an amount has, the more must link it to the
premises: the conclusion repeats an operand, or the premise is near it.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

from palimpsest.relations.premises.amounts import Amount, Computed, amounts, computations
from palimpsest.relations.premises.conclusions import Conclusion
from palimpsest.relations.premises.scope_statements import MIN_WEIGHT, ScopeStatements

NEXT_TO = 3
"""The distance of a near premise where the other one is anywhere in the scope."""
MAX_AMOUNTS = 4
"""A memory with more amounts is a table, of which only amounts that the conclusion repeats are used."""
MIN_COUNT = 10
"""Smaller counts follow from anything."""
_CERTAIN_DIGITS = 3


class ComputedPremises(NamedTuple):
    """Rows of one or two premises, and how their amounts give the conclusion's; the highest score is the best."""

    score: float
    rows: tuple[int, ...]
    computed: Computed


class _Operands(NamedTuple):
    """How the operands of a computation are linked to the conclusion.

    Attributes:
        stated: how many of them the conclusion repeats.
        free: how many it does not repeat that are in no near statement.
        nearest: the distance of the nearest premise, None where none is near.
        shared: the weight of the terms that the conclusion shares with the premises of those.
    """

    stated: int
    free: int
    nearest: int | None
    shared: float


def computed_premises(scope: ScopeStatements, i: int, conclusion: Conclusion) -> ComputedPremises | None:
    """Returns the best premises of row i whose amounts give one that its conclusion states, None where there are none.

    Args:
        scope: the statements.
        i: the row of the conclusion.
        conclusion: the sentence of row i.
    """
    stated = amounts(conclusion.text)
    if not stated:
        return None
    near = scope.near(i)
    near_terms = frozenset[str]().union(*(scope.terms(j) for j in near if scope.amounts(j)))
    related = (*scope.related(i, scope.terms(i)), *scope.related(i, near_terms))
    operands = {j: _usable_amounts(scope.amounts(j), stated) for j in sorted({*near, *related})}
    rows = [j for j, found in operands.items() if found]
    found = [
        premises
        for a, b in combinations_with_replacement(rows, 2)
        if a in near or b in near or (stated & operands[a] and stated & operands[b])
        for premises in _premises(scope, i, conclusion, near, (a, b), operands, stated)
    ]
    return max(found, key=lambda p: (p.score, [-j for j in p.rows], p.computed), default=None)


def _usable_amounts(found: frozenset[Amount], stated: frozenset[Amount]) -> frozenset[Amount]:
    if len(found) <= MAX_AMOUNTS:
        return found
    return frozenset(a for a in found & stated if a.digits >= _CERTAIN_DIGITS)


def _premises(
    scope: ScopeStatements,
    i: int,
    conclusion: Conclusion,
    near: dict[int, int],
    rows: tuple[int, int],
    operands: dict[int, frozenset[Amount]],
    stated: frozenset[Amount],
) -> Iterator[ComputedPremises]:
    """Yields the accepted computations from an amount of each of two rows, which may be the same."""
    a, b = rows
    shared = tuple(scope.weight(scope.terms(j) & scope.terms(i)) for j in rows)
    middle = scope.weight(scope.terms(a) & scope.terms(b)) if a != b else 0.0
    if not all(j in near or s >= MIN_WEIGHT or middle >= MIN_WEIGHT for j, s in zip(rows, shared, strict=True)):
        return
    distances = [near[j] for j in sorted(set(rows)) if j in near]
    for computed in computations(stated, operands[a], operands[b]):
        pair = (computed.left, computed.right)
        is_in_order = computed.left in operands[a] and computed.right in operands[b]
        sources = zip(pair, *(x if is_in_order else x[::-1] for x in (rows, shared)), strict=True)
        free = [weight for amount, j, weight in sources if amount not in stated and j not in near]
        nearest = min(distances, default=None)
        links = _Operands(sum(x in stated for x in pair), len(free), nearest, min(free, default=0.0))
        if _is_accepted(computed, links, conclusion.is_marked):
            nearness = sum(1 - d / 10 for d in distances)
            score = computed.result.digits - len(free) + nearness + sum(shared) + middle / 2
            yield ComputedPremises(round(score, 6), tuple(dict.fromkeys(rows)), computed)


def _is_accepted(computed: Computed, links: _Operands, is_marked: bool) -> bool:
    result, digits = computed.result, computed.result.digits
    if result.kind == "number" and result.value < MIN_COUNT:
        return False
    if links.free == 0:
        if digits >= _CERTAIN_DIGITS or (
            digits == 2 and (is_marked or links.stated == 2 or computed.operation in "+-")
        ):
            return True
        return is_marked and links.nearest is not None and (result.kind != "number" or links.stated > 0)
    if links.free > 1 or links.nearest is None or links.nearest > NEXT_TO:
        return False
    is_exact_difference = computed.operation == "-" and min(computed.left.digits, computed.right.digits) >= 2
    return digits >= _CERTAIN_DIGITS or (is_exact_difference and links.shared >= MIN_WEIGHT)
