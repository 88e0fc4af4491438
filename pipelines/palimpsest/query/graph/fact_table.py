"""The fact table of a scope: keys such as `ana.works_for`, each with its values and the memories that state them.

A key is a subject and a slot, which is the predicate of a fact. What has the key is found without a search; a text that
is no key is searched for, and the facts of the memories found are shown.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import JsonRecord
from palimpsest.facts.vocabulary import SINGLE_VALUED
from palimpsest.query.context.changes import disputes_of
from palimpsest.query.request.search_request import clean_text
from palimpsest.query.request.types import Fact, NewerText, Node, Scope
from palimpsest.query.scope.served_graph import ServedGraph
from palimpsest.query.scope.served_scope import DISPUTED, ServedScope
from palimpsest.text.terms import name_words, terms

MAX_FACTS = 10_000
"""Facts of an answer."""


FindMemories = Callable[[str], Sequence[str]]
"""From a text: the ids of the memories that fit it best, best first."""


@dataclass(frozen=True)
class KeyedFact(JsonRecord):
    """A line of the fact table.

    Attributes:
        key: subject and slot, `ana.works_for`.
        subject, slot: the name of the node that it is about, and the predicate.
        value: the name of the other node, or the words that the text has.
        is_negated: whether it is stated not to be so.
        confidence: 0 to 1.
        provenance: ids of the memories that state it, ascending.
        scope: of those memories.
        valid_from, valid_until: when it is valid; None where that is unknown, or still so.
        is_latest: whether a memory that states it is latest.
        conflicts: other latest values of a key that has one at a time, ascending.
        disputed_by: the newest memory that disputes one that states it, where all of them are disputed.
    """

    json_decimals = 6

    key: str
    subject: str
    slot: str
    value: str
    is_negated: bool
    confidence: float
    provenance: tuple[str, ...]
    scope: Scope
    valid_from: dt.datetime | None
    valid_until: dt.datetime | None
    is_latest: bool
    conflicts: tuple[str, ...] = ()
    disputed_by: NewerText | None = None


@dataclass(frozen=True)
class FactAnswer(JsonRecord):
    """Facts, and whether a key gave them or a search."""

    facts: tuple[KeyedFact, ...]
    is_direct: bool = True


class FactTable:
    """Looks up facts in the graphs of some scopes; nothing between two of them is joined.

    Args:
        graphs: of each scope.
        find_memories: searches these scopes, for a text that is no key.
    """

    def __init__(self, graphs: Sequence[ServedGraph], find_memories: FindMemories):
        self._graphs, self._find_memories = graphs, find_memories

    @classmethod
    def of(cls, scopes: Sequence[ServedScope], find_memories: FindMemories) -> "FactTable":
        """Returns the fact table of the scopes of which the build has memories."""
        return cls([graph for scope in scopes if (graph := ServedGraph.of(scope)) is not None], find_memories)

    def facts(self, subject: str = "", *, history: bool = False, limit: int = MAX_FACTS) -> FactAnswer:
        """Returns the facts of a subject, or of all, by key; those of the most important nodes where they are too many.

        Args:
            subject: a name or an alias; empty for all.
            history: include facts that only superseded memories state.
            limit: how many, 1 to 10,000.

        Raises:
            ArgumentError: no node that is shown has the name, or `limit` is out of range.
        """
        if not 1 <= limit <= MAX_FACTS:
            raise ArgumentError("limit", f"must be 1 to {MAX_FACTS}", str(limit))
        found: list[KeyedFact] = []
        for graph in self._graphs:
            ids = self._subjects(graph, subject) if subject else graph.graph.nodes_of_type((), limit)
            found += _keyed(graph, [f for f in graph.facts_of(ids) if not subject or f.subject_id in set(ids)])
        if subject and not found and not any(self._subjects(g, subject) for g in self._graphs):
            raise ArgumentError("subject", "no node in this scope has this name; `facts` shows all", subject)
        return FactAnswer(_in_order(found, history)[:limit])

    def get(self, text: str, *, history: bool = False) -> FactAnswer:
        """Returns the facts of a key; of what a search finds where the text is no key.

        Args:
            text: `ana.works_for`, `Ana works for`, a name, or any words.
            history: include facts that only superseded memories state.

        Raises:
            ArgumentError: the text has no words.
        """
        text, found = clean_text(text), list[KeyedFact]()
        for graph in self._graphs:
            found += self._of_key(graph, text)
        if kept := _in_order(found, history):
            return FactAnswer(kept)
        return FactAnswer(self._nearest(text, history), is_direct=False)

    def _of_key(self, graph: ServedGraph, text: str) -> list[KeyedFact]:
        """Returns the facts of the longest name that a text begins with, in the slot that the rest of it names."""
        words = name_words(text.replace("_", " ").replace(".", " ")).split()
        for n in range(len(words), 0, -1):
            if ids := self._subjects(graph, " ".join(words[:n])):
                slot = "_".join(words[n:])
                facts = [f for f in graph.facts_of(ids) if f.subject_id in set(ids)]
                return _keyed(graph, [f for f in facts if not slot or _slot(f) == slot])
        return []

    def _nearest(self, text: str, history: bool) -> tuple[KeyedFact, ...]:
        """Returns the facts of the memories that a search finds, those that share most words with the text first."""
        ids, words = list(self._find_memories(text)), set(terms(text))
        place = {memory_id: n for n, memory_id in enumerate(ids)}
        found = [f for graph in self._graphs for f in _keyed(graph, graph.facts_of_memories(ids))]

        def order(fact: KeyedFact) -> tuple[int, int, str, str]:
            shared = words & set(terms(f"{fact.subject} {fact.slot.replace('_', ' ')} {fact.value}"))
            return (-len(shared), min(place.get(i, len(ids)) for i in fact.provenance), fact.key, fact.value)

        return tuple(sorted((f for f in found if f.is_latest or history), key=order))

    @staticmethod
    def _subjects(graph: ServedGraph, name: str) -> Sequence[str]:
        wanted = name_words(name)
        return graph.named([wanted]).get(wanted, []) if wanted else []


def _keyed(graph: ServedGraph, facts: Sequence[Fact]) -> list[KeyedFact]:
    """Returns facts with their keys and conflicts; what conflicts is looked for among all facts of their subjects."""
    subjects = sorted({f.subject_id for f in facts})
    rivals = [f for f in graph.facts_of(subjects) if f.is_latest and not f.is_negated and _slot(f) in SINGLE_VALUED]
    nodes = graph.nodes(sorted({i for f in (*facts, *rivals) for i in f.ends}))
    values: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for rival in rivals:
        if set(rival.ends) <= nodes.keys() and rival.valid_until is None:
            values[rival.subject_id, _slot(rival)].add(_value(rival, nodes))
    keyed, disputes = [], _disputes(graph.served, facts)
    for fact in (f for f in facts if set(f.ends) <= nodes.keys()):
        others = values.get((fact.subject_id, _slot(fact)), set()) - {_value(fact, nodes)}
        conflicts = tuple(sorted(others)) if fact.is_latest and not fact.is_negated else ()
        by = [disputes[i] for i in fact.memory_ids if i in disputes] if fact.is_latest else []
        is_disputed = bool(by) and len(by) == len(fact.memory_ids)
        newest = max(by, key=_recency) if is_disputed else None
        keyed.append(replace(_line(graph, fact, nodes, conflicts), disputed_by=newest))
    return keyed


def _disputes(served: ServedScope, facts: Sequence[Fact]) -> dict[str, NewerText]:
    """Returns what disputes the memories that state facts, by the id of the disputed one."""
    found = served.all_reasons(sorted({i for f in facts if f.is_latest for i in f.memory_ids}))
    memories = served.memories([i for i, reasons in found.items() if any(r["kind"] == DISPUTED for r in reasons)])
    return disputes_of(served, memories)


def _recency(newer: NewerText) -> tuple[bool, float, str]:
    at = newer.observed_at
    return at is not None, at.timestamp() if at else 0.0, newer.memory_id


def _line(graph: ServedGraph, fact: Fact, nodes: Mapping[str, Node], conflicts: tuple[str, ...]) -> KeyedFact:
    subject = nodes[fact.subject_id].name
    return KeyedFact(
        key=f"{name_words(subject).replace(' ', '_')}.{_slot(fact)}",
        subject=subject,
        slot=_slot(fact),
        value=_value(fact, nodes),
        is_negated=fact.is_negated,
        confidence=fact.confidence or 0.0,
        provenance=fact.memory_ids,
        scope=graph.served.scope,
        valid_from=fact.valid_from,
        valid_until=fact.valid_until,
        is_latest=fact.is_latest,
        conflicts=conflicts,
    )


def _slot(fact: Fact) -> str:
    return "_".join(fact.predicate.split())


def _value(fact: Fact, nodes: Mapping[str, Node]) -> str:
    return nodes[fact.object_id].name if fact.object_id else fact.value or ""


def _in_order(facts: Iterable[KeyedFact], history: bool) -> tuple[KeyedFact, ...]:
    """Returns facts by key, latest and newest first."""
    kept = [f for f in facts if f.is_latest or history]
    time = {f: f.valid_from.timestamp() if f.valid_from else 0.0 for f in kept}
    return tuple(sorted(kept, key=lambda f: (f.key, not f.is_latest, -time[f], f.value, f.provenance)))
