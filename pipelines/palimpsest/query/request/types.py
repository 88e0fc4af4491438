"""The values of the query path: scopes, filters, memories, seeds and links."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypedDict, get_type_hints

import numpy as np

from palimpsest.core.ids import JsonRecord
from palimpsest.core.times import on_own_clock
from palimpsest.memories.vector_space import Space
from palimpsest.query.request.where import Kind, Where


class Scope(NamedTuple):
    """The isolation boundary: a query reads nothing outside it.

    `project_id` is "" for memories without a project: the user's general memory.
    """

    collection: str
    user_id: str
    project_id: str = ""


@dataclass(frozen=True)
class Filters:
    """What narrows a scope. Without `as_of` and `history` only latest memories are candidates.

    Attributes:
        session: session_id to stay in.
        types: memory types, any of them; empty means every type.
        tags: tags, any of which the memory must have; empty means no tag is needed.
        since: earliest observed_at, included; without an offset, it is a time of each speaker's own clock.
        until: latest observed_at, included, as `since`; a memory without observed_at fails both.
        as_of: time whose knowledge is requested: valid_from <= as_of < valid_until; a null valid_from is always before.
        now: only what is valid at this time is a candidate; without `as_of`.
        history: every version is a candidate.
        clock: the real time; a memory whose retention ended by then is never a candidate.
        include_hidden: memories that are not user_visible are candidates too.
        include_pii: memories with personal data are candidates too.
        where: what the fields of a memory must satisfy.
        accessed: ids of the memories that are candidates; None means all.
    """

    session: str | None = None
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    as_of: dt.datetime | None = None
    now: dt.datetime | None = None
    history: bool = False
    clock: dt.datetime | None = None
    include_hidden: bool = False
    include_pii: bool = False
    where: Where | None = None
    accessed: frozenset[str] | None = None

    @property
    def stored(self) -> "Filters":
        """The filters that a store applies: `where` and `accessed` are masks over its rows."""
        return replace(self, where=None, accessed=None) if self.where or self.accessed is not None else self

    @property
    def query_time(self) -> float | None:
        """The time the query is about, `now` or `as_of`, in seconds since 1970; None where neither is given."""
        time = self.now or self.as_of
        return time.timestamp() if time else None


class Shown(TypedDict, total=False):
    """What is read besides what anybody may see.

    Keys:
        include_hidden: what is marked `user_visible: false`, or only states what such memories do.
        include_pii: the same of what is marked `pii: true`: personal data.
    """

    include_hidden: bool
    include_pii: bool


_INNER = {"inner": True}
"""Marks a field of a memory that its JSON form does not have, or has in a form of its own."""


@dataclass(frozen=True)
class Memory:
    """A memory as an index stores it, with its version and its source; `observed_at` has the offset of its speaker.

    What stores read of a memory, what is JSON of it and the schema of that are made of these fields.
    """

    memory_id: str
    collection: str
    user_id: str
    text: str
    type: str = "document"
    unit: str = field(default="chunk", metadata=_INNER)
    project_id: str = ""
    session_id: str | None = None
    document_id: str | None = field(default=None, metadata=_INNER)
    ordinal: int | None = field(default=None, metadata=_INNER)
    title: str | None = field(default=None, metadata=_INNER)
    heading: str | None = None
    page: int | None = None
    speaker: str | None = None
    char_start: int | None = None
    char_end: int | None = None
    observed_at: dt.datetime | None = None
    valid_from: dt.datetime | None = None
    valid_until: dt.datetime | None = None
    is_latest: bool = True
    superseded_by: str | None = None
    confidence: float | None = field(default=None, metadata=_INNER)
    importance: float | None = field(default=None, metadata=_INNER)
    kind: str | None = field(default=None, metadata=_INNER)
    confidence_source: str | None = field(default=None, metadata=_INNER)
    importance_source: str | None = field(default=None, metadata=_INNER)
    tags: tuple[str, ...] = ()
    language: str | None = None
    token_count: int = field(default=0, metadata=_INNER)
    uri: str | None = None
    document_title: str | None = None
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """Char span in the document's text."""
        return None if self.char_start is None or self.char_end is None else (self.char_start, self.char_end)


STORED_FIELDS = (*Memory.__dataclass_fields__, "utc_offset")
"""What a store has of a memory: its fields, and the offset of the clock that `observed_at` was stated by."""


def stored_memory(fields: Mapping[str, Any]) -> Memory:
    """Returns a memory from what a store has of it, with the time it was observed on its speaker's own clock."""
    said, offset = fields.get("observed_at"), fields.get("utc_offset")
    own = {name: on_own_clock(said, offset) for name in ("observed_at", "valid_from") if said == fields.get(name)}
    return Memory(**{name: value for name, value in (*fields.items(), *own.items()) if name != "utc_offset"})


def time_fields(kind: type) -> tuple[str, ...]:
    """Returns the fields of a class that are times."""
    return tuple(name for name, value in get_type_hints(kind).items() if value == dt.datetime | None)


MEMORY_TIMES = time_fields(Memory)
"""Fields of a memory that are times: each store returns them in a type of its own."""


@dataclass(frozen=True)
class NewerText(JsonRecord):
    """A newer memory about the same as another.

    Attributes:
        memory_id: of the newer memory.
        text: of the newer memory.
        observed_at: when the newer memory was observed; None where that is unknown.
        relation_id: of the pair; a person may confirm or undo it. Empty where nothing is to be decided.
        why: `uncertain` (it may end the other, or contradicts it), `low trust` (it would replace the other, but its
            source is trusted less), `part` (it ends a part of the other), `later` (it was said later about the same).
        likelihood: probability that it ends the other or a part of it; None where nothing estimated it.
        part: spans of the other's stored text that it is about; none where that is all of it.
    """

    memory_id: str
    text: str
    observed_at: dt.datetime | None
    relation_id: str
    why: str
    likelihood: float | None = None
    part: tuple[tuple[int, int], ...] = ()


LAST_GOOD = "last good version"
OF_LAST_GOOD = f"{LAST_GOOD} of an unreadable source"
"""What a memory is whose source cannot be read now, in the words of all lists, answers and messages."""


@dataclass(frozen=True)
class PremiseText:
    """An older memory that another follows from.

    Attributes:
        memory_id: of the premise.
        text: of the premise.
        observed_at: when the premise was observed; None where that is unknown.
        is_latest: False where the premise was retired since.
        relation_id: of the pair; `palimpsest undo` takes it.
    """

    memory_id: str
    text: str
    observed_at: dt.datetime | None
    is_latest: bool
    relation_id: str


@dataclass(frozen=True)
class ShownMemory(Memory):
    """A memory as it is shown.

    Attributes:
        kept: where a newer memory ended a part, the spans of the stored text of which `text` is made; else none.
        disputed_by: the newest memory of the same scope and filters that may have ended it or contradicts it, or None;
            in results it ranks above, unless it may itself be wrong (`low trust`, or a static conflict).
        later: other newer memories about the same: what ended a part, and what may have changed it, newest first.
        source_unreadable: its source cannot be read now, and this is of the last version that could be.
        is_pending: it was sent and is in no build yet; its id stays the same.
    """

    kept: tuple[tuple[int, int], ...] = field(default=(), metadata=_INNER)
    disputed_by: NewerText | None = field(default=None, metadata=_INNER)
    later: tuple[NewerText, ...] = field(default=(), metadata=_INNER)
    source_unreadable: bool = False
    is_pending: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether `text` is without a part that a newer memory ended."""
        return bool(self.kept)


@dataclass(frozen=True)
class RankedMemory(ShownMemory):
    """A memory with its rank and scores in an answer.

    Attributes:
        score: the ranking sorts by it; comparable within one answer only. Where a reranker read the memories, they are
            sorted by the sum of the z-scores of both.
        vector_score: cosine of the query and the memory's best window.
        words_score: BM25 sum over the query's terms.
        graph_score: contribution of links, 0 for a seed that no link reached.
        hops: links between the nearest seed and this memory; 0 for a seed.
        why: one line for people, with `explain`.
        path: the links that led to it, from the nearest seed on, with `explain`.
        time_score: with `explain`, how well its times fit the period of the question, 0 to 1; None without one.
        premises: with `explain`, the memories it follows from that the filters do not leave out, oldest first.
        rerank_score: of the reranker, on a scale of its own; None where none read it.
        repeats: ids of results that say the same and are left out for it, best first.
        relevance: probability that it is evidence for the question, as far as the scores show.
    """

    score: float = 0.0
    vector_score: float = 0.0
    words_score: float = 0.0
    graph_score: float = 0.0
    hops: int = 0
    why: str = ""
    path: tuple["Link", ...] = field(default=(), metadata=_INNER)
    time_score: float | None = field(default=None, metadata=_INNER)
    premises: tuple[PremiseText, ...] = field(default=(), metadata=_INNER)
    rerank_score: float | None = field(default=None, metadata=_INNER)
    relevance: float = 1.0
    repeats: tuple[str, ...] = ()


def json_fields(kind: type[Memory]) -> dict[str, type]:
    """Returns the fields of a kind of memory that its JSON form has as they are, with their types."""
    types = get_type_hints(kind)
    return {f.name: types[f.name] for f in fields(kind) if not f.metadata}


class ScoreStats(NamedTuple):
    """Mean and standard deviation of a score over every candidate of a scope."""

    mean: float = 0.0
    std: float = 0.0


_NO_STATS = ScoreStats()


@dataclass(frozen=True)
class Seeds:
    """Candidates of one scope, with both scores each, and the statistics of both over all candidates.

    Attributes:
        ids: memory ids, ascending.
        vector: cosines, shape (n,) float64.
        words: BM25 sums, shape (n,) float64; 0 where no term occurs.
        candidates: how many memories of the scope passed the filters.
    """

    ids: list[str] = field(default_factory=list)
    vector: np.ndarray = field(default_factory=lambda: np.zeros(0))
    words: np.ndarray = field(default_factory=lambda: np.zeros(0))
    candidates: int = 0
    vector_stats: ScoreStats = _NO_STATS
    words_stats: ScoreStats = _NO_STATS


class Link(NamedTuple):
    """A link from one memory to another inside a scope; weight in 0..1, `via` the name of what they share."""

    source: str
    target: str
    kind: str
    weight: float
    via: str = ""


@dataclass(frozen=True)
class CollectionInfo:
    """What a build records of a collection.

    `weights` are those of the composite that its settings give; `fields` has the fields of its metadata_schema, with
    the kinds of their values; `space` is that of its vectors, None means MiniLM's; `has_formed`
    says whether memories are formed from its conversations.
    """

    name: str
    default: bool = False
    user_id: str | None = None
    strategy: str = "hybrid"
    weights: Mapping[str, float] = field(default_factory=dict)
    fields: Mapping[str, Sequence[Kind]] = field(default_factory=dict)
    space: Space | None = None
    has_formed: bool = False


# Stored texts on one line of an answer, with their day and citations; nothing in them passes for a citation.

_MAX_QUOTED = 400  # characters of a newer memory
_HIDDEN = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Returns a text without what a reader or a terminal does not show: control characters, marks of direction."""
    return _HIDDEN.sub("", text)


def one_line(text: str) -> str:
    """Returns a stored text on one line, in which nothing passes for a citation and nothing is hidden."""
    return " ".join(visible(text).replace("[memory:", "(memory:").split())


def cited_line(text: str, memory_ids: Iterable[str], time: dt.datetime | None, speaker: str | None = None) -> str:
    """Returns a text after its day and speaker, where these are known, and before its citations.

    Args:
        text: on one line already, such as from `one_line`.
        memory_ids: the memories that state it.
        time: when it was observed.
        speaker: who says it.
    """
    day = f"{time.date().isoformat()}  " if time else ""
    return f"{day}{f'{one_line(speaker)}: ' if speaker else ''}{text} {' '.join(f'[memory:{i}]' for i in memory_ids)}"


def shorten_text(text: str, max_chars: int) -> str:
    """Returns a text on one line, shortened where it is longer than `max_chars` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "\u2026"


def changed_line(text: str, disputed_by: NewerText | None, later: Iterable[NewerText] = ()) -> str:
    """Returns a text with what disputes it and what was said later about the same, each with its citation.

    Args:
        text: on one line already.
        disputed_by: the newest memory that disputes it.
        later: others.
    """
    newer = [("disputed by", disputed_by), *(("later", n) for n in later)]
    return " ".join([text, *(f"({word} {_newer_text(by)})" for word, by in newer if by is not None)])


def _newer_text(by: NewerText) -> str:
    day = by.observed_at.date().isoformat() if by.observed_at else "undated"
    return f"[memory:{by.memory_id}], {day}: “{one_line(shorten_text(by.text, _MAX_QUOTED))}”"


# The graph of a scope: nodes, edges between them, and facts.


@dataclass(frozen=True)
class Node(JsonRecord):
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

    json_names, json_decimals = {"node_id": "id"}, 6

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
class Edge(JsonRecord):
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

    json_names, json_decimals = {"source_id": "source", "target_id": "target"}, 6

    source_id: str
    target_id: str
    type: str
    weight: float | None = None
    provenance: str | None = None
    memory_ids: tuple[str, ...] = ()
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None


@dataclass(frozen=True)
class Fact(JsonRecord):
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

    json_names, json_decimals = {"subject_id": "subject", "object_id": "object"}, 6

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


NODE_TIMES, FACT_TIMES = time_fields(Node), time_fields(Fact)
"""Fields of nodes, as of edges, and of facts that are times: each store returns them in a type of its own."""
