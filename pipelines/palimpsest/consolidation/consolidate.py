"""Consolidates a home: finds proposals in its published build, and keeps what people decided of earlier ones."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from palimpsest.consolidation.decide import finish_confirmed
from palimpsest.consolidation.find_proposals import (
    Consolidation,
    Reads,
    find_proposals,
    model_groups,
    published_build,
    settled,
)
from palimpsest.consolidation.lm_findings import estimate_groups, read_groups
from palimpsest.consolidation.scope_memories import TABLES
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import ScopeKey
from palimpsest.memories.embedders import memory_vectors
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import ConsolidationConfig
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Kind, Proposal, last_run, read_proposals, record_run, write_proposals
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
        calls, cost: of a language model, made now.
        unread: groups of memories that it gave no answer to.
    """

    build_id: str
    proposals: Sequence[Proposal]
    new: int
    expired: int
    everything: bool
    calls: int = 0
    cost: float = 0.0
    unread: int = 0


def consolidate(
    home: Home,
    *,
    everything: bool = False,
    only: Collection[str] = (),
    scopes: frozenset[ScopeKey] | None = None,
    now: dt.datetime | None = None,
    max_cost: float | None = None,
) -> ConsolidationResult:
    """Finds proposals in the published build and adds them to those of the home.

    Args:
        home: the home.
        everything: look at every memory; the first run of a home does in any case.
        only: names of collections; none means all.
        scopes: look at every memory of these alone, by rules alone; None means all scopes.
        now: the time; None reads the clock.
        max_cost: the most that a language model may cost; None means no limit.

    Raises:
        PalimpsestError: nothing is published, a collection is not, or a collection wants a model and none is set.
        ComponentFailed: most answers of the model cannot be read; the proposals stay as they are.
    """
    now = now or dt.datetime.now(dt.UTC)
    with home.lock():
        build = published_build(home)
        finish_confirmed(home, build)
        work = _work(home, build, _settings(build, only), now, everything or scopes is not None, max_cost, scopes)
        everything = work.everything
        known = settled(read_proposals(home.path), build)
        done = find_proposals(work)
        found = done.proposals
        looked_at = frozenset(i for scope in work.scopes for i in scope.looked_at)
        merged = _merge(known, found, looked_at, _latest(work.tables), now)
        write_proposals(home.path, merged.values())
        if not only and scopes is None:
            record_run(home.path, now.isoformat(timespec="seconds"))
    mine = {i: p for i, p in merged.items() if scopes is None or p.scope in scopes}
    opened = [p for p in mine.values() if p.state == "open" and (not only or p.scope[0] in only)]
    before = {i for i, p in known.items() if p.state == "open"}
    expired = sum(1 for i, p in mine.items() if p.state == "expired" and i in before)
    new = len({p.proposal_id for p in opened} - before)
    run = done.by_model.run
    return ConsolidationResult(build.build_id, opened, new, expired, everything, run.calls, run.cost, len(run.open))


def estimate(
    home: Home, *, everything: bool = False, only: Collection[str] = (), now: dt.datetime | None = None
) -> tuple[int, float]:
    """Returns (calls, cost): the calls of a language model that `consolidate` would make, and the most they can cost.

    Raises:
        PalimpsestError: as of `consolidate`.
    """
    build = published_build(home)
    work = _work(home, build, _settings(build, only), now or dt.datetime.now(dt.UTC), everything, None)
    return estimate_groups(home, model_groups(work)) if work.read_groups else (0, 0.0)


def _settings(build: Build, only: Collection[str]) -> dict[str, ConsolidationConfig]:
    """Returns the settings of the collections that are consolidated.

    Raises:
        PalimpsestError: one is not published.
    """
    if unknown := sorted(set(only) - set(build.collections)):
        raise PalimpsestError(f"--collection {unknown[0]}: not published; the home has {', '.join(build.collections)}")
    return {n: c for n, c in consolidation_settings(build).items() if not only or n in only}


def consolidation_settings(build: Build) -> dict[str, ConsolidationConfig]:
    """Returns the settings of each collection, as they took effect in a build."""
    configs = {name: build.config_of(name) for name in build.collections}
    return {name: config.consolidation if config else ConsolidationConfig() for name, config in configs.items()}


def _work(
    home: Home,
    build: Build,
    settings: Mapping[str, ConsolidationConfig],
    now: dt.datetime,
    everything: bool,
    max_cost: float | None,
    scopes: frozenset[ScopeKey] | None = None,
) -> Consolidation:
    """Returns what proposals are found in; a home's first run looks at everything."""
    tables = build.tables((*TABLES, "embed_inputs"))

    def vectors(ids: Sequence[str]) -> np.ndarray:
        wanted = pl.DataFrame({"memory_id": list(ids)}, schema={"memory_id": pl.String})
        embedded = tables["embed_inputs"].join(wanted, on="memory_id", how="semi")
        return memory_vectors(home, wanted, embedded)

    last = {i: time for i, (_, time) in reads_of(home.path, set(tables["memories"]["memory_id"])).items()}
    reads, decided = Reads(last, first_read(home.path)), read_decisions(home.decisions).paired
    everything = everything or not last_run(home.path)
    reads_groups = scopes is None and any(c.read_by != "rules" for c in settings.values())
    read = partial(read_groups, home, max_cost=max_cost) if reads_groups else None
    return Consolidation(tables, settings, vectors, reads, now, everything, decided, read, scopes)


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
    that is not latest any more. What a model found is not found again in other company: it holds while all of its
    memories are latest, and rules alone do not take its place.
    """
    at = now.isoformat(timespec="seconds")
    new = {p.proposal_id: p for p in found}
    merged: dict[str, Proposal] = {}
    for i, before in known.items():
        again = new.pop(i, None)
        is_gone = before.memory_ids[0] not in latest and before.kind != "prune"
        about = before.memory_ids[:1] if before.kind in ("prune", "confidence") else before.memory_ids
        is_checked = is_gone or not looked_at.isdisjoint(about)
        if before.found_by == "lm":
            is_checked = not latest.issuperset(before.memory_ids)
        is_kept = before.found_by == "lm" and before.state == "open" and not is_checked
        if again is not None and before.state in ("open", "expired") and (again.found_by == "lm" or not is_kept):
            created = before.created_at if before.state == "open" else at
            merged[i] = replace(again, created_at=created, refused_at=before.refused_at)
        elif before.state == "open" and is_checked:
            merged[i] = before.decided("expired", at)
        else:
            merged[i] = before
    return dict(sorted((merged | {i: replace(p, created_at=at) for i, p in new.items()}).items()))


# Proposals in the order in which a person should look at them, with the texts of their memories.

_WORTH: tuple[Kind, ...] = ("contradiction", "duplicate", "connection", "note", "prune", "confidence")


def by_worth(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Returns proposals by what a decision is worth: wrong answers before repetitions, small corrections last.

    The surest of each kind comes first; those about the same memories are adjacent.
    """
    return sorted(proposals, key=lambda p: (_WORTH.index(p.kind), -p.confidence, sorted(p.memory_ids), p.proposal_id))


def kinds_text(proposals: Iterable[Proposal]) -> str:
    """Returns how many proposals there are of each kind, such as `3 contradiction, 1 duplicate`."""
    found = Counter(p.kind for p in proposals)
    return ", ".join(f"{found[kind]:,} {kind}" for kind in _WORTH if found[kind])


def proposal_texts(home: Home, proposals: Sequence[Proposal]) -> dict[str, str]:
    """Returns the texts of the memories that proposals rest on, by id, as the published build has them."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for proposal in proposals:
        wanted[proposal.scope[0]].update(proposal.memory_ids)
    build = published_build(home)
    texts: dict[str, str] = {}
    for collection, ids in sorted(wanted.items()):
        found = build.table(collection, "memories").filter(pl.col("memory_id").is_in(sorted(ids)))
        texts |= dict(found.select("memory_id", "text").iter_rows())
    return texts
