"""The premises of the conclusions of one scope: by computation where amounts give it, else by terms."""

from collections.abc import Iterator
from typing import NamedTuple

from palimpsest.core.json_types import JsonObject
from palimpsest.relations.premises.computed_premises import computed_premises
from palimpsest.relations.premises.conclusions import Conclusion, find_conclusion
from palimpsest.relations.premises.covered_premises import covered_premises
from palimpsest.relations.premises.scope_statements import ScopeStatements

COMPUTED_CONFIDENCE = 0.9
COVERED_CONFIDENCE = 0.6
"""Below the confidence at which `palimpsest review` lists a DERIVE: shared terms do not prove that it follows."""


class Premises(NamedTuple):
    """A memory that states a conclusion, and the older memories it follows from.

    Attributes:
        memory_id: the memory with the conclusion.
        premise_ids: the premises, one or two.
        confidence: in [0, 1].
        evidence: the span of the conclusion, and the computation or the terms.
    """

    memory_id: str
    premise_ids: tuple[str, ...]
    confidence: float
    evidence: JsonObject


def find_premises(scope: ScopeStatements) -> Iterator[Premises]:
    """Yields the premises of each live statement that states a conclusion, where they are found."""
    for i, row in enumerate(scope.rows):
        conclusion = find_conclusion(row.text) if row.is_live else None
        found = None if conclusion is None else _find(scope, i, conclusion)
        if found is not None:
            yield found


def _find(scope: ScopeStatements, i: int, conclusion: Conclusion) -> Premises | None:
    span: JsonObject = {"newer": [conclusion.start, conclusion.end]}
    if (computed := computed_premises(scope, i, conclusion)) is not None:
        reason: JsonObject = {"rule": "computed premises", "computed": str(computed.computed)}
        return _result(scope, i, computed.rows, COMPUTED_CONFIDENCE, span | reason)
    if (covered := covered_premises(scope, i, conclusion)) is not None:
        reason = {"rule": "covered premises", "terms": list(covered.terms), "shared": list(covered.middle)}
        return _result(scope, i, covered.rows, COVERED_CONFIDENCE, span | reason)
    return None


def _result(scope: ScopeStatements, i: int, rows: tuple[int, ...], confidence: float, evidence: JsonObject) -> Premises:
    return Premises(scope.rows[i].memory_id, tuple(scope.rows[j].memory_id for j in rows), confidence, evidence)
