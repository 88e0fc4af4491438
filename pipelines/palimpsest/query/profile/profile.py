"""The values of a profile."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, TypeAlias

from palimpsest.core.json_types import JsonObject
from palimpsest.query.request.one_line import changed_line, cited_line, one_line
from palimpsest.query.request.types import NewerText, Scope

Section: TypeAlias = Literal["static", "dynamic"]


@dataclass(frozen=True)
class ProfileLine:
    """What is known of a user, in one sentence.

    Attributes:
        section: `static` for what lasts, `dynamic` for what is recent.
        kind: `fact`, or the type of a formed memory, such as `preference`.
        key: the predicates of a fact, joined by commas; empty for formed memories.
        text: the sentence, after who said it.
        memory_ids: the memories that state it in these words, newest first.
        time: when it was stated last.
        confidence: 0 to 1.
        scope: of those memories.
        disputed_by: the newest memory that disputes the first of them, or None.
        later: what else was said later and may have ended it, newest first.
        first_time: when it was stated first, where it was stated more than once.
    """

    section: Section
    kind: str
    key: str
    text: str
    memory_ids: tuple[str, ...]
    time: dt.datetime | None
    confidence: float
    scope: Scope
    disputed_by: NewerText | None = None
    later: tuple[NewerText, ...] = ()
    first_time: dt.datetime | None = None

    @property
    def cited(self) -> str:
        """The line with its day and the newest memory that states it, and with what was said later about the same."""
        line = cited_line(one_line(self.text), self.memory_ids[:1], self.time)
        if len(self.memory_ids) > 1:
            since = f" since {self.first_time.date().isoformat()}" if self.first_time else ""
            line = f"{line} (said {len(self.memory_ids)} times{since})"
        return changed_line(line, self.disputed_by, self.later)

    def to_json(self) -> JsonObject:
        """Returns the line as JSON values."""
        return {
            "section": self.section,
            "kind": self.kind,
            "key": self.key,
            "text": self.text,
            "memory_ids": list(self.memory_ids),
            "time": self.time.isoformat() if self.time else None,
            "first_time": self.first_time.isoformat() if self.first_time else None,
            "confidence": round(self.confidence, 6),
            "scope": list(self.scope),
            "disputed_by": self.disputed_by.to_json() if self.disputed_by else None,
            "later": [newer.to_json() for newer in self.later],
        }


@dataclass(frozen=True)
class Profile:
    """What is known of a user, newest first.

    Attributes:
        user: the user's id.
        lines: of both sections.
    """

    user: str
    lines: tuple[ProfileLine, ...]

    @property
    def static(self) -> tuple[ProfileLine, ...]:
        """What lasts."""
        return tuple(line for line in self.lines if line.section == "static")

    @property
    def dynamic(self) -> tuple[ProfileLine, ...]:
        """What is recent."""
        return tuple(line for line in self.lines if line.section == "dynamic")

    def to_json(self) -> JsonObject:
        """Returns the profile as JSON values."""
        return {
            "user": self.user,
            "static": [line.to_json() for line in self.static],
            "dynamic": [line.to_json() for line in self.dynamic],
        }
