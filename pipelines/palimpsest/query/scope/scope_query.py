"""One query in one scope: everything that ranking needs, resolved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from palimpsest.memories.embedders.space import Space
from palimpsest.query.request.node_search import NodeSearch
from palimpsest.query.request.strategies import Weights, resolve_strategy
from palimpsest.query.request.types import Filters, Scope
from palimpsest.query.scope.interpret_time import TemporalInterpretation, interpret_time
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.periods import Period
from palimpsest.text.why_cue import asks_for_reasons

_NO_TIME = TemporalInterpretation()
_LIFTING = NodeSearch()


@dataclass(frozen=True)
class ScopeQuery:
    """What is searched in a scope, and how.

    Attributes:
        served: the scope's store behind the filters that apply.
        text: the query.
        vector: its unit vector, shape (384,) float32.
        terms: its distinct terms.
        weights: of the strategy in this scope.
        strategy: its name, `auto` resolved.
        temporal: how the query's words about time were interpreted here.
        nodes: how the strategy `hierarchical` uses the nodes of the scope.
    """

    served: ServedScope
    text: str
    vector: np.ndarray
    terms: Sequence[str]
    weights: Weights
    strategy: str = "weights"
    temporal: TemporalInterpretation = _NO_TIME
    nodes: NodeSearch = _LIFTING

    @property
    def scope(self) -> Scope:
        """The scope to search."""
        return self.served.scope

    @property
    def space(self) -> Space | None:
        """The space of its vectors; None means MiniLM's."""
        return self.served.space

    @property
    def filters(self) -> Filters:
        """Which memories are candidates."""
        return self.served.filters

    @cached_property
    def word_terms(self) -> tuple[str, ...]:
        """The terms that score: none where words have no weight."""
        return tuple(self.terms) if self.weights.words > 0 else ()

    @cached_property
    def asks_for_reasons(self) -> bool:
        """Whether the question asks why something is so."""
        return asks_for_reasons(self.text)

    @property
    def period(self) -> Period | None:
        """The period of the question, in years; None where time has no weight."""
        return self.temporal.period if self.weights.time > 0 else None


def resolve_query(
    served: ServedScope,
    text: str,
    vector: np.ndarray,
    terms: Sequence[str],
    strategy: str | Weights,
    nodes: NodeSearch = _LIFTING,
) -> ScopeQuery:
    """Returns the query of one scope: its strategy, the time it is about, and the filters that follow from that.

    Args:
        served: the scope with the filters of the request.
        text: the query.
        vector: its unit vector.
        terms: its distinct terms.
        strategy: a name, `auto`, or weights.
        nodes: see `ScopeQuery`.

    Raises:
        ArgumentError: there is no such strategy.
    """
    name, weights = resolve_strategy(strategy, served.backend.collections().get(served.scope.collection))
    filters, temporal = interpret_time(served, text)
    return ScopeQuery(replace(served, filters=filters), text, vector, terms, weights, name, temporal, nodes)
