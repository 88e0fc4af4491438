"""Questions over the graph of one or several scopes of a build."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from palimpsest.core.errors import ArgumentError
from palimpsest.query.context.changes import disputes_of
from palimpsest.query.context.explain import histories
from palimpsest.query.graph.evidence import Evidence, QuestionNames, gather_evidence, read_names
from palimpsest.query.graph.graph_answer import GraphAnswer, GraphLine, PathStep, unique_nodes
from palimpsest.query.graph.graph_lines import (
    MENTIONED_WITH,
    Neighborhood,
    Tie,
    changed_ids,
    find_neighbors,
    find_stages,
    find_subgraph,
    find_ties,
    neighborhood_lines,
    stage_line,
    tie_line,
)
from palimpsest.query.request.search_request import clean_text, clean_texts
from palimpsest.query.request.types import Filters, Node, Scope
from palimpsest.query.request.where import parse_where
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.served_graph import NodeFilter, ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.store.usage_log import UsageLog
from palimpsest.text.terms import name_words

MAX_LINES = 100
"""Lines of an answer."""

MAX_DEPTH = 4
"""Steps from a node."""

_ANY = NodeFilter()
_LINK_SOURCES = 60  # memories whose relations tie two of them
_SHOWN_CHARS = 60  # of a name in an error


@dataclass(frozen=True)
class _ScopeGraph:
    """A scope and its graph; None where the build has nothing of it."""

    served: ServedScope
    graph: ServedGraph | None


class GraphReader:
    """Answers questions over the graph of some scopes. Every version counts; what filters leave out does not.

    Args:
        backend: the store of the build.
        scopes: which scopes; nothing between two of them relates.
        filters: what is shown.
        usage: reads of memories, for `Node.access_count`; None where none are counted.
    """

    def __init__(self, backend: Backend, scopes: Sequence[Scope], filters: Filters, usage: UsageLog | None = None):
        served = [ServedScope(backend, scope, filters) for scope in scopes]
        self._scopes = [_ScopeGraph(s, ServedGraph.of(s)) for s in served]
        self._usage = usage

    def relations(self, text: str, k: int = 5) -> GraphAnswer:
        """Returns how the things that a question names relate, best first: `How does Ida relate to Ghent?`.

        A line is one memory that speaks of both, or a path of two that are tied by a relation, by their place, or by
        what else both name. A question about one thing gets its facts and memories that fit the question.

        Args:
            text: the question.
            k: lines, 1 to 100.

        Raises:
            ArgumentError: an argument is out of range, or the text has no words.
        """
        question = _check(text, k)
        return _merge([self._relations_in(s, question, k) for s in self._scopes], k, by_time=False)

    def timeline(self, text: str, k: int = 5) -> GraphAnswer:
        """Returns the stages of what a question is about, in the order in which they happened.

        Args:
            text: a question such as `How has the release day changed?`, or a name.
            k: stages, those that fit best, 1 to 100.

        Raises:
            ArgumentError: an argument is out of range, or the text has no words.
        """
        question = _check(text, k)
        return _merge([self._timeline_in(s, question, k) for s in self._scopes], k, by_time=True)

    def node(self, name: str, node_types: Sequence[str] = (), where: str | None = None) -> GraphAnswer:
        """Returns the nodes with a name, their facts and their edges; each node with its `access_count`.

        Args:
            name: a name, an alias, or one word of a name.
            node_types: only nodes of these types have the name; none means all.
            where: what fields and metadata of these nodes satisfy, as of `search`: `status = "active"`.

        Raises:
            ArgumentError: no node that is shown has the name, or `where` is not understood.
        """
        return self._near(name, 1, (), named=_node_filter(node_types, where), only_from=True)

    def neighbors(
        self,
        name: str,
        depth: int = 2,
        types: Sequence[str] = (),
        node_types: Sequence[str] = (),
        where: str | None = None,
    ) -> GraphAnswer:
        """Returns the nodes up to `depth` steps from those with a name, and what is between them.

        Args:
            name: a name, an alias, or one word of a name.
            depth: steps, 0 to 4.
            types: predicates of facts and types of edges to follow; `mentioned_with` is between nodes that a memory
                names together. None means all.
            node_types: only nodes of these types are reached, and paths lead over them; none means all.
            where: what fields and metadata of nodes reached satisfy, as of `search`: `status = "active"`.

        Raises:
            ArgumentError: no node that is shown has the name, an argument is out of range, or `where` is not
                understood.
        """
        if not 0 <= depth <= MAX_DEPTH:
            raise ArgumentError("depth", f"must be 0 to {MAX_DEPTH}", str(depth))
        return self._near(name, depth, types, reached=_node_filter(node_types, where))

    def subgraph(self, memory_ids: Sequence[str]) -> GraphAnswer:
        """Returns the nodes, edges and facts among some memories."""
        parts = []
        for s in self._scopes:
            if s.graph is not None and (found := find_subgraph(s.graph, memory_ids)).nodes:
                parts.append(_neighborhood_answer(s.graph, found))
        return _merge(parts, None, by_time=False)

    def _relations_in(self, scope: _ScopeGraph, question: str, k: int) -> GraphAnswer:
        names = read_names(scope.graph, question)
        evidence = gather_evidence(scope.served, scope.graph, question, names)
        best = sorted(evidence.fit, key=lambda i: (-evidence.fit[i], i))[:_LINK_SOURCES]
        links = {(x.source, x.target) for x in scope.served.neighbors(best, 0)}
        ties = find_ties(evidence, links | {(b, a) for a, b in links}, k)
        shown = [i for t in ties for i in t.memory_ids]
        nodes = _nodes_of(scope, evidence, shown)
        known = {n.node_id: n for n in nodes}
        disputes = disputes_of(scope.served, {i: evidence.memories[i] for i in shown})
        lines = tuple(tie_line(t, evidence, known, disputes) for t in ties)
        paths = tuple(path for t in ties if (path := _path(t, evidence, known)))
        return _with_graph(scope, evidence, names, nodes, shown, lines, paths)

    def _timeline_in(self, scope: _ScopeGraph, question: str, k: int) -> GraphAnswer:
        names = read_names(scope.graph, question)
        evidence = gather_evidence(scope.served, scope.graph, question, names)
        stages = find_stages(evidence, changed_ids(list(evidence.memories.values())), k)
        versions = histories(scope.served, [s.main for s in stages])
        shown = [i for s in stages for i in s.memory_ids]
        disputes = disputes_of(scope.served, {i: evidence.memories[i] for i in shown})
        lines = tuple(stage_line(s, evidence, versions, disputes) for s in stages)
        return _with_graph(scope, evidence, names, _nodes_of(scope, evidence, shown), shown, lines, ())

    def _near(
        self,
        name: str,
        depth: int,
        types: Sequence[str],
        *,
        named: NodeFilter = _ANY,
        reached: NodeFilter = _ANY,
        only_from: bool = False,
    ) -> GraphAnswer:
        wanted, parts = name_words(clean_text(name, "name")), []
        for s in self._scopes:
            if s.graph is None:
                continue
            ids = s.graph.named([wanted]).get(wanted) or s.graph.named([wanted], by_word=True).get(wanted, [])
            ids = list(named.matching(s.graph.nodes(ids))) if ids and named else ids
            if ids and (found := find_neighbors(s.graph, ids, depth, types, reached)).nodes:
                shown = _with_access_counts(s, _touching(found, set(ids)), self._usage) if only_from else found
                parts.append(_neighborhood_answer(s.graph, shown))
        if not parts:
            fits = " and satisfies `node_types` and `where`" if named else ""
            hint = f"no node in this scope has this name{fits}; `relations` looks for words"
            raise ArgumentError("name", hint, " ".join(name.split())[:_SHOWN_CHARS])
        return _merge(parts, None, by_time=False)


def _node_filter(types: Sequence[str], where: str | None) -> NodeFilter:
    return NodeFilter(clean_texts("node_types", types), parse_where(where) if where is not None else None)


def _check(text: str, k: int) -> str:
    if not 1 <= k <= MAX_LINES:
        raise ArgumentError("k", f"must be 1 to {MAX_LINES}", str(k))
    return clean_text(text)


def _nodes_of(scope: _ScopeGraph, evidence: Evidence, memory_ids: Iterable[str]) -> tuple[Node, ...]:
    """Returns the nodes that a question names, and those of the memories of its answer."""
    if scope.graph is None:
        return ()
    named = [i for a in evidence.names.anchors for i in a.node_ids]
    return unique_nodes(
        scope.graph.nodes([*named, *(n for i in memory_ids for n in evidence.nodes.get(i, ()))]).values()
    )


def _path(tie: Tie, evidence: Evidence, nodes: dict[str, Node]) -> tuple[PathStep, ...]:
    """Returns the steps of a tie between two nodes; none where an end or what is between them is no node."""
    ends = [[i for i in a.node_ids if i in nodes] for a in evidence.names.ends]
    if len(ends) < 2 or not all(ends):
        return ()
    source, target = ends[0][0], ends[1][0]
    if len(tie.memory_ids) == 1:
        (memory_id,) = tie.memory_ids
        if not all(any(memory_id in evidence.members.get(i, ()) for i in end) for end in ends):
            return ()
        return (PathStep(source, target, _step_type(evidence, memory_id, source, target), tie.memory_ids),)
    first, second = tie.memory_ids
    shared = sorted(set(evidence.nodes.get(first, ())) & set(evidence.nodes.get(second, ())) - {*ends[0], *ends[1]})
    if not (between := [i for i in shared if i in nodes]):
        return ()
    steps = (source, between[0], first), (between[0], target, second)
    return tuple(PathStep(a, b, _step_type(evidence, memory, a, b), (memory,)) for a, b, memory in steps)


def _step_type(evidence: Evidence, memory_id: str, source: str, target: str) -> str:
    stated = (f for f in evidence.facts.get(memory_id, ()) if {source, target} == set(f.ends))
    return next((f.predicate for f in stated), MENTIONED_WITH)


def _with_graph(
    scope: _ScopeGraph,
    evidence: Evidence,
    names: QuestionNames,
    nodes: tuple[Node, ...],
    memory_ids: Sequence[str],
    lines: tuple[GraphLine, ...],
    paths: tuple[tuple[PathStep, ...], ...],
) -> GraphAnswer:
    ids = {n.node_id for n in nodes}
    facts = {f.fact_id: f for i in memory_ids for f in evidence.facts.get(i, ()) if set(f.ends) <= ids}
    edges = scope.graph.edges_of(sorted(ids)) if scope.graph and ids else []
    kept = tuple(e for e in edges if e.source_id in ids and e.target_id in ids)
    about = tuple(a.text for a in names.anchors)
    return GraphAnswer(nodes, kept, tuple(facts[i] for i in sorted(facts)), paths, lines, about)


def _touching(found: Neighborhood, ids: set[str]) -> Neighborhood:
    """Returns a neighborhood without what is between other nodes."""
    return Neighborhood(
        found.nodes,
        tuple(e for e in found.edges if {e.source_id, e.target_id} & ids),
        tuple(f for f in found.facts if set(f.ends) & ids),
    )


def _with_access_counts(scope: _ScopeGraph, found: Neighborhood, usage: UsageLog | None) -> Neighborhood:
    """Returns a neighborhood whose nodes have the reads of their visible memories; as it is where none are counted."""
    if usage is None or scope.graph is None:
        return found
    reads, members = usage.count_reads(scope.served.scope), scope.graph.members_of(sorted(found.nodes))
    counted = {
        i: (replace(node, access_count=sum(reads[m] for m in members.get(i, ()))), steps)
        for i, (node, steps) in found.nodes.items()
    }
    return replace(found, nodes=counted)


def _neighborhood_answer(graph: ServedGraph, found: Neighborhood) -> GraphAnswer:
    nodes = tuple(node for node, _ in sorted(found.nodes.values(), key=lambda n: (n[1], n[0].node_id)))
    return GraphAnswer(nodes, found.edges, found.facts, (), tuple(neighborhood_lines(graph, found)))


def _merge(parts: Sequence[GraphAnswer], k: int | None, *, by_time: bool) -> GraphAnswer:
    """Returns the answers of several scopes as one."""
    if len(parts) == 1:
        return parts[0]
    lines = [line for part in parts for line in part.lines]
    if k is not None:
        lines = sorted(lines, key=lambda x: -x.score)[:k]
    if by_time:
        lines.sort(key=lambda x: x.time or dt.date.max)
    return GraphAnswer(
        tuple(n for p in parts for n in p.nodes),
        tuple(e for p in parts for e in p.edges),
        tuple(f for p in parts for f in p.facts),
        tuple(path for p in parts for path in p.paths),
        tuple(lines),
        tuple(dict.fromkeys(n for p in parts for n in p.names)),
    )
