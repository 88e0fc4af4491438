"""Text built part by part with the exact span of each, and the headings above the current place."""

from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.clean_text import one_line
from palimpsest.sources.records.extracted import Kind, Segment

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
    """Joins parts to one text and keeps the exact span of each."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._parts: list[str] = []
        self._length = 0
        self.segments: list[Segment] = []

    def add(self, text: str, kind: Kind, *, prefix: str = "", gap: str = "\n\n", **fields: Any) -> None:
        """Appends a segment; `gap` goes before it when it is not the first, `prefix` stands before its span.

        Raises:
            Rejected: the text would be longer than the limit.
        """
        lead = (gap if self._parts else "") + prefix
        start = self._length + len(lead)
        self._length = start + len(text)
        if self._length > self._max_chars:
            raise Rejected(f"too large: more than {self._max_chars:,} characters of text; split the source")
        self._parts += (lead, text)
        self.segments.append(Segment(start, self._length, kind, **fields))

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._parts)
