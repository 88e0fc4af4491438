"""What labelers take and give: a pair of memories, a label with its evidence, and the protocol between them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

LABELS = ("UPDATE", "DERIVE", "EXTEND", "NONE")
"""By precedence: where several rules apply, the first."""
UNPAID = "unpaid"
"""The evidence rule of a pair that no model answered (budget, server down): the next build asks again."""


@dataclass(frozen=True)
class LabelPair:
    """Two memories to compare. Context is `Title > Heading`; times are when they were observed, null where unknown.

    `by_place` says that only their places in one document tell which is newer.
    """

    newer_id: str
    older_id: str
    newer: str
    older: str
    newer_at: datetime | None = None
    older_at: datetime | None = None
    newer_context: str = ""
    older_context: str = ""
    newer_speaker: str | None = None
    older_speaker: str | None = None
    by_place: bool = False

    @property
    def order(self) -> int | None:
        """1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks."""
        if self.newer_at is None or self.older_at is None:
            return None
        return (self.newer_at > self.older_at) - (self.newer_at < self.older_at)


@dataclass(frozen=True)
class LabelResult:
    """A label with its confidence in [0, 1] and its evidence (rule, char spans in both texts, values); what it cost.

    `labeler` names who decided where several work together; `decided` is false for an abstention, whose label is NONE.
    """

    label: str
    confidence: float
    evidence: dict[str, object] = field(default_factory=dict)
    lm_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    labeler: str = ""
    decided: bool = True


class RelationLabeler(Protocol):
    """What labels pairs. A label is a pure function of the pair and the program (decision 15)."""

    @property
    def name(self) -> str:
        """Shown in relations: offline, dspy, cascade."""

    @property
    def program_hash(self) -> str:
        """Changes whenever the same pair could get another label."""

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one answer for each pair, in order."""
