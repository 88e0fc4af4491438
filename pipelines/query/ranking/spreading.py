"""The strategies `graph` and `statements`: from what vectors, words and names find, over names to what they lead to.

A question whose answer lies in two passages finds one of them; the other is named there. A walk over passages and names
(personalised PageRank) starts from the passages that fit best, from those whose title the question names, and from the
names in the sentences that fit best, and keeps returning there. Beside, two passages that answer more together than
either does alone lift each other.
"""

from collections.abc import Sequence

import numpy as np

from palimpsest.query.ranking.fusion import moments, top
from palimpsest.query.ranking.pairs import NOWHERE, best_pairs
from palimpsest.query.ranking.passage_graph import PassageGraph, Sentences, softmax, spread
from palimpsest.query.ranking.view import Question, ScopeView, Scored, basis, rescaled
from palimpsest.query.request.strategies import Spreading, Weights
from palimpsest.query.request.types import Filters, Link
from palimpsest.text.terms import terms as terms_of

TRACE = 1e-5  # of the walk: a name that brought less is no reason why a memory is there
TOLD = 0.1  # a lift of less is no reason why a memory is there


def score_passages(view: ScopeView, filters: Filters, question: Question, weights: Weights) -> Scored:
    """Scores every candidate of a scope; nothing is reached over what is no candidate.

    Args:
        view: the scope.
        filters: which memories are candidates.
        question: the question; names in it are found by their capitals.
        weights: of the strategy.
    """
    use = weights.spreading
    b, size = basis(view, filters, question, weights), len(view.ids)
    rows, own = b.rows, b.own
    graph = view.passages()
    if graph is None or len(rows) == 0:
        return Scored(view.ids, rows, b.cosines, b.words, own, own, lambda row: ())
    seeds = rows[top(own[rows], use.seeds)]
    share = softmax(own[seeds])
    named = graph.named_in(question.text)
    titled = np.unique(np.concatenate([np.zeros(0, np.int64), *(graph.titled[e] for e in named)]))
    titled = titled[b.allowed[titled]]
    moved = use.named if len(titled) else 0.0
    start = use.passages * (1 - moved) * spread(share, seeds, size)
    start += use.passages * moved * spread(np.ones(len(titled)), titled, size)
    asked = [e for e in named if graph.linked[e]]
    entities = use.question * spread(1 / graph.df[asked], asked, len(graph.df))
    found = view.sentences(np.sort(seeds))
    rarity = {
        t: float(np.log1p(size / max(1, len(p.rows)))) for t, p in zip(sorted(question.terms), b.postings, strict=True)
    }
    weight = dict(zip(seeds.tolist(), share.tolist(), strict=True))
    entities += use.sentences * _named_in_sentences(graph, found, weight, question.vector, rarity, use)
    at_rows, at_entities = graph.walk(start, entities, b.allowed, use.steps, use.follow)
    leading = seeds[np.lexsort((seeds, -own[seeds]))][: use.leading if use.pairs > 0 else 0]
    deviation = moments(b.words[rows]).std
    word = weights.words / deviation if deviation > 0 else 0.0
    together = best_pairs(graph, leading, own, b.postings, word, use.title, b.allowed)
    best = float(own[rows].max())
    total = np.log(at_rows + 1 / len(rows)) + use.pairs * together.share
    if best > 0:
        total += use.own / best * own
    total = rescaled(total, own, rows)
    names = set(titled.tolist())

    def path(row: int) -> tuple[Link, ...]:
        """By name in the question, as one of two, or over the name that brought most."""
        target = str(view.ids[row])
        if row in names:
            return (Link("question", target, "asked", 1.0, _title_of(graph, named, row)),)
        lift = use.pairs * float(together.share[row])
        if together.partners[row] != NOWHERE and lift >= TOLD:
            other, entity = str(view.ids[together.partners[row]]), int(together.names[row])
            kind = "title" if row in graph.titled[entity] else "pair"
            return (Link(other, target, kind, lift, str(graph.names[entity])),)
        return _over_a_name(view, graph, row, at_rows, at_entities)

    return Scored(view.ids, rows, b.cosines, b.words, own, total, path)


def _named_in_sentences(
    graph: PassageGraph,
    found: Sentences,
    weight: dict[int, float],
    vector: np.ndarray,
    rarity: dict[str, float],
    use: Spreading,
) -> np.ndarray:
    """Returns where to start among entities, summing to 1: those in sentences that fit the question."""
    if found.vectors is not None:
        fit = use.cosine * (np.vecdot(found.vectors, vector).astype(np.float64) - 1)
    else:
        whole = sum(rarity.values()) or 1.0
        share = [sum(r for t, r in rarity.items() if t in said) / whole for said in map(_terms, found.texts)]
        fit = use.overlap * np.array(share)
    values, at = [], []
    for row, grade, named in zip(found.rows.tolist(), np.exp(fit).tolist(), found.entities, strict=True):
        known = named[graph.linked[named]]
        values.append(weight[row] * grade * np.log(graph.size / graph.df[known]))
        at.append(known)
    nothing = np.zeros(0)
    return spread(np.concatenate([nothing, *values]), np.concatenate([nothing, *at]), len(graph.df))


def _terms(text: str) -> frozenset[str]:
    return frozenset(terms_of(text))


def _title_of(graph: PassageGraph, named: Sequence[int], row: int) -> str:
    return next(str(graph.names[e]) for e in named if row in graph.titled[e])


def _over_a_name(
    view: ScopeView, graph: PassageGraph, row: int, at_rows: np.ndarray, at_entities: np.ndarray
) -> tuple[Link, ...]:
    """The name that brought a memory most, and the memory that brought that name most."""
    edges = graph.edges_of(row)
    brought = at_entities[graph.entities[edges]] * graph.to_row[edges]
    if len(edges) == 0 or brought.max() <= TRACE:
        return ()
    entity = int(graph.entities[edges[int(brought.argmax())]])
    others = graph.places[entity]
    others = others[graph.rows[others] != row]
    given = at_rows[graph.rows[others]] * graph.to_entity[others]
    if len(others) == 0 or given.max() <= 0:
        return ()
    source = str(view.ids[graph.rows[others[int(given.argmax())]]])
    return (Link(source, str(view.ids[row]), "names", float(brought.max()), str(graph.names[entity])),)
