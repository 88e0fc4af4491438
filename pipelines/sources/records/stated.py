"""What a turn or a document states of its own memories: type, tags, importance, confidence, kind and privacy."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from palimpsest.sources.secrets.find_secrets import shown

TYPES = ("episodic", "semantic", "document", "summary", "preference", "inference", "task")
KINDS = ("message", "file", "tool", "import")
_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "1.0": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
    "0.0": False,
}
TOOL_ROLES = frozenset({"tool", "function"})
KEYS = frozenset({"type", "tags", "importance", "confidence", "kind", "privacy", "memory"})
MAX_RETENTION_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Stated:
    """Stated values; None where nothing is stated.

    Attributes:
        type: memory type, one of `TYPES`.
        tags: sorted.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: kind of source, one of `KINDS`.
        pii: holds personal data.
        user_visible: may be shown.
        retention_days: days after observed_at that the text is kept, 1 to 36,500.
        memory: "off" where the text must not be kept.
        valid_from: when what is said begins to hold, ISO 8601 in UTC; of turns and rows of a table only.
        valid_until: the first moment when it does not hold any more, likewise.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    importance: float | None = None
    confidence: float | None = None
    kind: str | None = None
    pii: bool | None = None
    user_visible: bool | None = None
    retention_days: int | None = None
    memory: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the values that are stated, as JSON can hold them."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values if v not in (None, ())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Stated":
        """Returns what `to_json` wrote."""
        return cls(**{**data, "tags": tuple(data.get("tags", ()))})


def read_stated(values: Mapping[str, Any], *, free_words: bool = False) -> tuple[Stated | None, list[str]]:
    """Returns what a mapping states, None where that is nothing, and a problem for each value that cannot be used.

    A problem names the field, the value and the fix; the field then has its default. What cannot be read of `pii`,
    `user_visible` and `memory` is taken as the stricter value: a typing error must not show what was to be hidden.

    Args:
        values: a turn's JSON object, or a document's metadata.
        free_words: a `type`, `kind` or `memory` that is none of ours is the author's own field and no problem:
            documents have used these names for other things long before.
    """
    problems: list[str] = []
    read = _Reading(values, problems)
    word = read.known_word if free_words else read.word
    privacy = read.privacy()
    inner = _Reading(privacy, problems, "privacy.")
    unknown = sorted(set(map(str, privacy)) - {"pii", "user_visible", "retention_days"})
    problems += [f"privacy.{shown(n)} is no field; use pii, user_visible or retention_days" for n in unknown]
    stated = Stated(
        type=word("type", TYPES),
        tags=read.tags(),
        importance=read.share("importance"),
        confidence=read.share("confidence"),
        kind=word("kind", KINDS),
        pii=inner.flag("pii", strict=True),
        user_visible=inner.flag("user_visible", strict=False),
        retention_days=inner.days("retention_days"),
        memory=read.memory(free_words),
    )
    return (None if stated == _NOTHING else stated), problems


_NOTHING = Stated()


class _Reading:
    """Takes typed values out of a mapping; what is of another type becomes a problem and reads as not stated."""

    def __init__(self, values: Mapping[str, Any], problems: list[str], path: str = "") -> None:
        self._values, self._problems, self._path = values, problems, path

    def _take(self, name: str, good: Callable[[Any], bool], fix: str, instead: Any = None) -> Any:
        value = self._values.get(name)
        if value is None or value == "":
            return None
        if good(value):
            return value
        used = "the default is used" if instead is None else f"{_written(instead)} is used"
        self._problems.append(f"{self._path}{name} {_shown(value)} {fix}; {used}")
        return instead

    def word(self, name: str, known: tuple[str, ...], instead: str | None = None) -> str | None:
        # YAML 1.1 reads a bare `off` as false.
        value = self._values.get(name)
        if value is False and "off" in known:
            value = "off"
        elif isinstance(value, str) and value.strip().lower() in known:
            value = value.strip().lower()
        read = _Reading({**self._values, name: value}, self._problems, self._path)
        fix = f"must be {_any_of(known)}"
        found: str | None = read._take(name, lambda v: isinstance(v, str) and v in known, fix, instead)
        return found

    def known_word(self, name: str, known: tuple[str, ...]) -> str | None:
        value = self._values.get(name)
        known_one = isinstance(value, str) and value.strip().lower() in known
        return self.word(name, known) if value is False or known_one else None

    def memory(self, free_words: bool) -> str | None:
        """Returns `off` where the text must not be stored."""
        known = ("save", "off")
        word = self.known_word("memory", known) if free_words else self.word("memory", known, instead="off")
        return "off" if word == "off" else None

    def share(self, name: str) -> float | None:
        found = self._take(name, lambda v: _is_number(v) and 0 <= v <= 1, "must be a number from 0 to 1")
        return None if found is None else float(found)

    def flag(self, name: str, strict: bool) -> bool | None:
        """Reads a flag; `strict` is what a value that cannot be read is taken for."""
        found = self._take(name, lambda v: str(v).strip().lower() in _FLAGS, "must be true or false", strict)
        return None if found is None else _FLAGS[str(found).strip().lower()]

    def days(self, name: str) -> int | None:
        found = self._take(
            name,
            lambda v: not isinstance(v, bool) and (d := _days(v)) is not None and 0 < d <= MAX_RETENTION_DAYS,
            f"must be a whole number of days from 1 to {MAX_RETENTION_DAYS:,}",
        )
        return None if found is None else _days(found)

    def privacy(self) -> Mapping[str, Any]:
        fix = "must be a mapping such as {pii: true, user_visible: false, retention_days: 30}"
        strictest = {"pii": True, "user_visible": False}
        found: Mapping[str, Any] | None = self._take("privacy", lambda v: isinstance(v, Mapping), fix, strictest)
        return found or {}

    def tags(self) -> tuple[str, ...]:
        found = self._take("tags", lambda v: isinstance(v, str | list), "must be a list of words")
        words = found.split(",") if isinstance(found, str) else found or []
        return tuple(sorted({str(w).strip() for w in words if str(w).strip()}))


def combined(parts: Iterable[Stated]) -> Stated:
    """Returns what holds of a text that several turns share: privacy as strict as the strictest of them.

    Type, kind and confidence hold where all that state one agree or, for confidence, the lowest; the highest
    importance and all tags hold.
    """
    each = list(parts)

    def told(name: str) -> list[Any]:
        return [v for p in each if (v := getattr(p, name)) is not None]

    def agreed(name: str) -> Any:
        return next(iter(found)) if len(found := set(told(name))) == 1 else None

    return Stated(
        type=agreed("type"),
        tags=tuple(sorted({t for p in each for t in p.tags})),
        importance=max(told("importance"), default=None),
        confidence=min(told("confidence"), default=None),
        kind=agreed("kind"),
        pii=True if any(told("pii")) else agreed("pii"),
        user_visible=False if False in told("user_visible") else agreed("user_visible"),
        retention_days=min(told("retention_days"), default=None),
        memory="off" if told("memory") else None,
        valid_from=agreed("valid_from"),
        valid_until=agreed("valid_until"),
    )


def _days(value: object) -> int | None:
    """Returns a whole number, also where it was written as text or as 30.0."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(shown(value))
    return shown(value) if isinstance(value, int | float) else f"(a {type(value).__name__})"


def _written(value: object) -> str:
    return json.dumps(value).replace('"', "")


def _any_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
