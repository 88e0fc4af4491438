"""What people decide of proposals. A confirmed one is a line of `decisions.jsonl`: the next build applies it."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from palimpsest.consolidation.find_proposals import merge_decision, published_build, settled
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.memories.recency import is_newer, recency_columns
from palimpsest.relations.labelers.label_pairs import relation_id
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.versions import UPDATE
from palimpsest.store.builds import Build
from palimpsest.store.decisions import (
    MemoryDecision,
    RelationOverride,
    append_decisions,
    append_made,
    append_overrides,
    append_undone,
    append_withdrawn,
    names_target,
)
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, State, read_proposals, write_proposals
from palimpsest.store.tables import completed

PERSON, SETTING = "person", "setting"
_LIST = "palimpsest consolidate review lists proposals"


def confirm(home: Home, ids: Iterable[str], keep: str = "", by: str = PERSON) -> list[Proposal]:
    """Applies proposals from the next build on; all or none.

    A contradiction in order of time becomes an UPDATE, or an EXTEND where both may be right. Otherwise the memory that
    is not kept is retired by the other one. What is pruned is no longer served. A connection of two names or topics
    makes them one; other connections and notes are kept as confirmed, and change no build.

    Args:
        home: the home.
        ids: of open proposals.
        keep: the memory that stays, of a contradiction that does not say it, or says the other.
        by: who decides.

    Raises:
        PalimpsestError: there is no such proposal, it is not open, or it does not say which memory stays.
    """
    with home.lock():
        build = published_build(home)
        finish_confirmed(home, build)
        return _confirm(home, build, list(ids), keep, by)


def finish_confirmed(home: Home, build: Build) -> None:
    """Confirms the rest of what a process was confirming when it was killed.

    The next build applies what that had decided: its proposals must say so, or nobody could take it back.
    """
    if (started := read_json(_started_path(home), "remove it")) is None:
        return
    known = settled(read_proposals(home.path), build)
    memory_ids = set(build.tables(["memories"])["memories"]["memory_id"])
    left = [known[i] for i in started["ids"] if i in known and known[i].state == "open"]
    ids = [p.proposal_id for p in left if memory_ids.issuperset(p.memory_ids)]
    _confirm(home, build, ids, started["keep"], started["by"])


def _confirm(home: Home, build: Build, ids: Iterable[str], keep: str, by: str) -> list[Proposal]:
    """Confirms proposals of a home whose lock this process has, as `confirm` does."""
    newer = _order(build)
    known = settled(read_proposals(home.path), build)
    chosen = [_with_sides(p, keep) for p in _named(known, ids, ("open",))]
    _check_memories(build, chosen)
    relations = _relations(build, chosen)
    write_json(_started_path(home), {"ids": [p.proposal_id for p in chosen], "keep": keep, "by": by})
    for proposal in chosen:
        _apply(home, proposal, relations, newer)
    decided = _write(home, known, chosen, "confirmed", build, by)
    _started_path(home).unlink()
    return decided


def _started_path(home: Home) -> Path:
    """Returns the file of what is being confirmed; it exists until decisions and states of proposals agree."""
    return home.path / "consolidation" / "confirming.json"


def reject(home: Home, ids: Iterable[str]) -> list[Proposal]:
    """Closes proposals for good: the same memories are not proposed for it again, nor disputed by a build.

    Raises:
        PalimpsestError: there is no such proposal, or it is not open.
    """
    with home.lock():
        build = published_build(home)
        finish_confirmed(home, build)
        known = settled(read_proposals(home.path), build)
        chosen = _named(known, ids, ("open",))
        disputes = [r for r in _relations(build, chosen).values() if r["consequence"] == DISPUTED]
        overrides = (RelationOverride(r["relation_id"], r["newer_id"], r["older_id"], r["label"]) for r in disputes)
        if disputes:
            append_overrides(home.decisions, "undo", *overrides)
        return _write(home, known, chosen, "rejected", build, PERSON)


def undo(home: Home, ids: Iterable[str]) -> list[Proposal]:
    """Takes back what was decided of proposals: they are open again, and the next build is as if it never was.

    Only a person confirms them from then on.

    Raises:
        PalimpsestError: there is no such proposal, or nothing was decided of it.
    """
    with home.lock():
        build = published_build(home)
        finish_confirmed(home, build)
        known = settled(read_proposals(home.path), build)
        chosen = _named(known, ids, ("confirmed", "applied", "rejected"))
        for proposal in chosen:
            if proposal.state != "rejected" or proposal.kind == "contradiction":
                _take_back(home, proposal)
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return _write(home, known, [replace(p, refused_at=now) for p in chosen], "open", None, "")


def refuse(home: Home, ids: Iterable[str], at: str) -> None:
    """Records that a trial refused open proposals: only a person confirms them from then on."""
    with home.lock():
        known = read_proposals(home.path)
        chosen = {i: replace(known[i], refused_at=at) for i in ids}
        write_proposals(home.path, (known | chosen).values())


def needs_person(proposal: Proposal) -> bool:
    """Returns whether only a person can say what a proposal means, or it was refused by a trial."""
    return bool(proposal.refused_at) or (_needs_side(proposal, "") and proposal.keep not in proposal.memory_ids)


def _needs_side(proposal: Proposal, keep: str) -> bool:
    return proposal.kind == "contradiction" and (proposal.why != "conditional" or bool(keep))


def _named(known: Mapping[str, Proposal], ids: Iterable[str], states: Sequence[State]) -> list[Proposal]:
    found = []
    for i in dict.fromkeys(ids):
        if (proposal := known.get(i)) is None:
            raise PalimpsestError(f"{i[:40]}: no such proposal; {_LIST}; nothing is decided")
        if proposal.state not in states:
            raise PalimpsestError(f"{i}: it is {proposal.state}, not {' or '.join(states)}; nothing is decided")
        found.append(proposal)
    return found


def _with_sides(proposal: Proposal, keep: str) -> Proposal:
    """Returns a proposal with the memory that stays and the one that goes, where a person must say it.

    Raises:
        PalimpsestError: nobody says which one stays.
    """
    if not _needs_side(proposal, keep):
        return proposal
    keep = keep or proposal.keep
    if keep not in proposal.memory_ids:
        ids = " or ".join(proposal.memory_ids)
        raise PalimpsestError(f"{proposal.proposal_id}: name the memory that stays, --keep {ids}; nothing is decided")
    drop = next(i for i in proposal.memory_ids if i != keep)
    return proposal.decided("open", keep=keep, drop=drop)


def _check_memories(build: Build, proposals: Iterable[Proposal]) -> None:
    ids = set(build.tables(["memories"])["memories"]["memory_id"])
    for proposal in proposals:
        if not ids.issuperset(proposal.memory_ids):
            raise PalimpsestError(f"{proposal.proposal_id}: a memory of it is gone; run palimpsest consolidate again")


_Relation = Mapping[str, str]
_IsNewer = Callable[[str, str], bool]


def _order(build: Build) -> _IsNewer:
    """Returns a function that says whether one memory is known to be newer than another."""
    tables = build.tables(["memories", "documents"])
    state = recency_columns(tables["memories"], tables["documents"])

    def newer(a: str, b: str) -> bool:
        one, other = (
            state.filter(pl.col("memory_id") == i).select(pl.all().name.suffix(suffix))
            for i, suffix in ((a, "_newer"), (b, "_older"))
        )
        return bool(one.join(other, how="cross").select(found=is_newer("_newer", "_older"))["found"].any())

    return newer


def _relations(build: Build, proposals: Iterable[Proposal]) -> dict[str, _Relation]:
    """Returns the relations of a build between the memories of contradictions, in both orders, by id."""
    pairs = [p.memory_ids for p in proposals if p.kind == "contradiction"]
    if not pairs:
        return {}
    wanted = [relation_id(*ids) for one, other in pairs for ids in ((one, other), (other, one))]
    relations = completed("relations", build.tables(["relations"])["relations"])
    return {r["relation_id"]: r for r in relations.filter(pl.col("relation_id").is_in(wanted)).to_dicts()}


def _apply(home: Home, proposal: Proposal, relations: Mapping[str, _Relation], newer: _IsNewer) -> None:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    if override := _override(proposal, newer):
        found = relations.get(override.relation_id) if override.label == UPDATE else None
        stated = proposal.part if override.label == UPDATE and override.older_id == proposal.memory_ids[0] else ""
        append_overrides(home.decisions, "confirm", replace(override, part=stated or (found and found["part"]) or ""))
    elif decision := _memory_decision(proposal, now) or merge_decision(proposal):
        append_made(home.decisions, decision)
    elif proposal.names:
        append_decisions(home.decisions, "same", [names_target(*proposal.names)])


def _override(proposal: Proposal, newer: _IsNewer) -> RelationOverride | None:
    """Returns the label of a pair in order of time that a confirmed contradiction means; None for any other."""
    if proposal.kind != "contradiction":
        return None
    first, second = proposal.memory_ids
    if proposal.drop:
        is_update = newer(proposal.keep, proposal.drop)
        first, second, label = (proposal.drop, proposal.keep, UPDATE) if is_update else ("", "", "")
    else:
        label = "EXTEND" if newer(second, first) else ""
    return RelationOverride(relation_id(second, first), second, first, label) if label else None


def _memory_decision(proposal: Proposal, now: str) -> MemoryDecision | None:
    i = proposal.proposal_id
    if proposal.kind == "prune":
        return MemoryDecision(i, "prune", proposal.drop, at=now, scope=proposal.scope)
    if proposal.kind == "confidence":
        memory_id = proposal.memory_ids[0]
        return MemoryDecision(i, "confidence", memory_id, value=proposal.value, at=now, scope=proposal.scope)
    if proposal.kind in ("contradiction", "duplicate") and proposal.drop:
        return MemoryDecision(i, "retire", proposal.drop, proposal.keep, at=now, scope=proposal.scope)
    return None


def _take_back(home: Home, proposal: Proposal) -> None:
    """Writes the lines that take back whatever `_apply` wrote; a line about nothing that was decided does nothing."""
    if proposal.kind == "contradiction":
        for newer, older in (proposal.memory_ids, proposal.memory_ids[::-1]):
            append_withdrawn(home.decisions, RelationOverride(relation_id(newer, older), newer, older, ""))
    if decision := _memory_decision(proposal, "") or merge_decision(proposal):
        append_undone(home.decisions, decision)
    elif proposal.names:
        append_decisions(home.decisions, "undecided", [names_target(*proposal.names)])


def _write(
    home: Home, known: Mapping[str, Proposal], chosen: Iterable[Proposal], state: State, build: Build | None, by: str
) -> list[Proposal]:
    at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds") if by else ""
    decided = [p.decided(state, at, build.build_id if build else "", by) for p in chosen]
    write_proposals(home.path, (dict(known) | {p.proposal_id: p for p in decided}).values())
    return decided
