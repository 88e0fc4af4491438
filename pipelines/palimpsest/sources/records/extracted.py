"""What readers return: extracted documents, their segments and the relations that they state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.core.times import on_own_clock
from palimpsest.sources.records.stated_fields import StatedFields

Kind = Literal["prose", "heading", "table", "code", "turn", "aside"]
"""The role of a span; an aside (a greeting, a signature) stays in the text and makes no memory."""

RelationLabel = Literal["UPDATE", "EXTEND", "UPDATED_BY"]

SUITE_ROW = "application/vnd.palimpsest.suite-row+json"
CONVERSATION = "application/vnd.palimpsest.conversation+jsonl"

QUOTED_IN = "quoted_in"
"""Metadata of a document that is quoted in another: the uri of the other. Only the quote itself can date it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of a document's text with one role.

    Attributes:
        char_start: first character, counted in `ExtractedDocument.text`.
        char_end: end, exclusive.
        kind: the role.
        heading: path of the headings above it, joined with " > "; a heading's own path ends with itself.
        page: from 1.
        speaker: who says it.
        said_at: when, on the clock that states it.
        stated: what a turn states of its memory.
    """

    char_start: int
    char_end: int
    kind: Kind
    heading: str | None = None
    page: int | None = None
    speaker: str | None = None
    said_at: datetime | None = None
    stated: StatedFields | None = None

    def to_row(self) -> list[JsonValue]:
        """Returns the fields in their order as JSON values; `stated` is left out where it is null."""
        row: list[JsonValue] = [self.char_start, self.char_end, self.kind, self.heading, self.page, self.speaker]
        row.append(_to_iso(self.said_at))
        return [*row, self.stated.to_json()] if self.stated else row

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Segment":
        """Returns the segment that `to_row` wrote."""
        start, end, kind, heading, page, speaker, said_at, *stated = row
        fields = StatedFields.from_json(stated[0]) if stated else None
        return cls(start, end, kind, heading, page, speaker, _from_iso(said_at), fields)


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """The document with this relation replaces (UPDATE), needs (EXTEND) or was replaced by (UPDATED_BY) `other_uri`."""

    other_uri: str
    label: RelationLabel


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedDocument:
    """The text of one source, one conversation session or one suite row, with what the source states about it.

    Attributes:
        uri: of the source, with `#<part>` where it is a part of one.
        media_type: of the source.
        text: what every span and every citation points into. Lines end with a newline; there is no NUL and no lone
            surrogate; otherwise it is as found.
        title: empty where there is none.
        session_id: of a conversation.
        user_id: null unless the source names one.
        project_id: null unless the source names one.
        source_time: the date of the document, on the clock that states it.
        kind: kind of source, where the media type does not imply it.
        metadata: JSON values only.
        relations: stated relations.
        segments: in order, without overlap.
        redactions: the removed secrets as JSON, without their text; null where nothing was searched for.
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
    metadata: JsonObject = field(default_factory=dict)
    relations: tuple[StatedRelation, ...] = ()
    segments: tuple[Segment, ...] = ()
    redactions: str | None = None

    def to_json(self) -> JsonObject:
        """Returns the document without its redactions; segments are rows, to keep 20,000 turns small."""
        return {
            "uri": self.uri,
            "media_type": self.media_type,
            "text": self.text,
            "title": self.title,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "project_id": self.project_id,
            "source_time": _to_iso(self.source_time),
            "metadata": self.metadata,
            "relations": [[r.other_uri, r.label] for r in self.relations],
            "kind": self.kind,
            "segments": [s.to_row() for s in self.segments],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ExtractedDocument":
        """Returns the document that `to_json` wrote; times may be ISO text, or datetimes with `utc_offset` beside them.

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
            source_time=on_own_clock(_from_iso(data["source_time"]), data.get("utc_offset")),
            kind=data.get("kind"),
            metadata=dict(data["metadata"]),
            relations=tuple(StatedRelation(uri, label) for uri, label in data["relations"]),
            segments=tuple(Segment.from_row(row) for row in data["segments"]),
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one source gave.

    Attributes:
        documents: of the source.
        problems: one for each part that could not be read, with where and why.
        left_out: number of parts that are no text or not for people, by kind: pictures, reasoning, edited messages.
    """

    documents: tuple[ExtractedDocument, ...]
    problems: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


ReadResult = Extraction | Rejected
"""What reading a source gave: its documents, or why there are none."""


def _to_iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _from_iso(value: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
