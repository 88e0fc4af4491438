"""Consolidates a home: finds proposals in its published build, and keeps what people decided of earlier ones."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from palimpsest.consolidation.find_proposals import Consolidation, find_proposals
from palimpsest.consolidation.pruning import Reads
from palimpsest.consolidation.scope_memories import TABLES
from palimpsest.core.errors import PalimpsestError
from palimpsest.memories.vector_store import memory_vectors
from palimpsest.store.builds import Build, published
from palimpsest.store.consolidation_config import ConsolidationConfig
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, last_run, read_proposals, record_run, write_proposals
from palimpsest.store.usage_log import first_read, reads_of


@dataclass(frozen=True)
class ConsolidationResult:
    """What a run found.

    Attributes:
        build_id: of the published build that it read.
        proposals: the open ones, by id.
        new: how many of them are new.
        expired: how many open ones no longer hold.
        everything: whether every memory was looked at.
    """

    build_id: str
    proposals: Sequence[Proposal]
    new: int
    expired: int
    everything: bool


def consolidate(
    home: Home, *, everything: bool = False, only: Collection[str] = (), now: dt.datetime | None = None
) -> ConsolidationResult:
    """Finds proposals in the published build and adds them to those of the home.

    Args:
        home: the home.
        everything: look at every memory; the first run of a home does in any case.
        only: names of collections; none means all.
        now: the time; None reads the clock.

    Raises:
        PalimpsestError: nothing is published, or a collection is not.
    """
    now = now or dt.datetime.now(dt.UTC)
    with home.lock():
        build = published_build(home)
        if unknown := sorted(set(only) - set(build.collections)):
            raise PalimpsestError(
                f"--collection {unknown[0]}: not published; the home has {', '.join(build.collections)}"
            )
        settings = {n: c for n, c in consolidation_settings(build).items() if not only or n in only}
        everything = everything or not last_run(home.path)
        work = _work(home, build, settings, now, everything)
        known = settled(read_proposals(home.path), build)
        found = find_proposals(work)
        looked_at = frozenset(i for scope in work.scopes for i in scope.looked_at)
        merged = _merge(known, found, looked_at, _latest(work.tables), now)
        write_proposals(home.path, merged.values())
        if not only:
            record_run(home.path, now.isoformat(timespec="seconds"))
    opened = [p for p in merged.values() if p.state == "open" and (not only or p.scope[0] in only)]
    before = {i for i, p in known.items() if p.state == "open"}
    expired = sum(1 for i, p in merged.items() if p.state == "expired" and i in before)
    return ConsolidationResult(
        build.build_id, opened, len({p.proposal_id for p in opened} - before), expired, everything
    )


def published_build(home: Home) -> Build:
    """Returns the build that readers see.

    Raises:
        PalimpsestError: there is none.
    """
    if (build := published(home)) is None:
        raise PalimpsestError(f"home {home.path}: nothing is published; run palimpsest build --home {home.path}")
    return build


def consolidation_settings(build: Build) -> dict[str, ConsolidationConfig]:
    """Returns the settings of each collection, as they took effect in a build."""
    configs = {name: build.config_of(name) for name in build.collections}
    return {name: config.consolidation if config else ConsolidationConfig() for name, config in configs.items()}


def settled(proposals: Mapping[str, Proposal], build: Build) -> dict[str, Proposal]:
    """Returns proposals, those that were confirmed before the build was made as applied."""
    return {
        i: replace(p, state="applied") if p.state == "confirmed" and p.decided_build < build.build_id else p
        for i, p in proposals.items()
    }


def _work(
    home: Home, build: Build, settings: Mapping[str, ConsolidationConfig], now: dt.datetime, everything: bool
) -> Consolidation:
    tables = build.tables((*TABLES, "embed_inputs"))

    def vectors(ids: Sequence[str]) -> np.ndarray:
        wanted = pl.DataFrame({"memory_id": list(ids)}, schema={"memory_id": pl.String})
        embedded = tables["embed_inputs"].join(wanted, on="memory_id", how="semi")
        return memory_vectors(home, wanted, embedded)

    last = {i: time for i, (_, time) in reads_of(home.path, set(tables["memories"]["memory_id"])).items()}
    reads, apart = Reads(last, first_read(home.path)), read_decisions(home.decisions).apart
    return Consolidation(tables, settings, vectors, reads, now, everything, apart)


def _latest(tables: Mapping[str, pl.DataFrame]) -> frozenset[str]:
    return frozenset(tables["versions"].filter("is_latest")["memory_id"])


def _merge(
    known: Mapping[str, Proposal],
    found: Iterable[Proposal],
    looked_at: frozenset[str],
    latest: frozenset[str],
    now: dt.datetime,
) -> dict[str, Proposal]:
    """Returns all proposals by id: what was decided stays, what no longer holds is expired.

    An open proposal no longer holds when a memory that it is about was looked at and it is not found again, or when
    that is not latest any more.
    """
    at = now.isoformat(timespec="seconds")
    new = {p.proposal_id: p for p in found}
    merged: dict[str, Proposal] = {}
    for i, before in known.items():
        again = new.pop(i, None)
        is_gone = before.memory_ids[0] not in latest and before.kind != "prune"
        about = before.memory_ids[:1] if before.kind in ("prune", "confidence") else before.memory_ids
        is_checked = is_gone or not looked_at.isdisjoint(about)
        if again is not None and before.state in ("open", "expired"):
            created = before.created_at if before.state == "open" else at
            merged[i] = replace(again, created_at=created, refused_at=before.refused_at)
        elif before.state == "open" and is_checked:
            merged[i] = before.decided("expired", at)
        else:
            merged[i] = before
    return dict(sorted((merged | {i: replace(p, created_at=at) for i, p in new.items()}).items()))
