"""The strategy `hierarchical`: nodes first, then the memories under them.

A question is compared with the nodes of the scope, entities and topics among them; the best are found, then what edges
reach from them. Their memories are lifted, or with `narrow` they alone are scored.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from palimpsest.query.ranking.scoring import RowLayout, Scored, fuse, rescale, score_alone, score_stats
from palimpsest.query.request.types import Edge, Filters, Link, Node
from palimpsest.query.scope.graph_reads import GraphScope
from palimpsest.query.scope.scope_arrays import Flags, rows_of, word_sums
from palimpsest.query.scope.scope_query import ScopeQuery
from palimpsest.query.scope.served_graph import NodeFilter, ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.scope.view import ScopeView
from palimpsest.text.terms import name_words
from palimpsest.text.words import SEARCH_STOPWORDS

# Searches the nodes of a scope: by vector, by name and by type; then follows edges from the best of them.

EDGE_TYPES = ("subtopic_of", "related_to", "part_of")
"""Types of the edges that are followed: to related nodes, and from a node to what is below it or part of it."""

DECAY = 0.7  # of a node's score, on each edge
NAMED = 2.0  # added to a node that the question names, in standard deviations of the proposals' cosines
_PROPOSALS = 50  # nodes nearest to the question
_ALL = 1_000_000  # more nodes than a scope has
_MAX_NAME_WORDS = 6
_NO_MEMBERS = np.zeros(0, np.int64), np.zeros(0)


@dataclass(frozen=True)
class ReachedMemories:
    """Memories under the nodes that are reached from others, each with the best of its nodes.

    Attributes:
        rows: local rows, ascending.
        gains: the node's score times the memory's relevance to it.
        nodes: number of the node in `names` and `types`.
        names: of the nodes.
        types: of the nodes.
    """

    rows: np.ndarray
    gains: np.ndarray
    nodes: np.ndarray
    names: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes, about."""
        return self.rows.nbytes + self.gains.nbytes + self.nodes.nbytes + 100 * len(self.names)


def find_nodes(
    graph: GraphScope,
    text: str,
    vector: np.ndarray,
    types: Sequence[str],
    n: int,
    keep: Callable[[Sequence[str]], Collection[str]] | None = None,
) -> dict[str, float]:
    """Returns the scores of the nodes that fit a question best, by id, best first, ties to the lower id.

    The score is the z-score of the cosine of the node's vector, among the nodes nearest to the question, plus `NAMED`
    where the question has a name of it. Nodes that score 0 or less are left out; with `keep` they score 0.

    Args:
        graph: of the scope.
        text: the question.
        vector: its unit vector.
        types: of nodes; empty means all.
        n: how many, at most.
        keep: returns which of some nodes may be found; None means all. It reads every node of the types.
    """
    nearest = graph.nearest_nodes(vector, _PROPOSALS if keep is None else _ALL, types)
    if keep is not None:
        kept = keep([i for i, _ in nearest])
        nearest = [(i, cosine) for i, cosine in nearest if i in kept][:_PROPOSALS]
    cosines = dict(nearest)
    named = _named_nodes(graph, text)
    if types and named:
        kinds = graph.nodes(sorted(named))
        named = {i for i in named if kinds[i].type in types}
    if keep is not None:
        named = named & set(keep(sorted(named)))
    mean = float(np.mean([*cosines.values()])) if cosines else 0.0
    spread = max(float(np.std([*cosines.values()])), 1e-9) if cosines else 1.0
    if unknown := sorted(named - cosines.keys()):
        cosines |= graph.node_cosines(vector, unknown)
    scores = {i: (cosines[i] - mean) / spread if i in cosines else 0.0 for i in sorted(cosines.keys() | named)}
    scores = {i: round(score + NAMED * (i in named), 6) for i, score in scores.items()}
    scores = {i: score for i, score in scores.items() if score > 0} | (
        {} if keep is None else {i: 0.0 for i, score in scores.items() if score <= 0}
    )
    best = sorted(scores, key=lambda i: (-scores[i], i))[:n]
    return {i: scores[i] for i in best}


def reach_memories(
    graph: GraphScope, ids: np.ndarray, node_ids: Sequence[str], depth: int
) -> dict[str, ReachedMemories]:
    """Returns the memories of each node, and of those that edges reach from it, where the node itself scores 1.

    Args:
        graph: of the scope.
        ids: of its memories, ascending.
        node_ids: where to start, each by itself; edges, memories and names are read once for all.
        depth: edges to follow.
    """
    scores = _follow_edges(graph, node_ids, depth)
    reached = sorted({i for found in scores.values() for i in found})
    members, known = graph.members_of(reached), graph.nodes(reached)
    rows = {i: (rows_of(ids, found), np.fromiter(found.values(), np.float64)) for i, found in members.items()}
    return {start: _members_reached(found, rows, known) for start, found in scores.items()}


def _members_reached(
    scores: Mapping[str, float], members: Mapping[str, tuple[np.ndarray, np.ndarray]], known: Mapping[str, Node]
) -> ReachedMemories:
    """Returns the memories of the nodes that have a score; `members` are local rows and relevance by node."""
    nodes = sorted(known.keys() & scores.keys())
    parts = []
    for number, node_id in enumerate(nodes):
        rows, relevance = members.get(node_id, _NO_MEMBERS)
        parts.append((rows, scores[node_id] * relevance, np.full(len(rows), number)))
    return _best_of_each_row(parts, tuple(known[i].name for i in nodes), tuple(known[i].type for i in nodes))


def join_reached(found: Sequence[tuple[float, ReachedMemories]]) -> ReachedMemories:
    """Returns what several nodes reach together, each with the score of its start; of equals the first."""
    starts = np.cumsum([0, *(len(reached.names) for _, reached in found)]).tolist()
    parts = [(r.rows, score * r.gains, r.nodes + start) for (score, r), start in zip(found, starts, strict=False)]
    names, types = (tuple(value for _, r in found for value in getattr(r, field)) for field in ("names", "types"))
    return _best_of_each_row(parts, names, types)


def _best_of_each_row(
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], names: tuple[str, ...], types: tuple[str, ...]
) -> ReachedMemories:
    """Returns the best of (rows, gains, numbers of nodes) for each row, of equals the lowest number."""
    if not parts:
        return ReachedMemories(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), names, types)
    rows, gains, nodes = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((nodes, -gains, rows))
    first = order[np.unique(rows[order], return_index=True)[1]]
    return ReachedMemories(rows[first].astype(np.int64), gains[first], nodes[first].astype(np.int64), names, types)


def _follow_edges(graph: GraphScope, node_ids: Sequence[str], depth: int) -> dict[str, dict[str, float]]:
    """Returns, for each start, the scores of the nodes that `depth` edges reach, breadth first, by id.

    A node that is reached scores `DECAY` times the edge's weight of where it is reached from, the most of several.
    """
    scores = {start: {start: 1.0} for start in node_ids}
    frontiers = {start: {start} for start in node_ids}
    for _ in range(depth):
        frontier = sorted(set().union(*frontiers.values()))
        steps = _steps(graph.edges_of(frontier, EDGE_TYPES) if frontier else ())
        for start, found in scores.items():
            lifted = set[str]()
            for a in sorted(frontiers[start]):
                for b, weight in steps.get(a, ()):
                    reached = found[a] * DECAY * weight
                    if reached > found.get(b, 0.0):
                        found[b] = reached
                        lifted.add(b)
            frontiers[start] = lifted
    return scores


def _steps(edges: Iterable[Edge]) -> dict[str, list[tuple[str, float]]]:
    """Returns where edges lead from each node, and with which weight.

    What is above a node, a broad topic say, has most memories of a scope: going there would undo the search.
    """
    steps: dict[str, list[tuple[str, float]]] = {}
    for edge in edges:
        weight = 1.0 if edge.weight is None else edge.weight
        steps.setdefault(edge.target_id, []).append((edge.source_id, weight))
        if edge.type == "related_to":
            steps.setdefault(edge.source_id, []).append((edge.target_id, weight))
    return steps


def _named_nodes(graph: GraphScope, text: str) -> set[str]:
    """Returns the ids of the nodes that a question names: at each place the longest name."""
    words = name_words(text).split()
    spans = {
        (start, end): " ".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, min(len(words), start + _MAX_NAME_WORDS) + 1)
        if words[start] not in SEARCH_STOPWORDS and words[end - 1] not in SEARCH_STOPWORDS
    }
    known = graph.nodes_named(sorted(set(spans.values()))) if spans else {}
    named, at = set[str](), 0
    for start in range(len(words)):
        ends = [end for end in range(len(words), start, -1) if spans.get((start, end)) in known]
        if start >= at and ends:
            named.update(known[spans[start, ends[0]]])
            at = ends[0]
    return named


TOP_NODES = 5
LIFT = 0.2  # of a node's score, by the memory's relevance to it


def score_nodes(view: ScopeView, query: ScopeQuery) -> Scored:
    """Scores candidates by themselves and by the best node that has them; as `hybrid` where no node fits."""
    graph = query.served.backend.graph(query.scope)
    if graph is None:
        return score_alone(view, query)
    reached = reached_memories(view, graph, query)
    narrowed = _score_only(view, query, reached.rows) if query.nodes.narrow else None
    scored = narrowed or score_alone(view, query)
    lift, number = np.zeros(len(view.ids)), np.full(len(view.ids), -1)
    lift[reached.rows], number[reached.rows] = LIFT * reached.gains, reached.nodes
    total = scored.base
    if lift[scored.rows].any():
        total = rescale(scored.base + lift, scored.base, scored.layout)

    def path(row: int) -> tuple[Link, ...]:
        """The node that lifted it."""
        if number[row] < 0:
            return ()
        kind = "topic" if reached.types[number[row]] == "topic" else "about"
        return (Link("question", str(view.ids[row]), kind, float(lift[row]), reached.names[number[row]]),)

    return replace(scored, total=total, path=path)


def reached_memories(view: ScopeView, graph: GraphScope, query: ScopeQuery) -> ReachedMemories:
    """Returns the memories under the nodes that a question finds and reaches; what a node reaches is cached."""
    depth = query.nodes.depth
    found = find_nodes(graph, query.text, query.vector, query.nodes.node_types, TOP_NODES, _node_filter(graph, query))

    read = cache(lambda: reach_memories(graph, view.ids, sorted(found), depth))  # once, where any is not cached
    reached = [
        (score, view.cached(f"reached {depth} {i}", partial(lambda node_id: read()[node_id], i)))
        for i, score in found.items()
    ]
    return join_reached(reached)


def _node_filter(graph: GraphScope, query: ScopeQuery) -> Callable[[Sequence[str]], Collection[str]] | None:
    """Returns which of some nodes satisfy `node_where`, by what the question may see of them; None without it."""
    if query.nodes.node_where is None:
        return None
    filters = query.filters
    visible = Filters(
        history=True, clock=filters.clock, include_hidden=filters.include_hidden, include_pii=filters.include_pii
    )
    served = ServedGraph(ServedScope(query.served.backend, query.scope, visible), graph)
    wanted = NodeFilter(where=query.nodes.node_where)
    return lambda ids: wanted.matching(served.nodes(ids))


def _score_only(view: ScopeView, query: ScopeQuery, members: np.ndarray) -> Scored | None:
    """Scores some memories by statistics of their own; None where none of them is a candidate."""
    weights, size = query.weights, len(view.ids)
    rows = members[view.allowed(query.filters)[members]]
    if len(rows) == 0:
        return None
    cosines, base = np.zeros(size), np.zeros(size)
    words = word_sums(view.postings(query.word_terms), size)
    cosines[rows] = view.cosines_of(query.vector, rows)
    stats = score_stats(cosines[rows]), score_stats(words[rows])
    base[rows] = fuse(cosines[rows], words[rows], *stats, weights.vector, weights.words)
    layout = RowLayout(Flags.from_rows(rows, size).values)
    return Scored(view.ids, layout, cosines, words, base, base, lambda row: ())
