"""The registry of scorers: a strategy names one in its weights, and no backend knows of any."""

from collections.abc import Callable

from palimpsest.query.ranking.conversation import score_turns
from palimpsest.query.ranking.experimental.hierarchy import score_nodes
from palimpsest.query.ranking.scoring import Scored, score_alone
from palimpsest.query.ranking.spreading import score_passages
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

Scorer = Callable[[ScopeView, ScopeQuery], Scored]
"""Scores every memory of a scope for one query."""

_SCORERS: dict[str, Scorer] = {
    "alone": score_alone,
    "order": score_turns,
    "passages": score_passages,
    "nodes": score_nodes,
}


def register_scorer(name: str, scorer: Scorer) -> None:
    """Adds a scorer for the life of the process; `Weights.scorer` selects it by name.

    Raises:
        ValueError: the name is empty or already in use.
    """
    if not name or name in _SCORERS:
        raise ValueError(f"scorer {name!r}: empty or already in use; choose another name")
    _SCORERS[name] = scorer


def scorer_named(name: str) -> Scorer:
    """Returns a scorer; "" is the one that scores each memory by itself.

    Raises:
        ValueError: nobody registered it.
    """
    if (name or "alone") not in _SCORERS:
        raise ValueError(f"scorer {name!r}: not one of {', '.join(sorted(_SCORERS))}; register it first")
    return _SCORERS[name or "alone"]
