"""The values of a note."""

import datetime as dt
from dataclasses import dataclass

from palimpsest.core.json_types import JsonObject
from palimpsest.query.request.one_line import cited_line, one_line
from palimpsest.query.request.types import Scope

SECTIONS = {
    "fact": "facts",
    "preference": "preferences",
    "decision": "decisions",
    "solution": "solutions",
    "inference": "inferences",
    "gap": "knowledge_gaps",
    "emotion": "emotional_context",
    "topic": "potential_topics",
    "connection": "connections",
    "summary": "summaries",
}
"""Names of the lists of a note, by kind of item, in the order in which they are shown."""


@dataclass(frozen=True)
class NoteLine:
    """An item of a note that may be shown.

    Attributes:
        kind: one of `SECTIONS`.
        statement: a sentence that can be read alone.
        quote: the words of the session that state it.
        evidence: ids of the memories it rests on, in the order of the session.
        confidence: 0 to 1.
        is_saved: a person requests that it is remembered.
        alternatives: what else the evidence could mean.
        invalidation_conditions: what would make it wrong.
        related_note_ids: notes that it is connected with.
        extractor: `rules` or `lm`.
    """

    kind: str
    statement: str
    quote: str
    evidence: tuple[str, ...]
    confidence: float
    is_saved: bool
    alternatives: tuple[str, ...]
    invalidation_conditions: tuple[str, ...]
    related_note_ids: tuple[str, ...]
    extractor: str

    @property
    def cited(self) -> str:
        """The statement with its citations."""
        return cited_line(one_line(self.statement), self.evidence, None)

    def to_json(self) -> JsonObject:
        """Returns the item as JSON values; lists that are empty are left out but for the evidence."""
        out: JsonObject = {
            "statement": self.statement,
            "quote": self.quote,
            "evidence": list(self.evidence),
            "confidence": round(self.confidence, 6),
            "is_saved": self.is_saved,
            "extractor": self.extractor,
        }
        for name in ("alternatives", "invalidation_conditions", "related_note_ids"):
            if values := getattr(self, name):
                out[name] = list(values)
        return out


@dataclass(frozen=True)
class Note:
    """What one session says that is worth keeping.

    Attributes:
        note_id: the same for each version of the session.
        session_id: empty for a conversation without one.
        scope: of the session.
        time: when the last of the evidence was observed.
        items: in the order of the session.
    """

    note_id: str
    session_id: str
    scope: Scope
    time: dt.datetime | None
    items: tuple[NoteLine, ...]

    @property
    def confidence_avg(self) -> float:
        """The mean confidence of the items."""
        return sum(item.confidence for item in self.items) / len(self.items) if self.items else 0.0

    def of_kind(self, kind: str) -> tuple[NoteLine, ...]:
        """Returns the items of a kind."""
        return tuple(item for item in self.items if item.kind == kind)

    def to_json(self) -> JsonObject:
        """Returns the note as JSON values, a list for each kind of item."""
        sections: JsonObject = {name: [i.to_json() for i in self.of_kind(kind)] for kind, name in SECTIONS.items()}
        return {
            "note_id": self.note_id,
            "session_id": self.session_id,
            "scope": list(self.scope),
            "time": self.time.isoformat() if self.time else None,
            "confidence_avg": round(self.confidence_avg, 6),
            **sections,
        }
