"""The strategy `hierarchical`: topics and entities first, then the memories under them.

A topic fits a question as well as its memories do on average, and better where its label shares the question's words;
topics below it inherit a part. An entity fits where the question names it. Memories of what fits are lifted; where
nothing fits, they rank by their base scores, as `hybrid` ranks them.
"""

import numpy as np

from palimpsest.query.ranking.scoring import Scored, base_scores, rescale
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Topics
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

THRESHOLD = 1.5  # z-score among the scope's topics from which a topic lifts its memories
INHERITED = 0.7  # share of a topic's fit one level below it
MIN_RELEVANCE = 0.3  # of a memory to a topic, from which the topic lifts it
TOPIC_LIFT, ENTITY_LIFT = 0.2, 0.5  # of a topic's fit by the memory's relevance, and of a named entity's weight


def score_topics(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate with the best node above it; memories that are no candidates say nothing of a topic."""
    b, topics, entities = base_scores(view, query), view.topics(), view.named_entities()
    known = np.flatnonzero(b.allowed[topics.rows] & (topics.relevance >= MIN_RELEVANCE))
    fit = topic_fit(topics, known, b.cosines, frozenset(query.word_terms))
    named = entities.in_text(query.text)
    members = [entities.rows[entity] for entity in named]
    topic = topics.topics[known]
    rows = np.concatenate([topics.rows[known], *members])
    gain = np.concatenate(
        [
            TOPIC_LIFT * fit[topic] * topics.relevance[known],
            *(np.full(len(at), ENTITY_LIFT * entities.weight[e]) for e, at in zip(named, members, strict=True)),
        ]
    )
    labels = [*topics.labels.tolist(), *entities.names[named].tolist()]
    nodes = np.concatenate([topic, *(np.full(len(at), len(topics.labels) + i) for i, at in enumerate(members))])
    lift, best = np.zeros(len(view.ids)), np.full(len(view.ids), -1)
    order = np.lexsort((-nodes, gain))  # the best comes last, of equals the lowest number
    lift[rows[order]], best[rows[order]] = gain[order], nodes[order]
    total = rescale(b.base + lift, b.base, b.rows) if lift[b.rows].any() else b.base

    def path(row: int) -> tuple[Link, ...]:
        """The node that lifted it."""
        if lift[row] <= 0:
            return ()
        kind = "topic" if best[row] < len(topics.labels) else "about"
        return (Link("question", str(view.ids[row]), kind, float(lift[row]), str(labels[int(best[row])])),)

    return Scored(view.ids, b.rows, b.cosines, b.words, b.base, total, path)


def topic_fit(topics: Topics, known: np.ndarray, cosines: np.ndarray, terms: frozenset[str]) -> np.ndarray:
    """Returns how well each topic fits a question, 0 below `THRESHOLD`, shape (topics,).

    The z-score, over the scope's topics, of its memories' mean cosine, weighted by relevance; a label of which the
    question has every word counts one deviation more. A topic below one that fits better gets `INHERITED` of that.

    Args:
        topics: of the scope.
        known: indices in `topics.rows` of memories that may count for their topics.
        cosines: of every memory.
        terms: of the question.
    """
    count = len(topics.labels)
    topic, relevance = topics.topics[known], topics.relevance[known]
    weight = np.bincount(topic, relevance, count)
    used = np.flatnonzero(weight > 0)
    fit = np.zeros(count)
    if len(used) > 1:
        mean = np.bincount(topic, cosines[topics.rows[known]] * relevance, count)[used] / weight[used]
        fit[used] = (mean - mean.mean()) / max(float(mean.std()), 1e-9)
        fit[used] += [len(topics.terms[t] & terms) / max(len(topics.terms[t]), 1) for t in used.tolist()]
    fit = np.where(fit >= THRESHOLD, fit, 0.0)
    for _ in range(_depth(topics.parents)):
        fit = np.maximum(fit, np.where(topics.parents >= 0, INHERITED * fit[topics.parents], 0.0))
    return fit


def _depth(parents: np.ndarray) -> int:
    """Returns how many levels there are below the broadest topics; a cycle ends at the number of topics."""
    at, depth = parents, 0
    while depth < len(parents) and (at >= 0).any():
        at, depth = np.where(at >= 0, parents[at], -1), depth + 1
    return depth
