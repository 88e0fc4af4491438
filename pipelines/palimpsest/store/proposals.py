"""The proposals of consolidation, with their states: lines of `<home>/consolidation/proposals.jsonl`, by id.

A proposal names the memories that it rests on and quotes them, so that a delete of one removes it.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from palimpsest.core.files import read_json_object, remove_lines, undamaged, write_json, write_private
from palimpsest.core.ids import SCOPE, JsonObject, ScopeKey, content_id, scope_parts
from palimpsest.core.needles import RowSearch

Kind = Literal["contradiction", "duplicate", "prune", "connection", "confidence", "note"]
FoundBy = Literal["rules", "lm"]
State = Literal["open", "confirmed", "applied", "rejected", "expired"]
KINDS, STATES = get_args(Kind), get_args(State)
_FIX = "remove it and run palimpsest consolidate --all"


@dataclass(frozen=True)
class Proposal:
    """A change that consolidation suggests.

    Attributes:
        kind: what it suggests.
        why: the reason, one of a few for each kind.
        scope: of all memories it names.
        memory_ids: the memories that it rests on, the one it is about first.
        description: what it suggests, for people.
        confidence: 0 to 1, how sure it is.
        keep: the memory that stays where one takes the place of another; empty where a person must say.
        drop: the memory that is retired or no longer served; empty where there is none or a person must say.
        value: the confidence that it suggests for the first memory.
        names: ids of two names that may be one.
        state: open until somebody decides; confirmed until a build has it, then applied.
        created_at, decided_at: ISO 8601 in UTC.
        decided_build: the build that was published when it was confirmed.
        decided_by: person or setting.
        found_by: rules or lm.
        part: JSON of the spans of the first memory's text that end, where that is not all of it.
        refused_at: when a trial of it made retrieval worse, or a person took a decision of it back: only a person
            confirms it from then on.
    """

    kind: Kind
    why: str
    scope: ScopeKey
    memory_ids: tuple[str, ...]
    description: str
    confidence: float
    keep: str = ""
    drop: str = ""
    value: float | None = None
    names: tuple[str, ...] = ()
    state: State = "open"
    created_at: str = ""
    decided_at: str = ""
    decided_build: str = ""
    decided_by: str = ""
    found_by: FoundBy = "rules"
    refused_at: str = ""
    part: str = ""

    @property
    def proposal_id(self) -> str:
        """The same memories give the same proposal the same id, whatever was decided of it."""
        return content_id("proposal", *scope_parts(*self.scope), self.kind, *self.memory_ids, *self.names)

    def decided(self, state: State, at: str = "", build: str = "", by: str = "", **sides: str) -> "Proposal":
        """Returns the proposal in another state; `sides` may give `keep` and `drop`."""
        return replace(self, state=state, decided_at=at, decided_build=build, decided_by=by, **sides)  # type: ignore[arg-type]

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object, the scope by its columns."""
        fields = asdict(self)
        fields.pop("scope")
        return {"proposal_id": self.proposal_id, **dict(zip(SCOPE, self.scope, strict=True)), **fields}


def proposals_path(home: Path) -> Path:
    """Returns the file with the proposals of a home."""
    return home / "consolidation" / "proposals.jsonl"


def read_proposals(home: Path) -> dict[str, Proposal]:
    """Returns the proposals of a home by id, ascending.

    Raises:
        DamagedFile: a line is no proposal.
        PermissionError: this user may not read it.
    """
    path = proposals_path(home)
    if not path.exists():
        return {}
    with undamaged(path, _FIX, ValueError, KeyError, TypeError, AttributeError):
        found = [parse_proposal(json.loads(line)) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return {p.proposal_id: p for p in found}


def parse_proposal(row: Mapping[str, Any]) -> Proposal:
    """Reads what `Proposal.to_json` returns.

    Raises:
        ValueError: it is none; a KeyError or TypeError where a field is missing or of another type.
    """
    if row["kind"] not in KINDS or row["state"] not in STATES:
        raise ValueError(row["kind"])
    _check_members(row)
    collection, user_id, project_id = (str(row[c]) for c in SCOPE)
    value = row["value"]
    texts = {n: str(row[n]) for n in ("keep", "drop", "created_at", "decided_at", "decided_build", "decided_by")}
    return Proposal(
        row["kind"],
        str(row["why"]),
        (collection, user_id, project_id),
        tuple(map(str, row["memory_ids"])),
        str(row["description"]),
        float(row["confidence"]),
        value=None if value is None else float(value),
        names=tuple(map(str, row["names"])),
        state=row["state"],
        # Files of earlier versions do not have these.
        found_by="lm" if row.get("found_by") == "lm" else "rules",
        refused_at=str(row.get("refused_at", "")),
        part=str(row.get("part", "")),
        **texts,
    )


def _check_members(row: Mapping[str, Any]) -> None:
    """Checks what a proposal names: nothing besides its memories is decided about.

    Raises:
        ValueError: the number of memories or names is not that of its kind, or a value or time is none.
    """
    memories, names = [str(i) for i in row["memory_ids"]], list(row["names"])
    is_pair = row["kind"] in ("contradiction", "duplicate")
    if not memories or (is_pair and len(memories) != 2) or len(names) not in (0, 2):
        raise ValueError("memory_ids")
    if not {row["keep"], row["drop"]} <= {"", *memories}:
        raise ValueError("keep")
    if row["value"] is not None and not 0.0 <= float(row["value"]) <= 1.0:
        raise ValueError("value")
    for name in ("created_at", "decided_at", "refused_at"):
        if (at := row.get(name)) and dt.datetime.fromisoformat(at).tzinfo is None:
            raise ValueError(name)
    json.dumps(row, ensure_ascii=False).encode()  # half of a surrogate pair is no text


def write_proposals(home: Path, proposals: Iterable[Proposal]) -> None:
    """Replaces the proposals of a home; a reader sees the old ones or the new."""
    rows = sorted((p.to_json() for p in proposals), key=lambda row: str(row["proposal_id"]))
    lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows)
    write_private(proposals_path(home), "".join(f"{line}\n" for line in lines).encode())


def forget_proposals(
    home: Path, probes: RowSearch, collection: str | None, user: str | None, project: str | None, whole_scope: bool
) -> int:
    """Removes the proposals that name or quote what is deleted; returns how many.

    Args:
        home: the home's folder.
        probes: ids, lines and names that were deleted.
        collection: of the scope, None for any.
        user: of the scope, None for any.
        project: of the scope, None for any.
        whole_scope: the scope is deleted with all it has.
    """
    wanted = tuple(zip(SCOPE, (collection, user, project), strict=True))

    def find(lines: list[str]) -> set[int]:
        rows = [json.loads(line) for line in lines] if whole_scope else []
        gone = {i for i, row in enumerate(rows) if all(v is None or row.get(c) == v for c, v in wanted)}
        return gone | set(probes.rows_in(lines))

    return remove_lines(proposals_path(home), find)


def last_run(home: Path) -> str:
    """Returns when a home was last consolidated, ISO 8601 in UTC; empty where it never was."""
    return str((read_json_object(_run_path(home), _FIX) or {}).get("last_run", ""))


def record_run(home: Path, at: str) -> None:
    """Records when a home was consolidated."""
    write_json(_run_path(home), {"last_run": at})


def _run_path(home: Path) -> Path:
    return home / "consolidation" / "state.json"
