"""Checked weights of the ranking of a collection."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

_WEIGHT = Field(default=None, ge=0, le=100, allow_inf_nan=False, strict=True)


class WeightsConfig(BaseModel):
    """Weights of the ranking of a collection; the strategy's apply where none is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vector: float | None = _WEIGHT
    words: float | None = _WEIGHT
    graph: float | None = _WEIGHT
    time: float | None = _WEIGHT
    recency: float | None = _WEIGHT
    frequency: float | None = _WEIGHT
    importance: float | None = _WEIGHT
    diversity: float | None = _WEIGHT

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: object) -> object:
        if not isinstance(value, dict | WeightsConfig):
            raise ValueError("must be a mapping such as {words: 0.8, recency: 0.2}")
        if isinstance(value, dict) and (unknown := sorted(str(k) for k in value if k not in cls.model_fields)):
            raise ValueError(f"has no weight {unknown[0]!r}; use {', '.join(cls.model_fields)}")
        return value

    @model_validator(mode="after")
    def _check_one_is_positive(self) -> "WeightsConfig":
        if self.vector == 0 and self.words == 0:
            raise ValueError("gives vector and words 0, which finds nothing; raise one of them")
        return self
