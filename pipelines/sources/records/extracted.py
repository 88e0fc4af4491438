"""What readers hand over: extracted documents, their segments and the relations that they state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from palimpsest.core.errors import Rejected
from palimpsest.sources.records.stated import Stated

Kind = Literal["prose", "heading", "table", "code", "turn", "aside"]
"""The role of a span; an aside (a greeting, a signature) stays in the text and makes no memory."""

RelationLabel = Literal["UPDATE", "EXTEND"]

SUITE_ROW = "application/vnd.palimpsest.suite-row+json"
CONVERSATION = "application/vnd.palimpsest.conversation+jsonl"


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of a document's text that has one role; `heading` is the path of headings above it, joined with " > ".

    Spans count characters of `ExtractedDocument.text`, end exclusive. A heading's own path ends with itself.
    Pages count from 1. Times are UTC. `stated` is what a turn states of its memory.
    """

    char_start: int
    char_end: int
    kind: Kind
    heading: str | None = None
    page: int | None = None
    speaker: str | None = None
    said_at: datetime | None = None
    stated: Stated | None = None

    def to_row(self) -> list[Any]:
        """Returns the fields in their order as JSON values, without `stated` where nothing is stated."""
        row = [self.char_start, self.char_end, self.kind, self.heading, self.page, self.speaker, _iso(self.said_at)]
        return [*row, self.stated.to_json()] if self.stated else row

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Segment":
        """Returns what `to_row` wrote."""
        start, end, kind, heading, page, speaker, said_at, *stated = row
        told = Stated.from_json(stated[0]) if stated else None
        return cls(start, end, kind, heading, page, speaker, _time(said_at), told)


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """The document that holds this replaces (UPDATE) or needs (EXTEND) the document at `older_uri`, same collection."""

    older_uri: str
    label: RelationLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    """The text of one source, one conversation session or one suite row, and what the source itself says of it.

    `user_id` and `project_id` are null unless the source names them, `kind` where the media type tells it. `text` is
    what every char span and every citation points into: its line ends are newlines, it holds no NUL and no lone
    surrogate, and is otherwise as found. Segments are in order and do not overlap. `metadata` holds only what JSON can.
    `redactions` says, as JSON, what was taken out as a secret; null where nobody looked.
    """

    uri: str
    media_type: str
    text: str
    title: str = ""
    session_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_time: datetime | None = None
    kind: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    relations: tuple[StatedRelation, ...] = ()
    segments: tuple[Segment, ...] = ()
    redactions: str | None = None

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
            "kind": self.kind,
            "segments": [s.to_row() for s in self.segments],
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
            kind=data.get("kind"),
            metadata=dict(data["metadata"]),
            relations=tuple(StatedRelation(uri, label) for uri, label in data["relations"]),
            segments=tuple(Segment.from_row(row) for row in data["segments"]),
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one source gave: its documents, and in `problems` each part that could not be read, with where and why."""

    documents: tuple[ExtractedDocument, ...]
    problems: tuple[str, ...] = ()


ReadResult = Extraction | Rejected
"""What reading a source gave: its documents, or why there are none."""


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(value: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
