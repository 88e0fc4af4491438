"""How far sources are trusted: the `trust` setting of collection.yaml."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from palimpsest.text.normalize import fold

DEFAULT_TRUST = 0.5
"""Where nothing is set: all sources are trusted alike, and trust decides nothing."""
KINDS = ("message", "file", "tool", "import")
_FIELDS = ("default", "kinds", "speakers")
_SHAPE = "must be a number from 0 to 1, or a mapping such as {default: 0.5, kinds: {tool: 0.2}, speakers: {Ana: 0.9}}"


class TrustConfig(BaseModel):
    """Trust of sources, each from 0 to 1. A speaker's wins over that of a kind of source, and that over the default.

    Attributes:
        default: of every source that the other two do not name; a plain number in collection.yaml means only this.
        kinds: by kind of memory: message, file, tool, import.
        speakers: by name, folded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: float = DEFAULT_TRUST
    kinds: Mapping[str, float] = {}
    speakers: Mapping[str, float] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_shape(cls, value: object) -> object:
        if isinstance(value, TrustConfig):
            return value
        if not isinstance(value, dict):
            return {"default": _number(value, _SHAPE)}
        if unknown := [str(key) for key in value if key not in _FIELDS]:
            raise ValueError(f"has no field {unknown[0][:80]!r}; use {', '.join(_FIELDS)}")
        return value

    @field_validator("default", mode="before")
    @classmethod
    def _check_default(cls, value: object) -> float:
        return _number(value, "must be a number from 0 to 1")

    @field_validator("kinds", mode="before")
    @classmethod
    def _check_kinds(cls, value: object) -> dict[str, float]:
        trust = _numbers(value, "{tool: 0.2, message: 0.7}")
        if unknown := [kind for kind in trust if kind not in KINDS]:
            raise ValueError(f"has no kind {unknown[0][:80]!r}; use {', '.join(KINDS)}")
        return trust

    @field_validator("speakers", mode="before")
    @classmethod
    def _check_speakers(cls, value: object) -> dict[str, float]:
        folded: dict[str, float] = {}
        for name, trust in _numbers(value, "{Ana: 0.9, Bot: 0.1}").items():
            key = fold(name)
            if not key or key in folded:
                raise ValueError(f"names {name[:80]!r} twice, or not at all; case and accents do not count; remove one")
            folded[key] = trust
        return dict(sorted(folded.items()))

    def of_source(self, kind: str | None, speaker: str | None = None) -> float:
        """Returns the trust of the statements of a speaker, None where nobody is named, in a source of a kind."""
        by_kind = self.kinds.get(kind or "", self.default)
        return self.speakers.get(fold(speaker), by_kind) if speaker and self.speakers else by_kind


def _numbers(value: object, example: str) -> dict[str, float]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"must be a mapping of names to numbers from 0 to 1, such as {example}")
    return {name: _number(trust, f"{name[:80]!r}: must be a number from 0 to 1") for name, trust in value.items()}


def _number(value: object, problem: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(problem)
    return float(value)
