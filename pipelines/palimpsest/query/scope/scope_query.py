"""One query in one scope: everything that ranking needs, resolved."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from palimpsest.memories.vector_space import Space
from palimpsest.query.request.strategies import Weights, resolve_strategy
from palimpsest.query.request.types import Filters, Link, Scope
from palimpsest.query.request.where import Where
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.date_mentions import Period
from palimpsest.text.questions import asks_for_reasons, needs_reference, parse_question_time

# Interprets the words about time in a question, for one scope; every answer reports the interpretation.


@dataclass(frozen=True)
class TemporalInterpretation:
    """What was understood of a question's words about time.

    Attributes:
        as_of: time whose knowledge the question requests, where the answer was made from that.
        as_of_phrase: the words that request it, also where they were not followed.
        not_followed: why they were not: nothing of the scope was observed by then.
        phrase: words counted from the reference day, such as `last week`.
        first: first day of what they mean, None where it has no beginning.
        last: last day, None where it has no end.
        reference: the day that words were counted from, None where none was needed.
        period: the period of the question, in years; None where those words request the knowledge of a time.
        reference_is: `now` or `as_of` where that was given, else `newest memory`: that of the scope.
        unresolved_phrase: words such as `last week` that stay unresolved, for neither was given.
    """

    as_of: dt.datetime | None = None
    as_of_phrase: str = ""
    not_followed: str = ""
    phrase: str = ""
    first: dt.date | None = None
    last: dt.date | None = None
    reference: dt.date | None = None
    reference_is: str = ""
    period: Period | None = None
    unresolved_phrase: str = ""


def interpret_time(served: ServedScope, text: str) -> tuple[Filters, TemporalInterpretation]:
    """Returns the filters to apply, with `as_of` where the question requests it in words, and what was understood.

    Words request the knowledge of a time only where neither `as_of` nor `history` was given, and where something of the
    scope was observed by then: `as of 1998` in texts of today is a time that they speak of. With `as_of`, `now` only
    sets when the question is put: what was valid then may be over by now. No clock is read: `last week` is counted from
    `now`, else from `as_of`, else it stays unresolved. Dates without a year are counted from the day of the scope's
    newest memory then.

    Args:
        served: the scope to search, with the filters that were given.
        text: the question.
    """
    filters = served.filters
    reference, reference_is = None, ""
    if needs_reference(text):
        given = filters.now or filters.as_of
        known = None if given else served.observed()
        if time := given or (known[1] if known else None):
            reference = time.date()
            reference_is = "now" if filters.now else "as_of" if filters.as_of else "newest memory"
    expression = parse_question_time(text, reference, exact=reference_is != "newest memory")
    temporal = TemporalInterpretation(
        phrase=expression.phrase,
        first=expression.first,
        last=expression.last,
        reference=reference,
        reference_is=reference_is,
        period=expression.period,
        unresolved_phrase=expression.unresolved_phrase,
    )
    if filters.as_of is not None:
        return replace(filters, now=None), temporal
    if expression.as_of is None or filters.history:
        return filters, temporal
    temporal = replace(temporal, as_of_phrase=expression.as_of_phrase)
    as_of = dt.datetime.combine(expression.as_of, dt.time.max, dt.UTC)
    known = served.observed()
    if known is None or known[0] > as_of:
        return filters, replace(temporal, not_followed="nothing here was observed by then")
    # Most of what was known on a day was observed before it: a memory of that very day gains nothing.
    period = None if expression.as_of_is_period else expression.period
    return replace(filters, as_of=as_of, now=None), replace(temporal, as_of=as_of, period=period)


_NO_TIME = TemporalInterpretation()


class NodeSearch(NamedTuple):
    """How the strategy `hierarchical` uses the nodes of a scope: fields of `SearchRequest`."""

    narrow: bool = False
    node_types: tuple[str, ...] = ()
    node_where: Where | None = None
    depth: int = 1


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
    strategy: str | Weights,
    nodes: NodeSearch = _LIFTING,
) -> ScopeQuery:
    """Returns the query of one scope: its strategy, the time it is about, and the filters that follow from that.

    Args:
        served: the scope with the filters of the request.
        text: the query.
        vector: its unit vector.
        strategy: a name, `auto`, or weights.
        nodes: see `ScopeQuery`.

    Raises:
        ArgumentError: there is no such strategy.
    """
    name, weights = resolve_strategy(strategy, served.backend.collections().get(served.scope.collection))
    filters, temporal = interpret_time(served, text)
    terms = served.question_terms(text)
    return ScopeQuery(replace(served, filters=filters), text, vector, terms, weights, name, temporal, nodes)


# A memory in the ranking of a scope.


@dataclass(frozen=True)
class Candidate:
    """A memory in the ranking.

    Attributes:
        memory_id: of the memory.
        score: the ranking sorts by it.
        vector: cosine of its best window.
        words: BM25 sum.
        base: score by itself.
        score_path: returns the links in its score; called only for results, for it costs more than scoring.
        hops: links that lifted it after that.
        rerank: score of the reranker; None where none read it.
        relevance: probability that it is evidence, where that was judged.
        stands_for: the older memory whose place it took, or of which it ended a part, as a candidate.
    """

    memory_id: str
    score: float
    vector: float
    words: float
    base: float
    score_path: Callable[[], tuple[Link, ...]] = tuple
    hops: tuple[Link, ...] = ()
    rerank: float | None = None
    relevance: float = 1.0
    stands_for: "Candidate | None" = None

    @cached_property
    def path(self) -> tuple[Link, ...]:
        """The links that lifted it, from the seed on; empty where none did."""
        return (*self.score_path(), *self.hops)


Ranked = tuple[ScopeQuery, Candidate]
"""A candidate with the query of its scope."""
