"""The strategy `hierarchical`: topics first, then the memories they hold.

A topic is as good as its memories are on the whole; what belongs to a topic better than most is lifted by it. Where no
topic stands out, memories rank as they do by themselves.
"""

import numpy as np

from pipelines.query.strategies import Weights
from pipelines.query.types import Filters, Link
from pipelines.query.view import Question, ScopeView, Scored, basis, rescaled

THRESHOLD = 1.0  # z-score of a topic among the scope's, from which it lifts its memories
LIFT = 0.3  # of a topic's z-score, by how much a memory belongs to it


def score_topics(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate with the best of its topics; what is no candidate says nothing of a topic.

    Arguments as for `view.basis`.
    """
    b, held = basis(view, filters, question, weights), view.topics()
    lift, best = np.zeros(len(view.ids)), np.full(len(view.ids), -1)
    allowed = np.zeros(len(view.ids), bool)
    allowed[b.rows] = True
    told = np.flatnonzero(allowed[held.rows])
    rows, topics, relevance = held.rows[told], held.topics[told], held.relevance[told]
    count = len(held.labels)
    weight = np.bincount(topics, relevance, count)
    known = weight > 0
    if known.sum() > 1:
        mean = np.bincount(topics, b.own[rows] * relevance, count)[known] / weight[known]
        z = np.zeros(count)
        z[known] = (mean - mean.mean()) / max(float(mean.std()), 1e-9)
        gain = np.where(z[topics] >= THRESHOLD, LIFT * z[topics] * relevance, 0.0)
        for i in np.lexsort((topics, gain)).tolist():  # the best comes last, the lowest number among equals not
            if gain[i] > 0:
                lift[rows[i]], best[rows[i]] = gain[i], topics[i]
    total = rescaled(b.own + lift, b.own, b.rows) if lift.any() else b.own

    def path(row: int) -> tuple[Link, ...]:
        """The topic that lifted it."""
        if best[row] < 0:
            return ()
        return (Link("", str(view.ids[row]), "topic", float(lift[row]), str(held.labels[best[row]])),)

    return Scored(view.ids, b.rows, b.cosines, b.words, b.own, total, path)
