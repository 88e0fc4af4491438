"""What a collection says of its consolidation: `consolidation` in collection.yaml."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

AppliedKind = Literal["contradiction", "duplicate", "prune", "connection", "confidence"]
"""A kind of proposal that changes a build when it is confirmed."""


class ConsolidationConfig(BaseModel):
    """What consolidation reads of a collection, and from when on something is old."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_hours: int = Field(
        default=24, ge=1, le=8_784, description="hours back from now in which a memory counts as new"
    )
    sample: int = Field(default=20, ge=0, le=10_000, description="older memories of each scope that are read as well")
    unread_days: int = Field(
        default=90, ge=1, le=3_650, description="days without a read after which small talk may be proposed for pruning"
    )
    replaced_days: int = Field(
        default=365, ge=1, le=36_500, description="days after which what was replaced may be proposed for pruning"
    )
    read_by: Literal["rules", "both"] = Field(
        default="rules", description="who finds proposals: rules, or rules and the model of `PALIMPSEST_LM`"
    )
    apply: tuple[AppliedKind, ...] = Field(
        default=(),
        description="kinds of proposals that `consolidate apply` and the night confirm without a person, where no "
        "golden question gets worse",
    )
    grace_days: int = Field(
        default=7, ge=0, le=3_650, description="days that a proposal of these kinds is open before it is confirmed so"
    )
