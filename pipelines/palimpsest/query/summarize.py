"""Extractive summaries of sessions, and of the sessions of a scope, level by level.

A summary is a function of the latest memories that may be shown, and is made when it is read: nothing of it is stored,
so that it changes with its originals and goes with them.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import REFLECTION, JsonRecord
from palimpsest.query.request.types import Memory, Scope, cited_line, one_line
from palimpsest.query.request.where import Condition, Value, Where
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.terms import summary_sentences

MAX_SENTENCES = 50
"""Sentences of a summary."""

_MAX_SESSIONS = 200  # whose summaries are summed up, the newest
_MAX_MEMORIES = 1_000  # of a session, the last
_MAX_MEMORIES_OF_SCOPE = 20_000  # the last
_NO_SESSION = ""


@dataclass(frozen=True)
class SummarySentence:
    """A sentence of a memory.

    Attributes:
        text: the sentence.
        speaker: who said it; None where nobody is named.
        memory_id: the memory.
        time: when it was observed.
        scope: of the memory.
    """

    text: str
    speaker: str | None
    memory_id: str
    time: dt.datetime | None
    scope: Scope

    @property
    def cited(self) -> str:
        """The sentence with its day, who said it, and its citation."""
        return cited_line(one_line(self.text), [self.memory_id], self.time, self.speaker)


@dataclass(frozen=True)
class Summary(JsonRecord):
    """The sentences that sum up some memories, in their order.

    Attributes:
        sentences: each with its memory.
        memories: how many were read.
        sessions: how many sessions they are of.
    """

    sentences: tuple[SummarySentence, ...]
    memories: int
    sessions: int


def summarize_session(scopes: Sequence[ServedScope], session_id: str, n: int) -> Summary:
    """Returns the sentences that sum up a session.

    Raises:
        ArgumentError: no memory of the session may be shown, or `n` is out of range.
    """
    _check(n)
    read = [m for served in scopes for m in _read(served, session_id)]
    if not read:
        raise ArgumentError("session", "no memory of this session may be shown in this scope", session_id[:100])
    return Summary(tuple(_summed_up(_sentences(read), n)), len(read), 1)


def summarize_sources(scopes: Sequence[ServedScope], uris: Sequence[str], n: int) -> Summary:
    """Returns the sentences that sum up some sources, by their uris.

    Raises:
        ArgumentError: `n` is out of range.
    """
    _check(n)
    of_sources = Where("sources", Condition("uri", "in", tuple(Value("text", uri, uri) for uri in uris)))
    filtered = [ServedScope(s.backend, s.scope, replace(s.filters, where=of_sources)) for s in scopes]
    read = [m for served in filtered for m in _read(served, None)]
    return Summary(tuple(_summed_up(_sentences(read), n)), len(read), len({m.session_id for m in read}))


def summarize_scope(scopes: Sequence[ServedScope], n: int) -> Summary:
    """Returns the sentences that sum up the sessions of some scopes: of each session first, then of all of these.

    Memories without a session count as one.

    Raises:
        ArgumentError: `n` is out of range.
    """
    _check(n)
    below: list[SummarySentence] = []
    memories = sessions = 0
    for served in scopes:
        by_session: dict[str, list[Memory]] = {}
        for memory in _read(served, None):
            by_session.setdefault(memory.session_id or _NO_SESSION, []).append(memory)
        newest = list(by_session.values())[-_MAX_SESSIONS:]
        sessions, memories = sessions + len(newest), memories + sum(map(len, newest))
        below += [s for of_session in newest for s in _summed_up(_sentences(of_session[-_MAX_MEMORIES:]), n)]
    return Summary(tuple(_summed_up(below, n)), memories, sessions)


def _check(n: int) -> None:
    if not 1 <= n <= MAX_SENTENCES:
        raise ArgumentError("sentences", f"must be 1 to {MAX_SENTENCES}", str(n))


def _read(served: ServedScope, session_id: str | None) -> list[Memory]:
    """Returns the memories that may be shown, of a session or of all, in their order.

    Formed memories are left out: they repeat what the others state.
    """
    if (view := served.view()) is None:
        return []
    filters = replace(served.filters, session=session_id) if session_id is not None else served.filters
    rows = np.flatnonzero(view.allowed(filters))
    observed = np.nan_to_num(view.priors().observed[rows], nan=-np.inf)
    limit = _MAX_MEMORIES if session_id is not None else _MAX_MEMORIES_OF_SCOPE
    newest = rows[np.argsort(observed, kind="stable")][-limit:]
    found = served.memories([str(i) for i in view.ids[newest]])
    return sorted((m for m in found.values() if m.unit != REFLECTION), key=_place)


def _place(memory: Memory) -> tuple[float, str, int, str]:
    time = memory.observed_at.timestamp() if memory.observed_at else float("-inf")
    return time, memory.document_id or "", memory.ordinal or 0, memory.memory_id


def _sentences(memories: Sequence[Memory]) -> list[SummarySentence]:
    return [
        SummarySentence(" ".join(m.text[a:b].split()), m.speaker, m.memory_id, m.observed_at, _scope_of(m))
        for m in memories
        for a, b in memory_sentence_spans(m.text) or [(0, len(m.text))]
    ]


def _scope_of(memory: Memory) -> Scope:
    return Scope(memory.collection, memory.user_id, memory.project_id)


def _summed_up(sentences: Sequence[SummarySentence], n: int) -> list[SummarySentence]:
    return [sentences[i] for i in summary_sentences([s.text for s in sentences], n)]
