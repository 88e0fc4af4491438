"""The memories that may answer a question about the graph, and how well each fits it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from palimpsest.query.embed_query import embed_query
from palimpsest.query.graph.question_names import Anchor, QuestionNames
from palimpsest.query.ranking.rank import rank
from palimpsest.query.request.graph_types import Fact
from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_query import resolve_query
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.terms import query_terms, terms

CANDIDATES = 150  # of each of the two searches
MAX_MEMBERS = 400  # of the nodes of one name
_TITLE_SHARE = 0.7  # of a word that is only in the title, the heading or the name of the source


@dataclass(frozen=True)
class Evidence:
    """Memories of one scope with what a question needs of them.

    Attributes:
        names: what the question is about.
        memories: by id.
        fit: how well each fits the words of the question, 0 to 1.
        members: the memories of each node that the question names, by node id.
        facts: the facts of those nodes, by the id of each memory that states them.
        nodes: the nodes of each memory.
    """

    names: QuestionNames
    memories: Mapping[str, Memory]
    fit: Mapping[str, float]
    members: Mapping[str, frozenset[str]]
    facts: Mapping[str, Sequence[Fact]]
    nodes: Mapping[str, Sequence[str]]

    @cached_property
    def terms(self) -> dict[str, frozenset[str]]:
        """The search terms of the text of each memory."""
        return {i: frozenset(terms(f"{m.speaker or ''} {m.text}")) for i, m in self.memories.items()}

    @cached_property
    def title_terms(self) -> dict[str, frozenset[str]]:
        """The search terms of the titles, heading and uri of each memory."""
        return {
            i: frozenset(terms(" ".join(filter(None, (m.title, m.heading, m.document_title, m.uri)))))
            for i, m in self.memories.items()
        }

    @cached_property
    def rarity(self) -> dict[str, float]:
        """How rare each term is among these memories, 0 to 1."""
        counts: dict[str, int] = {}
        for of_memory in self.terms.values():
            for term in of_memory:
                counts[term] = counts.get(term, 0) + 1
        scale = math.log(len(self.terms) + 1) or 1.0
        return {term: math.log((len(self.terms) + 1) / n) / scale for term, n in counts.items()}

    def coverage(self, memory_id: str, anchor: Anchor) -> float:
        """Returns how far a memory speaks of an anchor, 0 to 1: it names its node, or has its words."""
        if any(memory_id in self.members.get(node, ()) for node in anchor.node_ids):
            return 1.0
        if not anchor.terms:
            return 0.0
        text, title = self.terms[memory_id], self.title_terms[memory_id]
        weights = {t: 0.1 + self.rarity.get(t, 1.0) for t in anchor.terms}
        found = sum(w * (1.0 if t in text else _TITLE_SHARE if t in title else 0.0) for t, w in weights.items())
        return found / sum(weights.values())


def gather_evidence(served: ServedScope, graph: ServedGraph | None, question: str, names: QuestionNames) -> Evidence:
    """Returns the memories that fit a question, or name what it is about, with what is known of each.

    Args:
        served: the scope, with the versions that count.
        graph: its graph; None where it has none.
        question: the question.
        names: what it is about.
    """
    ids = sorted({i for anchor in names.anchors for i in anchor.node_ids})
    members = {n: frozenset(found) for n, found in graph.members_of(ids).items()} if graph and ids else {}
    fit = _fits(served, [question, names.text])
    named = [i for of_node in members.values() for i in sorted(of_node)[:MAX_MEMBERS] if i not in fit]
    memories = served.memories([*fit, *sorted(set(named))])
    facts: dict[str, list[Fact]] = {}
    for fact in graph.facts_of(ids) if graph and ids else []:
        for memory_id in fact.memory_ids:
            facts.setdefault(memory_id, []).append(fact)
    nodes = graph.nodes_of_memories(sorted(memories)) if graph else {}
    return Evidence(names, memories, fit, members, facts, nodes)


def _fits(served: ServedScope, texts: Sequence[str]) -> dict[str, float]:
    """Returns the mean over texts of the score of each memory in a search, as a share of the best one's."""
    fits: dict[str, float] = {}
    for text in texts:
        query = resolve_query(served, text, embed_query(text, served.space), query_terms(text), "auto")
        ranked = rank(query, 1, CANDIDATES)
        best = max((c.score for c in ranked), default=0.0)
        for candidate in ranked[: 2 * CANDIDATES] if best > 0 else ():
            share = max(candidate.score, 0.0) / best / len(texts)
            fits[candidate.memory_id] = fits.get(candidate.memory_id, 0.0) + share
    return fits
