"""The graph of a scope as a query shows it: without what only memories state that the filters leave out."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from palimpsest.query.request.types import Edge, Fact, Node
from palimpsest.query.request.where import Condition, Where
from palimpsest.query.scope.graph_reads import Ends, GraphScope, NamedTogether
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.scope.view import METADATA, FieldColumn, satisfied
from palimpsest.store.graph_decisions import PROPERTIES
from palimpsest.text.terms import name_words

_ALL = 2**31 - 1


@dataclass(frozen=True)
class ServedGraph:
    """The nodes, edges and facts of a scope behind the filters of a query.

    A fact is shown where a memory that states it passes, with those memories alone; a node where a memory of it passes
    or it has none; an edge where both ends are shown and a memory that shows it passes or it has none. Of a node with a
    memory that is left out, only names in its other memories are shown, and no description.

    Attributes:
        served: the scope and its filters: `history` where superseded memories count too.
        graph: the graph of the scope.
    """

    served: ServedScope
    graph: GraphScope

    @classmethod
    def of(cls, served: ServedScope) -> "ServedGraph | None":
        """Returns the graph of a scope; None where the build has no memory of it."""
        graph = served.backend.graph(served.scope)
        return None if graph is None else cls(served, graph)

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Returns the visible nodes among `ids`, by id, with how many visible memories each has."""
        found = self.graph.nodes(ids)
        if not self._may_conceal or not found:
            return found
        members = self.graph.members_of(sorted(found))
        passing = self.served.passing(sorted({m for of_node in members.values() for m in of_node}))
        shown = {}
        for node_id, node in found.items():
            mine = set(members.get(node_id, ()))
            if mine <= passing:
                shown[node_id] = node
            elif visible := self._without_concealed(node, sorted(mine & passing)):
                shown[node_id] = visible
        return shown

    def visible_ids(self) -> list[str]:
        """Returns the ids of all visible nodes, most important first, ties to the lower id."""
        ids = self.graph.nodes_of_type((), _ALL)
        if not self._may_conceal or not ids:
            return ids
        members = self.graph.members_of(ids)
        passing = self._passing(members.values())
        in_part = [i for i in ids if not passing.issuperset(members.get(i, ()))]
        left_out = set(in_part) - self.nodes(in_part).keys()
        return [i for i in ids if i not in left_out]

    def named(self, names: Sequence[str], *, by_word: bool = False) -> dict[str, list[str]]:
        """Returns the ids of visible nodes by the `name_words` of a name, or by one word of it."""
        found = self.graph.nodes_with_word(names) if by_word else self.graph.nodes_named(names)
        if not self._may_conceal or not found:
            return found
        shown = self.nodes(sorted({i for ids in found.values() for i in ids}))
        return {name: kept for name, ids in found.items() if (kept := _with_name(name, ids, shown, by_word))}

    def edges_of(self, node_ids: Sequence[str], types: Sequence[str] = (), *, within: bool = False) -> list[Edge]:
        """Returns the visible edges from or to any of some nodes; see GraphScope."""
        edges = self.graph.edges_of(node_ids, types, within=within)
        if not self._may_conceal or not edges:
            return edges
        shown = self.nodes(sorted({i for e in edges for i in (e.source_id, e.target_id)}))
        passing = self._passing(e.memory_ids for e in edges)
        return [
            replace(e, memory_ids=tuple(m for m in e.memory_ids if m in passing))
            for e in edges
            if {e.source_id, e.target_id} <= shown.keys() and (not e.memory_ids or not passing.isdisjoint(e.memory_ids))
        ]

    def facts_of(self, node_ids: Sequence[str], *, within: bool = False) -> list[Fact]:
        """Returns the visible facts of any of some nodes; see GraphScope."""
        return self._visible_facts(self.graph.facts_of(node_ids, within=within))

    def facts_of_memories(self, memory_ids: Sequence[str]) -> list[Fact]:
        """Returns the visible facts that any of some memories states."""
        return self._visible_facts(self.graph.facts_of_memories(memory_ids))

    def members_of(self, node_ids: Sequence[str]) -> dict[str, Mapping[str, float]]:
        """Returns the visible memories of each node, with their relevance."""
        members = self.graph.members_of(node_ids)
        passing = self._passing(members.values()) if members else set()
        return {node: {m: r for m, r in found.items() if m in passing} for node, found in members.items()}

    def nodes_of_memories(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns the nodes that each visible memory names or belongs to."""
        return self.graph.nodes_of_memories(sorted(self.served.passing(memory_ids)))

    def links_of(self, node_ids: Sequence[str], types: Sequence[str] = ()) -> tuple[list[Ends], list[Ends]]:
        """Returns the ends of the visible edges and facts of some nodes; see GraphScope."""
        if not self._may_conceal:
            return self.graph.links_of(node_ids, types)
        edges = [(e.source_id, e.target_id) for e in self.edges_of(node_ids, types)]
        stated = [f for f in self.facts_of(node_ids) if not types or f.predicate in types]
        facts = [(f.subject_id, f.object_id) for f in stated if f.object_id]
        return list(dict.fromkeys(edges)), list(dict.fromkeys(facts))

    def named_together(self, node_ids: Sequence[str], n: int, memories: int) -> list[NamedTogether]:
        """Returns for each of some nodes the `n` nodes that most of its visible memories name too; see GraphScope."""
        if not self._may_conceal:
            return self.graph.named_together(node_ids, n, memories)
        members = self.members_of(node_ids)
        of_memory = self.nodes_of_memories(sorted({m for found in members.values() for m in found}))
        together = []
        for node_id, found in sorted(members.items()):
            shared: dict[str, list[str]] = {}
            for memory_id in sorted(found):
                for other in of_memory.get(memory_id, ()):
                    if other != node_id:
                        shared.setdefault(other, []).append(memory_id)
            for other, ids in sorted(shared.items(), key=lambda kept: (-len(kept[1]), kept[0]))[:n]:
                together.append(NamedTogether((node_id, other), len(ids) / len(found), tuple(ids[:memories])))
        return together

    def node_cosines(self, vector: np.ndarray, ids: Sequence[str]) -> dict[str, float]:
        """See GraphScope."""
        return self.graph.node_cosines(vector, ids)

    @cached_property
    def _may_conceal(self) -> bool:
        return self.served.may_conceal() or not self.served.filters.history

    def _visible_facts(self, facts: Sequence[Fact]) -> list[Fact]:
        if not self._may_conceal or not facts:
            return list(facts)
        passing = self._passing(f.memory_ids for f in facts)
        shown = self.nodes(sorted({i for f in facts for i in f.ends}))
        kept = [replace(f, memory_ids=tuple(m for m in f.memory_ids if m in passing)) for f in facts]
        return [f for f in kept if f.memory_ids and shown.keys() >= set(f.ends)]

    def _passing(self, memory_ids: Iterable[Iterable[str]]) -> set[str]:
        return self.served.passing(sorted({m for ids in memory_ids for m in ids}))

    def _without_concealed(self, node: Node, visible_ids: Sequence[str]) -> Node | None:
        """Returns a node as its visible memories show it; None where none of them has any of its names."""
        texts = [f"{m.title or ''} {m.speaker or ''} {m.text}" for m in self.served.memories(visible_ids).values()]
        words = [f" {name_words(text)} " for text in texts]
        names = [n for n in (node.name, *node.aliases) if any(f" {name_words(n)} " in text for text in words)]
        if not visible_ids or not (names or node.type == "category"):
            return None
        name, *aliases = names or [node.name]
        return replace(
            node,
            name=name,
            aliases=tuple(aliases),
            description=None,
            metadata=None,
            memory_count=len(visible_ids),
            created_at=None,
            updated_at=None,
        )


def _with_name(name: str, ids: Sequence[str], shown: Mapping[str, Node], by_word: bool) -> list[str]:
    """Returns those of some nodes that are shown under a name."""
    names = {i: [name_words(n) for n in (shown[i].name, *shown[i].aliases)] for i in ids if i in shown}
    return [i for i, known in names.items() if any(name in n.split() if by_word else name == n for n in known)]


# Filters nodes by type, fields and metadata, the same over every backend.

_TEXTS, _NUMBERS, _TIMES = ("name", "type", "description"), ("importance", "memory_count"), ("created_at", "updated_at")
NODE_FIELDS = (*_TEXTS, "aliases", *_NUMBERS, *_TIMES)
"""The fields that every node has; any other name is metadata."""

_NUMBER, _TIME, _BOOLEAN = range(3)  # kinds of numbers in a FieldColumn


@dataclass(frozen=True)
class NodeFilter:
    """What nodes must be: of any of some types, none meaning all, and what their fields must satisfy."""

    types: tuple[str, ...] = ()
    where: Where | None = None

    def __bool__(self) -> bool:
        """Whether it can leave a node out."""
        return bool(self.types) or self.where is not None

    def matching(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        """Returns the nodes that satisfy the filter, by id, in their order."""
        kept = {i: node for i, node in nodes.items() if not self.types or node.type in self.types}
        if self.where is None or not kept:
            return kept
        values = [_values(node) for node in kept.values()]

        def of_condition(condition: Condition) -> np.ndarray:
            return _column(condition.field, values).satisfies(condition)

        wanted = satisfied(self.where.expression, of_condition)
        return {i: node for (i, node), is_wanted in zip(kept.items(), wanted.tolist(), strict=True) if is_wanted}


def _values(node: Node) -> dict[str, list[object]]:
    """Returns the values of each field of a node; metadata named like a field of nodes begins with `METADATA`."""
    fields = {name: getattr(node, name) for name in NODE_FIELDS}
    found = {name: list(v) if isinstance(v, tuple) else [v] for name, v in fields.items() if v is not None}
    stated = json.loads(node.metadata or "{}")
    properties = stated.pop(PROPERTIES, {})
    for name, value in (stated | properties).items():
        key = METADATA + name if name in NODE_FIELDS else name
        found[key] = value if isinstance(value, list) else [value]
    return found


def _column(field: str, values: Sequence[Mapping[str, list[object]]]) -> FieldColumn:
    """Returns the values of one field of nodes; what is neither a text, a number, a boolean nor a time is left out."""
    name = field if field.removeprefix(METADATA) in NODE_FIELDS else field.removeprefix(METADATA)
    entries = [(at, value) for at, of_node in enumerate(values) for value in of_node.get(name, ())]
    texts = [(at, value) for at, value in entries if isinstance(value, str)]
    distinct = sorted({value for _, value in texts})
    codes = {value: code for code, value in enumerate(distinct)}
    numbers = [(at, *_number(value)) for at, value in entries if isinstance(value, bool | int | float | dt.datetime)]
    return FieldColumn(
        len(values),
        distinct,
        np.array([codes[value] for _, value in texts], np.int64),
        np.array([at for at, _ in texts], np.int64),
        np.array([number for _, number, _ in numbers], np.float64),
        np.array([at for at, _, _ in numbers], np.int64),
        np.array([kind for _, _, kind in numbers], np.int64),
    )


def _number(value: bool | int | float | dt.datetime) -> tuple[float, int]:
    if isinstance(value, dt.datetime):
        return value.timestamp(), _TIME
    return float(value), _BOOLEAN if isinstance(value, bool) else _NUMBER
