"""Ranking, the same over every backend: fused seeds, then what links reach from the best, with a decay per hop."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.index.index_format import DISPUTE
from palimpsest.query.ranking.conversation import score_turns
from palimpsest.query.ranking.scoring import (
    BaseScores,
    Scored,
    base_scores,
    fuse,
    rescale,
    score_alone,
    top,
    uses_priors,
)
from palimpsest.query.request.strategies import Spreading
from palimpsest.query.request.types import Link, Node, ScoreStats
from palimpsest.query.scope.graph_reads import GraphScope
from palimpsest.query.scope.scope_arrays import WORST_ESTIMATE, Postings, known_rows, rows_of, word_sums
from palimpsest.query.scope.scope_graph import PREMISE, RELATION_LABELS, PassageGraph, ScopeLinks, Sentences
from palimpsest.query.scope.scope_query import Candidate, ScopeQuery
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.questions import listed_nouns, requested_kinds

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
    deviation = b.words_stats.std
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
            return (Link("question", str(view.ids[row]), "question", 1.0, name),)
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


# A superseded memory answers through what took its place, and what disputes one comes before it.
#
# A question often has the words of what was said first: `Where do we rent?` is nearer to `We rent a flat in Kothrud`
# than to `The last box is unpacked in Nashik`. The newer memory therefore takes the score of the older one where that
# is higher.


SUCCEEDS = "UPDATE"
"""The kind of the link from a superseded memory to one that answers for it."""
MAX_CHAIN = 20
"""Versions that are followed to the latest ones."""
_JUST_ABOVE = 1e-6

More: TypeAlias = Callable[[Sequence[str]], dict[str, Candidate]]
"""Returns further candidates by id, with their own scores."""


@dataclass(frozen=True)
class Successors:
    """Memories of a scope, by local row, each with a row that took its place or that of a part.

    Attributes:
        older: the memory.
        by: what ended it, or a part of it.
        newer: the same, or what took the place of that, through others too.
    """

    older: np.ndarray
    by: np.ndarray
    newer: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.older.nbytes + self.by.nbytes + self.newer.nbytes

    @classmethod
    def of(cls, links: ScopeLinks) -> "Successors":
        """Follows each memory that newer ones ended, or ended parts of, to all of them that are not replaced."""
        starts, is_update = links.replaced.starts, links.label == RELATION_LABELS.index("UPDATE")
        by = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        older = np.concatenate([links.replaced.values, links.older[is_update]])
        newer = np.concatenate([by, links.newer[is_update]])
        next_of: dict[int, list[int]] = {}
        for old, new in zip(older.tolist(), newer.tolist(), strict=True):
            next_of.setdefault(old, []).append(new)
        replaced = set(links.replaced.values.tolist())
        rows = [
            (old, by, new)
            for old in sorted(next_of)
            for new, by in sorted(_following(next_of, old).items())
            if new not in replaced
        ]
        return cls(*np.array(rows, np.int64).reshape(-1, 3).T)


def _following(next_of: Mapping[int, Sequence[int]], start: int) -> dict[int, int]:
    """Returns what follows a row within `MAX_CHAIN` steps, each with the first step towards it."""
    found = {start: start} | {new: new for new in next_of[start]}
    last = set(next_of[start])
    for _ in range(MAX_CHAIN):
        steps = {new: found[old] for old in sorted(last, reverse=True) for new in next_of.get(old, ())}
        last = steps.keys() - found.keys()
        found |= {new: steps[new] for new in last}
    return {new: by for new, by in found.items() if new != start}


def applies(query: ScopeQuery) -> bool:
    """Returns whether a search reads what is latest now, with links: other times and all versions keep their order."""
    filters = query.filters
    return query.weights.graph > 0 and not filters.history and filters.as_of is None


def lift_successors(
    view: ScopeView,
    query: ScopeQuery,
    stats: tuple[ScoreStats, ScoreStats],
    found: dict[str, Candidate],
    more: More,
    estimates: np.ndarray | None = None,
) -> None:
    """Gives memories the score of what they superseded, where it is higher; `found` is updated.

    What ended a part of a memory comes just below the rest of it.

    Args:
        view: the scope.
        query: its query.
        stats: of cosines and of word scores over all candidates of the scope.
        found: the candidates so far, by id.
        more: returns other candidates by id.
        estimates: about the cosine of every memory, by local row: what they leave far behind is not read.
    """
    at = view.cached("successors", lambda: Successors.of(view.links()))
    if len(at.older) == 0:
        return
    of_any_time = replace(query.filters, history=True, now=None)  # what ended is valid no more
    visible, allowed = view.allowed(of_any_time), view.allowed(query.filters)
    kept = visible[at.older] & allowed[at.newer]
    older, by, newer = at.older[kept], at.by[kept], at.newer[kept]
    if len(older) == 0:
        return
    weights = query.weights
    sums = sum((term.scores_of(older) for term in view.postings(query.word_terms)), np.zeros(len(older)))
    least = min((c.score for c in found.values()), default=0.0)
    score_of_row = {row: found[i].score for i, row in known_rows(view.ids, found).items()}
    is_found = np.isin(older, list(score_of_row))
    if estimates is not None:
        most = fuse(estimates[older] + WORST_ESTIMATE, sums, *stats, weights.vector, weights.words)
        kept = is_found | (most > least)
        older, by, newer, sums, is_found = older[kept], by[kept], newer[kept], sums[kept], is_found[kept]
    similar = view.cosines_of(query.vector, older)
    own = fuse(similar, sums, *stats, weights.vector, weights.words)
    of_candidates = np.full(len(older), -np.inf)
    for place in np.flatnonzero(is_found):
        of_candidates[place] = score_of_row[int(older[place])]
    scores = np.where(allowed[older], np.maximum(own, of_candidates) - _JUST_ABOVE, own)
    for place in np.argsort(-scores, kind="stable").tolist():
        score = float(scores[place])
        if score <= least:
            break
        old_id, by_id, new_id = (str(view.ids[rows[place]]) for rows in (older, by, newer))
        if new_id not in found:
            found |= more([new_id])
        if new_id in found and found[new_id].score < score:
            steps = [(old_id, by_id), (by_id, new_id)][: 1 + (by_id != new_id)]
            links = tuple(Link(*step, SUCCEEDS, 1.0) for step in steps)
            replaced = Candidate(old_id, score, float(similar[place]), float(sums[place]), score, hops=links)
            lifted = replace(found[new_id], score=score, score_path=tuple, hops=links)
            found[new_id] = replace(lifted, stands_for=replaced)


def lift_disputing(view: ScopeView, query: ScopeQuery, found: dict[str, Candidate], more: More) -> None:
    """Lifts a memory that disputes a better candidate just above it; `found` is updated.

    Args:
        view: the scope.
        query: its query.
        found: the candidates so far, by id.
        more: returns other candidates by id.
    """
    disputes = view.links().disputes
    if not disputes:
        return
    allowed = view.allowed(query.filters)
    row_of = known_rows(view.ids, found)
    for older in sorted(found, key=lambda i: (-found[i].score, i)):
        for newer_row, likelihood in disputes.get(row_of[older], ()):
            if not allowed[newer_row]:
                continue
            newer = str(view.ids[newer_row])
            if newer not in found:
                found |= more([newer])
            above = found[older].score + _JUST_ABOVE
            if newer in found and found[newer].score < above:
                link = Link(older, newer, DISPUTE, likelihood)
                found[newer] = replace(found[newer], score=above, hops=(*found[older].hops, link))


# Lifts formed memories of the kind that a question is about: words of the question rarely name what was decided.

KIND_WEIGHT = 1.0
"""Standard deviations of a signal that a memory of the kind gains."""


def lift_requested_kinds(scored: Scored, view: ScopeView, query: ScopeQuery) -> Scored:
    """Returns scores in which formed memories of the kind that the question is about, and their evidence, gain.

    Nothing changes where a scope forms no memories, or the question is about no kind of them.
    """
    if not (kinds := requested_kinds(query.text)) or not query.served.has_formed:
        return scored
    total = scored.total.copy()
    rows = view.formed().of_kinds(kinds)
    total[scored.layout.places(rows[scored.layout.allowed[rows]])] += KIND_WEIGHT
    return replace(scored, total=total)


# Questions that ask for all of a kind: the category that they name has members, each described by a memory.

MAX_MEMBERS = 50  # a category with more is no answer


def listed_memories(query: ScopeQuery) -> set[str]:
    """Returns the ids of the candidates that describe the members of a category that a question asks to list.

    None for any other question.
    """
    if query.weights.graph <= 0 or not (nouns := listed_nouns(query.text)):
        return set()
    try:
        graph = query.served.backend.graph(query.scope)
    except PalimpsestError:  # an index of an earlier version has no nodes
        return set()
    return query.served.passing(sorted(_described_members(graph, nouns))) if graph is not None else set()


def _described_members(graph: GraphScope, nouns: list[str]) -> set[str]:
    named = graph.nodes_named(nouns)
    nodes = graph.nodes(sorted({i for ids in named.values() for i in ids}))
    categories = sorted(i for i, node in nodes.items() if node.type == "category")
    edges = graph.edges_of(categories, ["part_of"]) if categories else []
    members = sorted({edge.source_id for edge in edges if edge.target_id in categories})
    if not 0 < len(members) <= MAX_MEMBERS:
        return set()
    return {_description_memory(node) for node in graph.nodes(members).values()} - {""}


def _description_memory(node: Node) -> str:
    return str(json.loads(node.metadata or "{}").get("description_memory_id") or "")


# The registry of scorers: a strategy names one in its weights, and no backend knows of any.

Scorer = Callable[[ScopeView, ScopeQuery], Scored]
"""Scores every memory of a scope for one query."""


def _score_nodes(view: ScopeView, query: ScopeQuery) -> Scored:
    from palimpsest.query.ranking.hierarchy import score_nodes

    return score_nodes(view, query)


_SCORERS: dict[str, Scorer] = {
    "alone": score_alone,
    "order": score_turns,
    "passages": score_passages,
    "nodes": _score_nodes,
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


SEEDS = 100  # candidates; statistics are exact, so more of them change nothing
DECAY = 0.7
LISTED = 0.95  # of the best score, for what describes a member of the category that a question asks to list
_LISTED_STEP = 0.001  # less for each further one
_MIN_VECTOR_WEIGHT = 1e-6  # the store divides by it
_HOP_SOURCES = 10  # memories that each hop starts from, the best first


class _Pool(Protocol):
    """The candidates of a scope: the best to start with, and the score of whatever a link reaches."""

    estimates: np.ndarray | None
    """About the cosine of every memory, by local row; None where none were made."""

    def best(self) -> dict[str, Candidate]:
        """Returns the seeds."""

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        """Returns other candidates, with their own scores."""

    def stats(self) -> tuple[ScoreStats, ScoreStats]:
        """Returns the statistics of cosines and of word scores over all candidates."""


def rank(
    query: ScopeQuery, hops: int, n: int = SEEDS, record: Callable[[str], None] = lambda _: None
) -> list[Candidate]:
    """Returns the candidates of one scope, best first, ties by id.

    Scores are standardized over all candidates of the scope, so those of different scopes compare. A memory that a link
    reaches scores at least `DECAY` * link weight of its source's score: it is lifted towards its source, never past it.
    Where the question asks why, a premise is not decayed: it answers as much as what follows from it.

    Args:
        query: the query of the scope.
        hops: links to follow from the best seeds, 0 to 2.
        n: how many seeds.
        record: called with the name of each step as it ends, for timings.
    """
    view = _view_to_score(query)
    pool: _Pool
    if view is not None:
        scored = scorer_named(query.weights.scorer)(view, query)
        pool = _ScoredPool(lift_requested_kinds(scored, view, query), query.weights.graph, n)
    else:
        pool = _SeededPool(query, n)
    record("seeds_ms")
    found = pool.best()
    start = sorted(found.values(), key=_sort_key)[:_HOP_SOURCES]
    record("rank_ms")
    for _ in range(hops if found and query.weights.graph > 0 else 0):
        links = query.served.neighbors([c.memory_id for c in start], query.weights.entities)
        start = _expand(links, pool, query, found, start)
    _lift_listed(query, pool, found)
    whole = query.served.view() if found and applies(query) else None
    if whole is not None:
        lift_successors(whole, query, pool.stats(), found, pool.more, pool.estimates)
        lift_disputing(whole, query, found, pool.more)
    record("expand_ms")
    return sorted(found.values(), key=_sort_key)


def _view_to_score(query: ScopeQuery) -> ScopeView | None:
    """Returns the view to score every memory of; None where the store alone finds the best by vectors and words."""
    weights = query.weights
    if weights.scorer not in ("", "alone") or weights.vector <= 0 or weights.fusion != "z" or uses_priors(weights):
        return query.served.view()
    if weights.scorer == "":
        return None
    view = query.served.view()
    return view if view is not None and (query.period is not None or view.windows() is not None) else None


def _sort_key(candidate: Candidate) -> tuple[float, str]:
    return (-candidate.score, candidate.memory_id)


class _SeededPool:
    """The store finds the best; a memory that a link reaches is scored then."""

    def __init__(self, query: ScopeQuery, n: int):
        weights = query.weights
        weight = weights.words / max(weights.vector, _MIN_VECTOR_WEIGHT)
        self._query, self._seeds = query, query.served.seeds(query.vector, query.word_terms, weight, n)
        self.estimates: np.ndarray | None = None

    def best(self) -> dict[str, Candidate]:
        return self._candidates(self._seeds.ids, np.stack([self._seeds.vector, self._seeds.words], axis=1))

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        return self._candidates(ids, self._query.served.scores(self._query.vector, self._query.word_terms, ids))

    def stats(self) -> tuple[ScoreStats, ScoreStats]:
        return self._seeds.vector_stats, self._seeds.words_stats

    def _candidates(self, ids: Sequence[str], scores: np.ndarray) -> dict[str, Candidate]:
        weights, seeds = self._query.weights, self._seeds
        totals = fuse(scores[:, 0], scores[:, 1], seeds.vector_stats, seeds.words_stats, weights.vector, weights.words)
        rows = zip(ids, totals.tolist(), scores.tolist(), strict=True)
        return {i: Candidate(i, total, vector, words, total) for i, total, (vector, words) in rows}


class _ScoredPool:
    """Every memory of the scope is scored already; `graph` is the factor of what the scorer added to base scores."""

    def __init__(self, scored: Scored, graph: float, n: int):
        total = scored.total if graph == 1.0 else scored.base + graph * (scored.total - scored.base)
        self._scored, self._n, self.estimates = replace(scored, total=total), n, scored.estimates

    def best(self) -> dict[str, Candidate]:
        return self._candidates(self._scored.layout.best(self._scored.total, self._n))

    def more(self, ids: Sequence[str]) -> dict[str, Candidate]:
        return self._candidates(rows_of(self._scored.ids, ids))

    def stats(self) -> tuple[ScoreStats, ScoreStats]:
        return self._scored.stats

    def _candidates(self, rows: np.ndarray) -> dict[str, Candidate]:
        s = self._scored
        columns = (a[s.layout.places(rows)].tolist() for a in (s.total, s.cosines, s.words, s.base))
        return {
            i: Candidate(i, score, vector, words, base, partial(s.path, row))
            for row, i, score, vector, words, base in zip(rows.tolist(), s.ids[rows].tolist(), *columns, strict=True)
        }


def _lift_listed(query: ScopeQuery, pool: _Pool, found: dict[str, Candidate]) -> None:
    """Lifts what describes the members of the category that a question asks to list, next to the best candidate.

    Among themselves they keep their order; `found` is updated.
    """
    listed = listed_memories(query) if found else set()
    if not listed:
        return
    if new := sorted(listed - found.keys()):
        found |= pool.more(new)
    best = max(c.score for c in found.values())
    for place, member in enumerate(sorted((found[i] for i in listed), key=_sort_key)):
        score = (LISTED - _LISTED_STEP * place) * best
        if score > member.score:
            link = Link("question", member.memory_id, "member", LISTED)
            found[member.memory_id] = replace(member, score=score, hops=(link,))


def _expand(
    links: Sequence[Link], pool: _Pool, query: ScopeQuery, found: dict[str, Candidate], start: list[Candidate]
) -> list[Candidate]:
    """Lifts the targets of links from `start`; updates `found` and returns where the next hop starts."""
    if new := sorted({link.target for link in links} - found.keys()):
        found |= pool.more(new)
    origin = {c.memory_id: c for c in start}
    best: dict[str, tuple[float, Link]] = {}
    for link in links:
        decay = 1.0 if link.kind == PREMISE and query.asks_for_reasons else DECAY
        score = query.weights.graph * decay * link.weight * origin[link.source].score
        if score > found[link.target].score and score > best.get(link.target, (0.0, link))[0]:
            best[link.target] = (score, link)
    lifted = [
        replace(found[target], score=score, score_path=(at := origin[link.source]).score_path, hops=(*at.hops, link))
        for target, (score, link) in best.items()
    ]
    found |= {c.memory_id: c for c in lifted}
    return sorted(lifted, key=_sort_key)[:_HOP_SOURCES]
