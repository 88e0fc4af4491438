"""Memories that nobody needs any more: expired, replaced long ago, or small talk that was never read."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.store.proposals import Proposal
from palimpsest.text.quantities import quantities
from palimpsest.text.words import content_words

MAX_WORDS = 4
"""Content words of small talk."""
MAX_IMPORTANCE = 0.5
"""Importance from which on a memory is never small talk; one that was stated, by a person or a model, counts always."""
_UNSTATED = ("default", "type")


@dataclass(frozen=True)
class Reads:
    """When memories were results of a search.

    Attributes:
        last: second since 1970 of the last read, by memory id.
        first: second of the first read that the log has; None where it has none.
    """

    last: Mapping[str, int]
    first: int | None


@dataclass(frozen=True)
class PruneSettings:
    """From when on something is old: see `store.consolidation_config`."""

    now: dt.datetime
    unread_days: int
    replaced_days: int


@dataclass(frozen=True)
class Pruning:
    """Finds what may go in one scope."""

    scope: ScopeMemories
    reads: Reads
    settings: PruneSettings

    def proposals(self) -> Iterator[Proposal]:
        """Yields a proposal for each memory that nobody needs; never for one that something rests on."""
        for memory in self.scope.memories.values():
            is_free = memory.memory_id not in self.scope.rested_on and not memory.is_formed
            if is_free and self.scope.is_looked_at(memory.memory_id) and (found := self._reason(memory)):
                why, description, confidence = found
                by = memory.superseded_by or ""
                premises = (memory.memory_id, by) if by in self.scope.memories else (memory.memory_id,)
                yield Proposal("prune", why, self.scope.scope, premises, description, confidence, drop=memory.memory_id)

    def _reason(self, memory: Memory) -> tuple[str, str, float] | None:
        """Returns (why, description, confidence)."""
        until = memory.valid_until
        if memory.is_latest and until is not None and until < self.settings.now:
            return "expired", f"valid until {until:%Y-%m-%d}, and nothing follows it", 0.9
        if not memory.is_latest:
            if until is not None and until < self._ago(self.settings.replaced_days):
                return "replaced", f"replaced since {until:%Y-%m-%d}", 0.8
            return None
        if self._is_unread(memory) and self._is_small_talk(memory):
            return "small talk", f"states nothing, and not read in {self.settings.unread_days} days", 0.7
        return None

    def _ago(self, days: int) -> dt.datetime:
        return self.settings.now - dt.timedelta(days=days)

    def _is_unread(self, memory: Memory) -> bool:
        """Returns whether it was not read in all of the time in which reads were counted and it was there."""
        since = self._ago(self.settings.unread_days)
        came = memory.ingested_at or memory.observed_at
        is_counted = self.reads.first is not None and self.reads.first <= since.timestamp()
        is_old = came is not None and came <= since
        return is_counted and is_old and self.reads.last.get(memory.memory_id, 0) < since.timestamp()

    def _is_small_talk(self, memory: Memory) -> bool:
        if memory.importance > MAX_IMPORTANCE or memory.importance_source not in (*_UNSTATED, None):
            return False
        states = memory.memory_id in self._stating or any(s.fact for s in memory.reading.sentences)
        if states or len(content_words(memory.text)) > MAX_WORDS or any(s.names for s in memory.reading.sentences):
            return False
        return not (
            quantities(memory.text) or any(c.isdigit() for c in memory.text) or memory.memory_id in self._linked
        )

    @cached_property
    def _linked(self) -> frozenset[str]:
        return frozenset(i for pair in self.scope.linked for i in pair)

    @cached_property
    def _stating(self) -> frozenset[str]:
        """Memories that state a fact or name an entity."""
        tables = self.scope.tables
        return frozenset(tables["clause_facts"]["memory_id"]) | frozenset(tables["mentions"]["memory_id"])
