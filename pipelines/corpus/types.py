"""What readers hand over: extracted documents, their segments and the relations that they state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Kind = Literal["prose", "heading", "table", "code", "turn"]
RelationLabel = Literal["UPDATE", "EXTEND"]

SUITE_ROW = "application/vnd.palimpsest.suite-row+json"
CONVERSATION = "application/vnd.palimpsest.conversation+jsonl"


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of a document's text that has one role; `heading` is the path of headings above it, joined with " > ".

    Spans count characters of `ExtractedDocument.text`, end exclusive. A heading's own path ends with itself.
    Pages count from 1. Times are UTC.
    """

    char_start: int
    char_end: int
    kind: Kind
    heading: str | None = None
    page: int | None = None
    speaker: str | None = None
    said_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """The document that holds this replaces (UPDATE) or needs (EXTEND) the document at `older_uri`, same collection."""

    older_uri: str
    label: RelationLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    """The text of one source, one conversation session or one suite row, and what the source itself says of it.

    `user_id` and `project_id` are null unless the source names them. `text` is what every char span and every
    citation points into: its line ends are newlines, it holds no NUL and no lone surrogate, and is otherwise as found.
    Segments are in order and do not overlap. `metadata` holds only what JSON can.
    """

    uri: str
    media_type: str
    text: str
    title: str = ""
    session_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_time: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    relations: tuple[StatedRelation, ...] = ()
    segments: tuple[Segment, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns a dict of JSON values; segments are rows in the order of their fields, to keep 20,000 turns small."""
        return {
            "uri": self.uri,
            "media_type": self.media_type,
            "text": self.text,
            "title": self.title,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "project_id": self.project_id,
            "source_time": _iso(self.source_time),
            "metadata": self.metadata,
            "relations": [[r.older_uri, r.label] for r in self.relations],
            "segments": [
                [s.char_start, s.char_end, s.kind, s.heading, s.page, s.speaker, _iso(s.said_at)] for s in self.segments
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ExtractedDocument":
        """Returns the document that `to_json` wrote; times may be ISO text or datetimes.

        Raises:
            KeyError, TypeError, ValueError: `data` was not written by `to_json`.
        """
        return cls(
            uri=data["uri"],
            media_type=data["media_type"],
            text=data["text"],
            title=data["title"],
            session_id=data["session_id"],
            user_id=data["user_id"],
            project_id=data["project_id"],
            source_time=_time(data["source_time"]),
            metadata=dict(data["metadata"]),
            relations=tuple(StatedRelation(uri, label) for uri, label in data["relations"]),
            segments=tuple(Segment(s, e, k, h, p, w, _time(t)) for s, e, k, h, p, w, t in data["segments"]),
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one source gave: its documents, and in `problems` each part that could not be read, with where and why."""

    documents: tuple[ExtractedDocument, ...]
    problems: tuple[str, ...] = ()


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(value: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
