"""Topics of a scope that gather nearly the same memories, and that may be one."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from palimpsest.consolidation.scope_memories import ScopeMemories
from palimpsest.store.graph_decisions import GraphDecision
from palimpsest.store.proposals import Proposal

SIMILAR_TOPICS = "similar topics"
MIN_SHARED = 4
"""Latest memories that two topics share."""
MIN_OVERLAP = 0.6
"""Share of the memories of either that both have. In the demo the two nearest have .53: a hall and its bath."""


def similar_topics(scope: ScopeMemories, decided: frozenset[tuple[str, str]]) -> Iterator[Proposal]:
    """Yields a proposal for each two topics of a scope with nearly the same latest memories, the larger topic first.

    Args:
        scope: the scope.
        decided: pairs of ids of nodes that people decided about, each ascending.
    """
    labels = dict(scope.tables["topics"].select("topic_id", "label").iter_rows())
    latest = {m.memory_id for m in scope.latest}
    members: dict[str, set[str]] = defaultdict(set)
    for topic, memory in scope.tables["topic_memories"].select("topic_id", "memory_id").iter_rows():
        if memory in latest and topic in labels:
            members[topic].add(memory)
    for pair in combinations(sorted(members), 2):
        shared = members[pair[0]] & members[pair[1]]
        overlap = len(shared) / len(members[pair[0]] | members[pair[1]])
        if len(shared) < MIN_SHARED or overlap < MIN_OVERLAP or pair in decided or not scope.is_looked_at(*shared):
            continue
        keep, other = sorted(pair, key=lambda t: (-len(members[t]), t))
        yield Proposal(
            "connection",
            SIMILAR_TOPICS,
            scope.scope,
            tuple(sorted(shared)[:MIN_SHARED]),
            f"{labels[keep]} and {labels[other]} may be one topic: {len(shared)} memories are in both",
            round(overlap, 2),
            names=(keep, other),
        )


def merge_decision(proposal: Proposal) -> GraphDecision | None:
    """Returns the decision by which two similar topics become one node; None for any other proposal."""
    if proposal.why != SIMILAR_TOPICS or len(proposal.names) != 2:
        return None
    return GraphDecision("merge_nodes", proposal.scope, *proposal.names)
