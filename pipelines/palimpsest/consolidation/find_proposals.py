"""All proposals of a build: each scope by itself, each proposal a function of the memories that it names."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from palimpsest.consolidation.confidence import confidence_changes
from palimpsest.consolidation.connections import shared_names, similar_names
from palimpsest.consolidation.contradictions import contradictions
from palimpsest.consolidation.duplicates import duplicates
from palimpsest.consolidation.lm.lm_findings import Group, LmFindings, ReadGroups, groups_of
from palimpsest.consolidation.model_conflicts import Pair, Reading, labelled_pairs, pairs_without_order, read_conflicts
from palimpsest.consolidation.patterns import notes
from palimpsest.consolidation.pruning import PruneSettings, Pruning, Reads
from palimpsest.consolidation.scope_memories import ScopeMemories, Window, scopes_of
from palimpsest.consolidation.similar_topics import similar_topics
from palimpsest.core.scopes import ScopeKey
from palimpsest.store.consolidation_config import ConsolidationConfig
from palimpsest.store.proposals import Proposal

MAX_PAIRS_READ = 400
"""Pairs that are read in one run: those that a build thought possible, then the most similar without an order."""

Vectors = Callable[[Sequence[str]], np.ndarray]
"""From ids of memories: their unit vectors, one a row."""


@dataclass(frozen=True)
class Consolidation:
    """What proposals are found in.

    Attributes:
        tables: `scope_memories.TABLES` of a build.
        settings: of each collection that is consolidated, by name.
        vectors: of the memories.
        reads: when memories were results of a search.
        now: the time.
        everything: whether every memory is looked at, and not only what came in and a sample.
        decided: pairs of ids of names and nodes that people decided about, each ascending.
        read_groups: reads groups of memories with a language model; None where no collection lets it.
    """

    tables: Mapping[str, pl.DataFrame]
    settings: Mapping[str, ConsolidationConfig]
    vectors: Vectors
    reads: Reads
    now: dt.datetime
    everything: bool = False
    decided: frozenset[tuple[str, str]] = frozenset()
    read_groups: ReadGroups | None = None

    @cached_property
    def scopes(self) -> tuple[ScopeMemories, ...]:
        """The scopes, ascending."""
        windows = {
            name: Window(
                self.everything, self.now - dt.timedelta(hours=c.window_hours), c.sample, f"{self.now:%Y-%m-%d}"
            )
            for name, c in self.settings.items()
        }
        return tuple(scopes_of(self.tables, windows))


@dataclass(frozen=True)
class Found:
    """What a run found.

    Attributes:
        proposals: of all scopes, by id.
        by_model: what a language model proposed of them, and what was paid.
    """

    proposals: Sequence[Proposal]
    by_model: LmFindings


def find_proposals(work: Consolidation) -> Found:
    """Returns the proposals of all scopes; of two with one id the one by rules."""
    pairs = _likely_pairs(work)
    readings = _read_pairs(pairs)
    by_model = work.read_groups(model_groups(work, pairs)) if work.read_groups else LmFindings()
    found = {p.proposal_id: p for listed in by_model.proposals.values() for p in reversed(listed)}
    for scope in work.scopes:
        found |= {p.proposal_id: p for p in _of_scope(work, scope, readings.get(scope.scope, ()))}
    return Found([found[i] for i in sorted(found)], by_model)


def model_groups(work: Consolidation, pairs: Sequence[tuple[ScopeKey, Pair]] | None = None) -> list[Group]:
    """Returns the groups of memories that a language model reads, of the collections that let it.

    Args:
        work: the memories.
        pairs: of all scopes, where they are known.
    """
    likely = _likely_pairs(work) if pairs is None else pairs
    return groups_of(p for p in likely if work.settings[p[0][0]].read_by != "rules")


def _of_scope(work: Consolidation, scope: ScopeMemories, read: Sequence[Reading]) -> Iterator[Proposal]:
    config = work.settings[scope.scope[0]]
    conflicts = contradictions(scope, read)
    yield from conflicts
    yield from duplicates(scope)
    yield from Pruning(scope, work.reads, PruneSettings(work.now, config.unread_days, config.replaced_days)).proposals()
    yield from confidence_changes(scope, conflicts)
    yield from shared_names(scope)
    yield from similar_names(scope, work.decided)
    yield from similar_topics(scope, work.decided)
    yield from notes(scope)


def _likely_pairs(work: Consolidation) -> list[tuple[ScopeKey, Pair]]:
    """Returns the pairs of all scopes that are worth reading: those that a build read first, then the most similar."""
    pairs: list[tuple[ScopeKey, Pair]] = []
    for scope in work.scopes:
        pairs += [(scope.scope, pair) for pair in labelled_pairs(scope)]
        if scope.latest and scope.looked_at:
            vectors = work.vectors([m.memory_id for m in scope.latest])
            found = pairs_without_order(scope, work.tables["documents"], vectors)
            pairs += [(scope.scope, pair) for pair in found]
    return sorted(pairs, key=lambda x: (not x[1].conflict, -x[1].score, x[1].first.memory_id, x[1].second.memory_id))


def _read_pairs(pairs: Sequence[tuple[ScopeKey, Pair]]) -> Mapping[ScopeKey, Sequence[Reading]]:
    """Returns the conflicts of all scopes, by scope: those that the build found, and those of the pairs read now."""
    unread = [p for p in pairs if not p[1].is_found][:MAX_PAIRS_READ]
    chosen = [*(p for p in pairs if p[1].is_found), *unread]
    scope_of = {(p.first.memory_id, p.second.memory_id): key for key, p in chosen}
    found: dict[ScopeKey, list[Reading]] = {}
    for reading in read_conflicts([p for _, p in chosen]):
        key = scope_of[reading.pair.first.memory_id, reading.pair.second.memory_id]
        found.setdefault(key, []).append(reading)
    return found
