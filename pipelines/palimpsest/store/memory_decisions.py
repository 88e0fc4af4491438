"""What was decided of single memories when a proposal of consolidation was confirmed.

Lines of kind `memory` in `decisions.jsonl`, and of kind `memory_undo` that take one back. Both name the memories, so
that a delete of one removes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.core.scopes import SCOPE, ScopeKey

MemoryAction = Literal["retire", "prune", "confidence"]
ACTIONS = get_args(MemoryAction)
MEMORY_KINDS = ("memory", "memory_undo")


@dataclass(frozen=True)
class MemoryDecision:
    """One decision about a memory.

    Attributes:
        proposal_id: the proposal that was confirmed.
        action: retire (another takes its place), prune (no longer served), confidence (its confidence is `value`).
        memory_id: the memory.
        by: the memory that takes its place.
        value: the confidence, 0 to 1.
        at: when it was decided, ISO 8601 in UTC.
        scope: of the memory: a decision is about no memory of another scope. None in lines of earlier versions.
    """

    proposal_id: str
    action: MemoryAction
    memory_id: str
    by: str = ""
    value: float | None = None
    at: str = ""
    scope: ScopeKey | None = None

    def to_row(self) -> JsonObject:
        """Returns the line of the decisions file, without its time."""
        row: JsonObject = {"kind": "memory", "target": self.proposal_id, "action": self.action}
        row |= {"memory_id": self.memory_id}
        row |= {"by": self.by} if self.by else {}
        row |= dict(zip(SCOPE, self.scope, strict=True)) if self.scope else {}
        return row | ({"value": self.value} if self.value is not None else {})

    def to_list(self) -> list[str]:
        """Returns the fields as texts, for a manifest."""
        value = "" if self.value is None else str(self.value)
        return [self.proposal_id, self.action, self.memory_id, self.by, value, self.at, *(self.scope or ())]

    @classmethod
    def from_list(cls, fields: Sequence[str]) -> "MemoryDecision":
        """Reads what `to_list` returns."""
        proposal, action, memory, by, value, at, *scope = fields
        return cls(proposal, action, memory, by, float(value) if value else None, at, tuple(scope) or None)  # type: ignore[arg-type]


def memory_undo_row(decision: MemoryDecision) -> JsonObject:
    """Returns the line that takes a decision back, without its time."""
    return {"kind": "memory_undo", "target": decision.proposal_id, "memory_id": decision.memory_id}


class MemoryDecisionReader:
    """Collects the decisions that apply, line by line: an undo removes one."""

    def __init__(self) -> None:
        """Makes a reader of no line."""
        self._applied: dict[tuple[str, str], MemoryDecision] = {}

    def read(self, row: Mapping[str, Any]) -> None:
        """Reads a line of one of `MEMORY_KINDS`.

        Raises:
            ValueError: the action or the value is none; a KeyError or TypeError where a field is missing.
        """
        target = str(row["target"])
        key = target, str(row["memory_id"])  # a line takes back no decision about another memory
        self._applied.pop(key, None)
        if row["kind"] != "memory":
            return
        value = None if row.get("value") is None else float(row["value"])
        if row["action"] not in ACTIONS or not (value is None or 0.0 <= value <= 1.0):
            raise ValueError(row["action"])
        by, at = str(row.get("by") or ""), str(row.get("at") or "")
        scope = (str(row["collection"]), str(row["user_id"]), str(row["project_id"])) if "user_id" in row else None
        self._applied[key] = MemoryDecision(target, row["action"], key[1], by, value, at, scope)

    @property
    def applied(self) -> tuple[MemoryDecision, ...]:
        """The decisions that apply, in the order in which they were made."""
        return tuple(self._applied.values())


def memory_decisions_key(decisions: Iterable[MemoryDecision]) -> str:
    """Returns a hash of the decisions."""
    return content_id(*(" ".join(d.to_list()) for d in decisions))
