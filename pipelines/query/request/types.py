"""What the query path takes and gives: scopes, filters, memories, seeds and links."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Scope(NamedTuple):
    """The isolation boundary: nothing that a query reads lies outside it.

    `project_id` is "" for what belongs to no project: the user's general memory.
    """

    collection: str
    user_id: str
    project_id: str = ""


@dataclass(frozen=True)
class Filters:
    """What narrows a scope. Without `as_of` and `history` only latest memories are candidates.

    Attributes:
        session: session_id to stay in.
        type: memory type.
        tag: a tag the memory must bear.
        since: earliest observed_at, included.
        until: latest observed_at, included; a memory without observed_at fails both.
        as_of: moment whose knowledge is asked for: valid_from <= as_of < valid_until, null valid_from always was.
        now: what is not yet valid at this moment, or no longer, is no candidate; without `as_of`.
        history: every version is a candidate.
        clock: the real time; a memory whose retention ended by then is no candidate, whatever else is asked.
        include_hidden: memories that are not user_visible are candidates too.
        include_pii: memories that hold personal data are candidates too.
    """

    session: str | None = None
    type: str | None = None
    tag: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    as_of: dt.datetime | None = None
    now: dt.datetime | None = None
    history: bool = False
    clock: dt.datetime | None = None
    include_hidden: bool = False
    include_pii: bool = False

    @property
    def moment(self) -> float | None:
        """The moment that is asked about, in seconds since 1970; None where it is none in particular."""
        asked = self.now or self.as_of
        return asked.timestamp() if asked else None


@dataclass(frozen=True)
class Memory:
    """A memory as an index stores it, with its version and where it came from."""

    memory_id: str
    collection: str
    user_id: str
    text: str
    type: str = "document"
    unit: str = "chunk"
    project_id: str = ""
    session_id: str | None = None
    document_id: str | None = None
    ordinal: int | None = None
    title: str | None = None
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
    confidence: float | None = None
    importance: float | None = None
    kind: str | None = None
    confidence_source: str | None = None
    importance_source: str | None = None
    tags: tuple[str, ...] = ()
    token_count: int = 0
    uri: str | None = None
    document_title: str | None = None
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """Char span in the document's text."""
        return None if self.char_start is None or self.char_end is None else (self.char_start, self.char_end)


@dataclass(frozen=True)
class NewerText:
    """A newer memory that may replace another, though no labeler was sure of it.

    Attributes:
        memory_id: of the newer memory.
        text: of the newer memory.
        observed_at: when the newer memory was observed; None where that is unknown.
        relation_id: of the pair; `palimpsest confirm` retires the older memory, `undo` ends the doubt.
    """

    memory_id: str
    text: str
    observed_at: dt.datetime | None
    relation_id: str


@dataclass(frozen=True)
class RankedMemory(Memory):
    """A memory with its place in an answer.

    Attributes:
        score: what the ranking sorts by; comparable within one answer only.
        vector_score: cosine of the query and the memory's best window.
        words_score: BM25 sum over the query's terms.
        graph_score: what reached it over links, 0 for a seed that no link reached.
        hops: links between the nearest seed and this memory; 0 for a seed.
        why: one line for people, with `explain`.
        path: the links that led to it, from the nearest seed on, with `explain`.
        time_score: with `explain`, how well its times fit the one asked about, 0 to 1; None where none was.
        may_be_outdated: a newer memory of the same scope and filters that may contradict it; None where none does.
    """

    score: float = 0.0
    vector_score: float = 0.0
    words_score: float = 0.0
    graph_score: float = 0.0
    hops: int = 0
    why: str = ""
    path: tuple["Link", ...] = ()
    time_score: float | None = None
    may_be_outdated: NewerText | None = None


class Moments(NamedTuple):
    """Mean and standard deviation of a score over every candidate of the scope."""

    mean: float = 0.0
    std: float = 0.0


_NO_SCORES = Moments()


@dataclass(frozen=True)
class Seeds:
    """Candidates of one scope, with both scores each, and the moments of both over all candidates.

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
    vector_moments: Moments = _NO_SCORES
    words_moments: Moments = _NO_SCORES


class Link(NamedTuple):
    """A way from one memory to another inside a scope; weight in 0..1."""

    source: str
    target: str
    kind: str
    weight: float
    via: str = ""


@dataclass(frozen=True)
class CollectionInfo:
    """What a build says of a collection; `weights` are those of the composite that its settings give."""

    name: str
    default: bool = False
    user_id: str | None = None
    strategy: str = "hybrid"
    weights: Mapping[str, float] = field(default_factory=dict)
