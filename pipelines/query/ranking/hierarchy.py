"""The strategy `hierarchical`: topics and entities first, then the memories they hold.

A topic fits a question as well as its memories do on the whole, and better where its label shares the question's words;
what is below it inherits a part. An entity fits where the question names it. Memories of what fits are lifted; where
nothing fits, they rank as `hybrid` ranks them by themselves.
"""

import numpy as np

from palimpsest.query.ranking.scope_cache import Topics
from palimpsest.query.ranking.view import Question, ScopeView, Scored, basis, rescaled
from palimpsest.query.request.strategies import Weights
from palimpsest.query.request.types import Filters, Link

THRESHOLD = 1.5  # how far a topic stands out among the scope's, in deviations, from which it lifts its memories
BELOW = 0.7  # what is left of a topic's fit one level below it
RELEVANT = 0.3  # of a memory to a topic, from which the topic lifts it
LIFT, NAMED = 0.2, 0.5  # of a topic's fit by the memory's relevance, and of how telling a named entity is


def score_topics(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate with the best node that holds it; what is no candidate says nothing of a topic.

    Arguments as for `view.basis`.
    """
    b, held, named = basis(view, filters, question, weights), view.topics(), view.named()
    known = np.flatnonzero(b.allowed[held.rows] & (held.relevance >= RELEVANT))
    fit = fitting(held, known, b.cosines, frozenset(question.terms))
    asked = named.in_text(question.text)
    about = [named.rows[entity] for entity in asked]
    topic = held.topics[known]
    rows = np.concatenate([held.rows[known], *about])
    gain = np.concatenate(
        [
            LIFT * fit[topic] * held.relevance[known],
            *(np.full(len(at), NAMED * named.weight[entity]) for entity, at in zip(asked, about, strict=True)),
        ]
    )
    labels = [*held.labels.tolist(), *named.names[asked].tolist()]
    nodes = np.concatenate([topic, *(np.full(len(at), len(held.labels) + i) for i, at in enumerate(about))])
    lift, best = np.zeros(len(view.ids)), np.full(len(view.ids), -1)
    order = np.lexsort((-nodes, gain))  # the best comes last, of equals the lowest number
    lift[rows[order]], best[rows[order]] = gain[order], nodes[order]
    total = rescaled(b.own + lift, b.own, b.rows) if lift[b.rows].any() else b.own

    def path(row: int) -> tuple[Link, ...]:
        """The node that lifted it."""
        if lift[row] <= 0:
            return ()
        kind = "topic" if best[row] < len(held.labels) else "about"
        return (Link("question", str(view.ids[row]), kind, float(lift[row]), str(labels[int(best[row])])),)

    return Scored(view.ids, b.rows, b.cosines, b.words, b.own, total, path)


def fitting(held: Topics, known: np.ndarray, cosines: np.ndarray, terms: frozenset[str]) -> np.ndarray:
    """Returns how well each topic fits a question, 0 below `THRESHOLD`, shape (topics,).

    By its memories' mean cosine, weighted by relevance, in deviations over the scope's topics; a label of which the
    question has every word counts one deviation more. A topic below one that fits better takes `BELOW` of that.

    Args:
        held: topics of the scope.
        known: places in `held.rows` of memories that may speak for their topics.
        cosines: of every memory.
        terms: of the question.
    """
    count = len(held.labels)
    topic, relevance = held.topics[known], held.relevance[known]
    weight = np.bincount(topic, relevance, count)
    told = np.flatnonzero(weight > 0)
    fit = np.zeros(count)
    if len(told) > 1:
        mean = np.bincount(topic, cosines[held.rows[known]] * relevance, count)[told] / weight[told]
        fit[told] = (mean - mean.mean()) / max(float(mean.std()), 1e-9)
        fit[told] += [len(held.terms[t] & terms) / max(len(held.terms[t]), 1) for t in told.tolist()]
    fit = np.where(fit >= THRESHOLD, fit, 0.0)
    for _ in range(_depth(held.parents)):
        fit = np.maximum(fit, np.where(held.parents >= 0, BELOW * fit[held.parents], 0.0))
    return fit


def _depth(parents: np.ndarray) -> int:
    """Returns how many levels there are below the broadest topics; a circle ends at the number of topics."""
    at, depth = parents, 0
    while depth < len(parents) and (at >= 0).any():
        at, depth = np.where(at >= 0, parents[at], -1), depth + 1
    return depth
