"""Text built part by part with the exact span of each, and the headings above the current place."""

from collections.abc import Iterable
from datetime import datetime

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.extracted import ExtractedDocument, Kind, Segment, Source, StatedFields
from palimpsest.sources.readers.common.clean_text import one_line, title_from_uri

_MAX_HEADING_CHARS = 200


class HeadingPath:
    """The headings above the current place."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, str]] = []

    def push(self, level: int, title: str) -> str | None:
        """Enters a heading (1 is the highest level) and returns the path that ends with it."""
        while self._stack and self._stack[-1][0] >= level:
            self._stack.pop()
        if title := one_line(title)[:_MAX_HEADING_CHARS]:
            self._stack.append((level, title))
        return self.path

    @property
    def path(self) -> str | None:
        """The headings joined with " > ", null above the first."""
        return " > ".join(title for _, title in self._stack) or None


class TextBuilder:
    """Joins parts to one text and records the exact span of each."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._parts: list[str] = []
        self._length = 0
        self.segments: list[Segment] = []

    def add(
        self,
        text: str,
        kind: Kind,
        *,
        prefix: str = "",
        gap: str = "\n\n",
        heading: str | None = None,
        page: int | None = None,
        speaker: str | None = None,
        said_at: datetime | None = None,
        stated: StatedFields | None = None,
    ) -> None:
        r"""Appends a segment.

        Args:
            text: of the segment.
            kind: its role.
            prefix: text directly before the segment, outside of its span.
            gap: text between it and the segment before.
            heading: see `Segment`, as all that follow.
            page: from 1.
            speaker: who says it.
            said_at: when, in UTC.
            stated: what it states of its memory.

        Raises:
            Rejected: the text would be longer than the limit.
        """
        lead = (gap if self._parts else "") + prefix
        start = self._length + len(lead)
        self._length = start + len(text)
        if self._length > self._max_chars:
            raise Rejected(f"too large: more than {self._max_chars:,} characters of text; split the source")
        self._parts += (lead, text)
        self.segments.append(Segment(start, self._length, kind, heading, page, speaker, said_at, stated))

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._parts)

    def to_document(
        self,
        source: Source,
        media_type: str,
        *,
        title: str | None = None,
        source_time: datetime | None = None,
        metadata: JsonObject | None = None,
    ) -> ExtractedDocument:
        """Returns the document of a source; without a title it has the name of its file."""
        return ExtractedDocument(
            uri=source.uri,
            media_type=media_type,
            text=self.text,
            title=title or title_from_uri(source.uri),
            source_time=source_time,
            metadata=metadata or {},
            segments=tuple(self.segments),
        )


def first_heading(segments: Iterable[Segment]) -> str | None:
    """Returns the path of the first heading; null where there is none."""
    return next((s.heading for s in segments if s.kind == "heading" and s.heading), None)
