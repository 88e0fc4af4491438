"""What differs between the answers of two builds to one question."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from palimpsest.core.ids import JsonRecord
from palimpsest.query.reader import Reader
from palimpsest.query.request.search_request import SearchOptions
from palimpsest.query.request.types import NewerText, RankedMemory, Scope, ShownMemory

Change = Literal["entered", "left", "moved", "state"]


@dataclass(frozen=True)
class MemoryInBuild(JsonRecord):
    """A memory in one build.

    Attributes:
        rank: its place in the answer, from 1; None where the answer does not have it.
        relevance: probability that it is evidence for the question; None where the answer does not have it.
        is_latest: whether nothing replaced it.
        is_cut: whether a newer memory ended a part of it.
        disputed_by: the newest memory that may have ended it.
        valid_until: when it ended.
        superseded_by: the memory that replaced it.
    """

    rank: int | None
    relevance: float | None
    is_latest: bool
    is_cut: bool
    disputed_by: NewerText | None
    valid_until: datetime | None
    superseded_by: str | None

    @property
    def state(self) -> tuple[bool, bool, str | None, datetime | None, str | None]:
        """What the build says of the memory, whatever the question."""
        disputed_by = self.disputed_by.memory_id if self.disputed_by else None
        return self.is_latest, self.is_cut, disputed_by, self.valid_until, self.superseded_by


@dataclass(frozen=True)
class ComparedMemory(JsonRecord):
    """A memory of either answer.

    Attributes:
        changes: entered or left the answer, moved in rank, or changed its state; none where all is the same.
        before: None where the earlier build does not have it.
        after: None where the later build does not have it.
    """

    memory_id: str
    collection: str
    text: str
    speaker: str | None
    observed_at: datetime | None
    uri: str | None
    changes: tuple[Change, ...]
    before: MemoryInBuild | None
    after: MemoryInBuild | None


@dataclass(frozen=True)
class BuildReader:
    """A build, as far as one caller may read it."""

    reader: Reader
    scopes: Sequence[Scope]

    def answer(self, text: str, options: SearchOptions) -> dict[str, tuple[int, RankedMemory]]:
        """Returns the memories that answer a question by id, with their ranks."""
        found = self.reader.search(text, self.scopes, **options).memories if self.scopes else []
        return {m.memory_id: (rank, m) for rank, m in enumerate(found, 1)}

    def memory(self, memory_id: str) -> ShownMemory | None:
        """Returns a memory, in the answer or not."""
        return self.reader.memory_with_changes(self.scopes, memory_id) if self.scopes else None


def compare_answers(text: str, before: BuildReader, after: BuildReader, options: SearchOptions) -> list[ComparedMemory]:
    """Asks two builds one question.

    Args:
        text: the question.
        before: the earlier build.
        after: the later build.
        options: of both searches.

    Returns:
        The memories of both answers: those of the later one in their order, then those that left in theirs.

    Raises:
        ArgumentError: an option cannot be used.
    """
    old, new = before.answer(text, options), after.answer(text, options)
    return [
        _compared(_placed(memory_id, before, old), _placed(memory_id, after, new))
        for memory_id in dict.fromkeys((*new, *old))
    ]


_Placed = tuple[ShownMemory | None, MemoryInBuild | None]


def _placed(memory_id: str, build: BuildReader, answer: dict[str, tuple[int, RankedMemory]]) -> _Placed:
    """Returns a memory as a build has it, and its place in the answer."""
    rank, ranked = answer.get(memory_id, (None, None))
    found = ranked or build.memory(memory_id)
    if found is None:
        return None, None
    relevance = ranked.relevance if ranked else None
    states = found.is_latest, found.is_cut, found.disputed_by, found.valid_until, found.superseded_by
    return found, MemoryInBuild(rank, relevance, *states)


def _compared(before: _Placed, after: _Placed) -> ComparedMemory:
    (old, was), (new, now) = before, after
    shown = new or old
    assert shown is not None
    fields = shown.memory_id, shown.collection, shown.text, shown.speaker, shown.observed_at, shown.uri
    return ComparedMemory(*fields, _changes(was, now), was, now)


def _changes(was: MemoryInBuild | None, now: MemoryInBuild | None) -> tuple[Change, ...]:
    old, new = was.rank if was else None, now.rank if now else None
    moved: tuple[Change, ...] = ()
    if old != new:
        moved = ("entered",) if old is None else ("left",) if new is None else ("moved",)
    return (*moved, "state") if was and now and was.state != now.state else moved
