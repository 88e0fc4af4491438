"""What a collection says of its consolidation: `consolidation` in collection.yaml."""

from pydantic import BaseModel, ConfigDict, Field


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
