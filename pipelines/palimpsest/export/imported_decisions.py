"""Decisions of an export, written to the home where they are about what was imported and nothing else."""

import datetime as dt
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, cast

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, content_id, entity_id
from palimpsest.export import layout
from palimpsest.export.export_user import name_decision_target
from palimpsest.export.read_export import ExportFolder
from palimpsest.store.builds import published
from palimpsest.store.decisions import MEMORY_KINDS, NAME_KINDS, MemoryDecision, MemoryDecisionReader
from palimpsest.store.graph_decisions import GRAPH_KINDS, parse_graph_decision
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, parse_proposal

_LABELS = ("UPDATE", "EXTEND", "DERIVE", "NONE")


def read_decided(
    home: Home, export: ExportFolder, collections: Set[str]
) -> tuple[list[JsonObject], Mapping[str, Proposal]]:
    """Returns the decisions about imported collections, as lines of the decisions file, and the proposals by id.

    Ids are the same where the collection kept its name. A decision about a relation must name memories of the export
    that no other scope of the home has; one about names or the graph must be of a scope of the export.

    Args:
        home: the home.
        export: the export.
        collections: that were made under the name that they have in the export.

    Raises:
        PalimpsestError: a decision or a proposal cannot be read.
    """
    if not collections:
        return [], {}
    memories = _imported_memories(home, export, collections)
    found = _proposals(export, collections, memories)
    proposals = {(p.proposal_id, i): p for p in found for i in p.memory_ids}
    rows: list[JsonObject] = []
    for number, line in enumerate(cast(list[dict[str, Any]], export.read(layout.DECISIONS)), 1):
        try:
            if line["kind"] in MEMORY_KINDS:
                proposal = proposals.get((str(line["target"]), str(line["memory_id"])))
                row = _memory_row(line, proposal) if proposal else None
            else:
                row = _row(line, export.user, collections, memories)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
            raise PalimpsestError(
                f"{layout.DECISIONS}: line {number + 1} is no decision; remove it, or export again"
            ) from None
        rows += [] if row is None else [row]
    return rows, {p.proposal_id: p for p in found}


def _memories_of(home: Home) -> set[str]:
    build = published(home)
    return {i for name in build.collections for i in build.table(name, "memories")["memory_id"]} if build else set()


def _row(line: dict[str, Any], user: str, collections: Set[str], memories: Set[str]) -> JsonObject | None:
    """Returns the line of the decisions file; None where it is not about what was imported."""
    kind, at = line["kind"], str(line["at"])
    if kind in NAME_KINDS:
        collection, owner, project = map(str, line["scope"])
        a, b = map(str, line["names"])
        is_theirs = collection in collections and owner == user
        return (
            {"kind": kind, "at": at, "target": name_decision_target((collection, owner, project), a, b)}
            if is_theirs
            else None
        )
    if kind in GRAPH_KINDS:
        if line["collection"] not in collections or line["user_id"] != user:
            return None
        if kind == "graph":
            return {"at": at, **parse_graph_decision(line).to_row()}
        scope = {name: str(line[name]) for name in ("collection", "user_id", "project_id")}
        return {"kind": kind, "at": at, "target": str(line["target"]), **scope}
    newer, older = line.get("newer_id"), line.get("older_id")
    if newer is None:  # of an older version: the relation alone
        return None
    if not {newer, older} <= memories or (line["label"] not in _LABELS and kind != "withdraw"):
        return None
    target = content_id("relation", newer, older)
    return {"kind": kind, "at": at, "target": target, "newer_id": newer, "older_id": older, "label": line["label"]}


def _memory_row(line: dict[str, Any], proposal: Proposal) -> JsonObject | None:
    """Returns a decision about a memory, in the scope of the proposal that it confirms or takes back.

    Raises:
        ValueError: its time has no zone.
    """
    at, memory_id = dt.datetime.fromisoformat(str(line["at"])), str(line["memory_id"])
    if at.tzinfo is None:
        raise ValueError("at")
    stamp: JsonObject = {"at": at.isoformat()}
    if line["kind"] != "memory":
        return stamp | MemoryDecision(proposal.proposal_id, "prune", memory_id).undo_row()
    reader = MemoryDecisionReader()
    reader.read(line)
    (decision,) = reader.applied
    if decision.by and decision.by not in proposal.memory_ids:
        return None
    return stamp | replace(decision, scope=proposal.scope).to_row()


def _proposals(export: ExportFolder, collections: Set[str], memories: Set[str]) -> list[Proposal]:
    """Returns the proposals about imported memories, those that were decided as decided before the next build.

    Raises:
        PalimpsestError: a proposal cannot be read.
    """
    if not export.has(layout.PROPOSALS):  # an export of an earlier version
        return []
    names = _imported_names(export, collections)
    found: list[Proposal] = []
    for number, line in enumerate(cast(list[dict[str, Any]], export.read(layout.PROPOSALS)), 1):
        try:
            proposal = parse_proposal(line)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
            raise PalimpsestError(
                f"{layout.PROPOSALS}: line {number + 1} is no proposal; remove it, or export again"
            ) from None
        collection, owner, _ = proposal.scope
        is_theirs = collection in collections and owner == export.user
        if is_theirs and memories >= set(proposal.memory_ids) and names >= set(proposal.names):
            is_decided = proposal.state in ("confirmed", "applied")
            found.append(replace(proposal, state="confirmed", decided_build="") if is_decided else proposal)
    return found


def _imported_memories(home: Home, export: ExportFolder, collections: Set[str]) -> set[str]:
    """Returns the memories of the export that no other scope of the home has."""
    return {
        str(row["memory_id"])
        for name in collections
        for row in cast(list[JsonObject], export.read(layout.table_file(name, "memories")))
    } - _memories_of(home)


def _imported_names(export: ExportFolder, collections: Set[str]) -> set[str]:
    """Returns the ids of the names of the user, made again of what the export says of them."""
    return {
        entity_id(name, export.user, str(row["project_id"]), str(row["key"]))
        for name in collections
        for row in cast(list[JsonObject], export.read(layout.table_file(name, "surfaces")))
    }
