"""The input and output of labelers: a pair of memories, a label with its evidence, and the protocol between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias

from palimpsest.core.ids import JsonValue

LABELS = ("UPDATE", "DERIVE", "EXTEND", "NONE")
"""By precedence: where several rules apply, the first."""
CONFLICTS = ("dynamic", "static", "conditional")
"""How two memories conflict: the world changed (every UPDATE), the later one is mistaken or false, or both are true
under different conditions, times or places."""
SUPERSEDED, DISPUTED = CONSEQUENCES = ("superseded", "disputed")
"""What a newer memory does to an older one: it retires it or a part of it, or both stay latest, the newer one first,
and the older one is never shown without it."""
UNPAID = "unpaid"
"""The evidence rule of a pair that no model answered (budget, server down): the next build asks again."""

Evidence: TypeAlias = Mapping[str, JsonValue]
"""The rule that decided, char spans in both texts, values, reasons: stored with the relation as JSON."""
CANDIDATE_ODDS = 10.0
"""How much likelier NONE is among the pairs that a build finds than among those that people choose to label."""


@dataclass(frozen=True)
class LabelPair:
    """Two memories to compare.

    Attributes:
        newer_id, older_id: ids of the memories.
        newer, older: their texts.
        newer_at, older_at: when they were observed, on the clock of who said it; None where unknown.
        newer_context, older_context: `Title > Heading`.
        newer_speaker, older_speaker: who said them, None where unknown.
        by_position: only their positions in one document determine which is newer.
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
    by_position: bool = False

    @property
    def order(self) -> int | None:
        """1 where the newer is known to be later, 0 for the same time, -1 for earlier, None where a date lacks."""
        if self.newer_at is None or self.older_at is None:
            return None
        return (self.newer_at > self.older_at) - (self.newer_at < self.older_at)

    @property
    def same_day(self) -> bool:
        """Whether both were observed, or begin to be valid, on one day, each of its own clock."""
        if self.newer_at is None or self.older_at is None:
            return False
        return self.newer_at.date() == self.older_at.date()


@dataclass(frozen=True)
class LabelResult:
    """What a labeler returns for a pair.

    Attributes:
        label: one of LABELS.
        confidence: in [0, 1].
        evidence: why.
        lm_calls, tokens, cost: what this answer took of a language model.
        labeler: which labeler decided, where several work together.
        decided: False for an abstention, whose label is not UPDATE though that was likely.
        conflict: one of CONFLICTS, empty for none; an UPDATE is dynamic without stating it.
        likelihood: probability that the newer memory ends the older one or a part of it; None where not estimated.
        part: spans of the older text that the newer memory ends; none where that is all of it.
    """

    label: str
    confidence: float
    evidence: Evidence = field(default_factory=dict)
    lm_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    labeler: str = ""
    decided: bool = True
    conflict: str = ""
    likelihood: float | None = None
    part: tuple[tuple[int, int], ...] = ()

    @property
    def consequence(self) -> str | None:
        """What follows for the older memory: one of CONSEQUENCES, None where nothing does."""
        if self.label == "UPDATE":
            return SUPERSEDED
        is_doubted = self.evidence.get("instead_of") == "UPDATE" and self.rule != UNPAID
        return DISPUTED if is_doubted or self.conflict == "static" else None

    @property
    def rule(self) -> JsonValue:
        """The rule that its evidence names."""
        return self.evidence.get("rule")


def conflict_kind(label: str, conflict: str = "") -> str | None:
    """Returns the conflict of a relation with this label, as the table stores it: None where there is none."""
    return "dynamic" if label == "UPDATE" else conflict or None


class RelationLabeler(Protocol):
    """What labels pairs: a pure function of the program and a pair, or of all pairs of the newer memory."""

    @property
    def name(self) -> str:
        """Shown in relations: offline, dspy, cascade."""

    @property
    def program_hash(self) -> str:
        """Changes whenever the same pair could get another label."""

    @property
    def reads_together(self) -> bool:
        """Whether a label depends on the other pairs of the newer memory, which follow each other."""

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order."""
