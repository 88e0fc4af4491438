"""The values of the graph of a scope: nodes, edges between them, and facts."""

import datetime as dt
from dataclasses import dataclass

NODE_TIMES = ("created_at", "updated_at")
"""Fields of nodes and edges that are times."""

FACT_TIMES = ("valid_from", "valid_until")
"""Fields of facts that are times."""


@dataclass(frozen=True)
class Node:
    """An entity, a topic, or what is formed from them, as the graph shows it.

    Attributes:
        node_id: of the entity or topic where it is one.
        type: person, organisation, place, product, project, event, category, topic, concept, date ...
        name: as most texts write it.
        description: one sentence or two, of its own texts; None where there is none.
        aliases: other names.
        importance: 0 to 1.
        memory_count: memories that name it or belong to it.
        created_at: when the first of those was first read.
        updated_at: when any of those last changed.
        metadata: a JSON object, or None.
        access_count: how often its memories were results of a search, as far back as reads are kept; None where no
            reads are counted, or the answer is about no node.
    """

    node_id: str
    type: str
    name: str
    description: str | None = None
    aliases: tuple[str, ...] = ()
    importance: float | None = None
    memory_count: int = 0
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    metadata: str | None = None
    access_count: int | None = None


STORED_NODE_FIELDS = tuple(name for name in Node.__dataclass_fields__ if name != "access_count")
"""Fields of nodes that a build has."""


@dataclass(frozen=True)
class Edge:
    """An edge from one node to another: at most one of a type.

    Attributes:
        source_id: the node it leads from.
        target_id: the node it leads to.
        type: subtopic_of, related_to, part_of, depends_on, precedes ...
        weight: 0 to 1, or None.
        provenance: what made it.
        memory_ids: the memories that show it, ascending; none where it follows from the nodes' memories alone.
        created_at: when it was first made.
        updated_at: when it last changed.
    """

    source_id: str
    target_id: str
    type: str
    weight: float | None = None
    provenance: str | None = None
    memory_ids: tuple[str, ...] = ()
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None


@dataclass(frozen=True)
class Fact:
    """What memories state of a node: a predicate, and another node or a value.

    Attributes:
        fact_id: of the fact.
        subject_id: the node that it is about.
        predicate: a word or a few.
        object_id: the other node; None where it has a value.
        value: as the text has it; None where it has another node.
        is_negated: whether it is stated not to be so.
        modality: how it is stated: planned, wished ...; None where it is stated plainly.
        valid_from: from when it is valid; None where that is unknown.
        valid_until: until when; None where it is still valid.
        is_latest: whether a memory that states it is latest.
        memory_ids: the memories that state it, ascending.
        confidence: 0 to 1.
    """

    fact_id: str
    subject_id: str
    predicate: str
    object_id: str | None = None
    value: str | None = None
    is_negated: bool = False
    modality: str | None = None
    valid_from: dt.datetime | None = None
    valid_until: dt.datetime | None = None
    is_latest: bool = True
    memory_ids: tuple[str, ...] = ()
    confidence: float | None = None

    @property
    def ends(self) -> tuple[str, ...]:
        """Its subject, and its object where that is a node."""
        return (self.subject_id, self.object_id) if self.object_id else (self.subject_id,)
