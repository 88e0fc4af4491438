"""The strategies `graph` and `statements`: from what vectors, words and names find, over names to what they lead to.

A question whose answer is in two passages finds one of them; the other is named there. A walk over passages and names
(personalized PageRank) starts from the passages that fit best, from those whose title the question names, and from the
names in the sentences that fit best, and keeps returning there. In addition, two passages that answer more together
than either does alone lift each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palimpsest.query.ranking.scoring import BaseScores, Scored, base_scores, rescale, top
from palimpsest.query.request.strategies import Spreading
from palimpsest.query.request.types import Link
from palimpsest.query.scope.scope_arrays import Postings, word_sums
from palimpsest.query.scope.scope_graph import PassageGraph, Sentences
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.view import ScopeView

# Which two memories answer a question together: one found by itself, and one that it names with the words it lacks.
#
# Neither has the whole answer of a question over two steps, so neither scores best alone. A pair scores the base score
# of its first memory plus what the second adds; both are lifted by the best pair that they are in.

NONE = -1


@dataclass(frozen=True)
class Pairs:
    """The best pair of each memory.

    Attributes:
        share: e to the power of how far a memory's best pair, or a leading memory alone, is behind the best of all: 1
            for that, 0 for a memory that does not lead and is in no pair.
        partners: local row of the other memory of the pair; NONE for none.
        names: local entity number of the name that both have; NONE for none.
    """

    share: np.ndarray
    partners: np.ndarray
    names: np.ndarray


def best_pairs(
    graph: PassageGraph,
    leading: np.ndarray,
    base: np.ndarray,
    postings: Sequence[Postings],
    word: float,
    title: float,
    allowed: np.ndarray,
) -> Pairs:
    """Pairs each leading memory with all that share a name with it and add something.

    Args:
        graph: which memory names which entity.
        leading: local rows of the memories that a pair may start from.
        base: base scores of all memories, shape (memories,).
        postings: of the question's terms.
        word: contribution of 1 of BM25, of a term that the first memory lacks, on the scale of `base`.
        title: bonus where the name is the second memory's title.
        allowed: which memories may be reached, shape (memories,) bool.
    """
    best = np.full(graph.size, -np.inf)
    best[leading] = base[leading]
    partners, names = np.full(graph.size, NONE), np.full(graph.size, NONE)
    sums_by_missing: dict[tuple[bool, ...], np.ndarray] = {}
    lacking_of = np.array([p.scores_of(leading) == 0 for p in postings]).reshape(len(postings), len(leading)).T
    for row, lacks in zip(leading.tolist(), map(tuple, lacking_of.tolist()), strict=True):
        if lacks not in sums_by_missing:
            missing = [p for p, lacking in zip(postings, lacks, strict=True) if lacking]
            sums_by_missing[lacks] = word * word_sums(missing, graph.size)
        words = sums_by_missing[lacks]
        for entity in graph.entities[graph.edges_of(row)].tolist():
            for others, more in ((graph.rows[graph.edges_by_entity[entity]], 0.0), (graph.titled[entity], title)):
                adds = words[others] + more
                useful = (adds > 0) & allowed[others] & (others != row)
                others, scores = others[useful], base[row] + adds[useful]
                better = scores > best[others]
                new = others[better]
                best[new], partners[new], names[new] = scores[better], row, entity
                if len(scores) and scores.max() > best[row]:
                    at = int(scores.argmax())
                    best[row], partners[row], names[row] = scores[at], others[at], entity
    return Pairs(np.exp(best - best.max()) if len(leading) else np.zeros(graph.size), partners, names)


# The strategies `graph` and `statements`: from what vectors, words and names find, over names to what they lead to.

MIN_SHARE = 1e-5  # of the walk: a name that brought less explains nothing
MIN_LIFT = 0.1  # a pair that lifts by less explains nothing


@dataclass(frozen=True)
class _Walk:
    """A finished walk.

    Attributes:
        graph: what was walked over.
        rows: share of each memory.
        entities: share of each entity.
        named: entities that the question names.
        titled: memories whose title it names.
        seeds: the best passages by themselves.
    """

    graph: PassageGraph
    rows: np.ndarray
    entities: np.ndarray
    named: list[int]
    titled: np.ndarray
    seeds: np.ndarray


def score_passages(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores every candidate of a scope; nothing is reached over a memory that is no candidate."""
    use, b = query.weights.spreading, base_scores(view, query)
    rows, base = b.rows, b.base
    graph = view.passages()
    if graph is None or len(rows) == 0:
        return Scored(view.ids, b.layout, b.cosines, b.words, base, base, lambda row: ())
    walk = _walk(view, graph, b, query)
    seeds = walk.seeds
    leading = seeds[np.lexsort((seeds, -base[seeds]))][: use.leading if use.pairs > 0 else 0]
    deviation = b.layout.deviation(b.words)
    word = query.weights.words / deviation if deviation > 0 else 0.0
    pairs = best_pairs(graph, leading, base, b.postings, word, use.title, b.allowed)
    best = float(base[rows].max())
    total = np.log(walk.rows + 1 / len(rows)) + use.pairs * pairs.share
    if best > 0:
        total += use.own / best * base
    total = rescale(total, base, b.layout)
    titled = set(walk.titled.tolist())

    def path(row: int) -> tuple[Link, ...]:
        if row in titled:
            name = next(str(graph.names[e]) for e in walk.named if row in graph.titled[e])
            return (Link("question", str(view.ids[row]), "asked", 1.0, name),)
        return _pair_link(view, graph, pairs, use, row) or _name_link(view, walk, row)

    return Scored(view.ids, b.layout, b.cosines, b.words, base, total, path)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Returns exp(scores), summing to 1."""
    out: np.ndarray = np.exp(scores - scores.max())
    out /= out.sum()
    return out


def spread(values: Sequence[float] | np.ndarray, at: Sequence[int] | np.ndarray, size: int) -> np.ndarray:
    """Returns an array of `size` with `values`, scaled to sum to 1, at the indices `at`; zeros for no values."""
    out = np.zeros(size)
    np.add.at(out, np.asarray(at, np.int64), np.asarray(values, float))
    total = out.sum()
    return out / total if total > 0 else out


def _walk(view: ScopeView, graph: PassageGraph, b: BaseScores, query: ScopeQuery) -> _Walk:
    use, size = query.weights.spreading, len(view.ids)
    seeds = b.rows[top(b.base[b.rows], use.seeds)]
    share = softmax(b.base[seeds])
    named = graph.named_in(query.text)
    titled = np.unique(np.concatenate([np.zeros(0, np.int64), *(graph.titled[e] for e in named)]))
    titled = titled[b.allowed[titled]]
    to_titled = use.named if len(titled) else 0.0
    start = use.passages * (1 - to_titled) * spread(share, seeds, size)
    start += use.passages * to_titled * spread(np.ones(len(titled)), titled, size)
    linked = [e for e in named if graph.linked[e]]
    entities = use.question * spread(1 / graph.df[linked], linked, len(graph.df))
    rarity = {
        t: float(np.log1p(size / max(1, len(p.rows))))
        for t, p in zip(sorted(query.word_terms), b.postings, strict=True)
    }
    weight = np.zeros(size)
    weight[seeds] = share
    found = view.sentences(np.sort(seeds))
    entities += use.sentences * _entities_of_sentences(graph, found, weight, query.vector, rarity, use)
    at_rows, at_entities = graph.walk(start, entities, b.allowed, use.steps, use.follow)
    return _Walk(graph, at_rows, at_entities, named, titled, seeds)


def _entities_of_sentences(
    graph: PassageGraph,
    found: Sentences,
    weight: np.ndarray,
    vector: np.ndarray,
    rarity: dict[str, float],
    use: Spreading,
) -> np.ndarray:
    """Returns start shares of entities, summing to 1: those in sentences that fit the question."""
    if found.vectors is not None:
        fit = use.cosine * (np.vecdot(found.vectors, vector).astype(np.float64) - 1)
    else:
        sum_of_all = sum(rarity.values()) or 1.0
        fit = use.overlap * (found.words.weigh(rarity) / sum_of_all)
    linked = graph.linked[found.entities]
    sentence, entities = np.repeat(np.arange(len(found.rows)), found.counts)[linked], found.entities[linked]
    values = (weight[found.rows] * np.exp(fit))[sentence] * np.log(graph.size / graph.df[entities])
    return spread(values, entities, len(graph.df))


def _pair_link(view: ScopeView, graph: PassageGraph, pairs: Pairs, use: Spreading, row: int) -> tuple[Link, ...]:
    """Returns the link from the other memory of the best pair, where that lifts enough."""
    lift = use.pairs * float(pairs.share[row])
    if pairs.partners[row] == NONE or lift < MIN_LIFT:
        return ()
    other, entity = str(view.ids[pairs.partners[row]]), int(pairs.names[row])
    kind = "title" if row in graph.titled[entity] else "pair"
    return (Link(other, str(view.ids[row]), kind, lift, str(graph.names[entity])),)


def _name_link(view: ScopeView, walk: _Walk, row: int) -> tuple[Link, ...]:
    """Returns the link over the name that brought a memory most, from the memory that brought that name most."""
    graph = walk.graph
    edges = graph.edges_of(row)
    brought = walk.entities[graph.entities[edges]] * graph.to_row[edges]
    if len(edges) == 0 or brought.max() <= MIN_SHARE:
        return ()
    entity = int(graph.entities[edges[int(brought.argmax())]])
    others = graph.edges_by_entity[entity]
    others = others[graph.rows[others] != row]
    sent = walk.rows[graph.rows[others]] * graph.to_entity[others]
    if len(others) == 0 or sent.max() <= 0:
        return ()
    source = str(view.ids[graph.rows[others[int(sent.argmax())]]])
    return (Link(source, str(view.ids[row]), "names", float(brought.max()), str(graph.names[entity])),)
