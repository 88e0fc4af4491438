"""Replaces spans of a document's text and moves its segments, so that every segment still spans its words."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from palimpsest.sources.records.extracted import Segment


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replaces `text[start:end]`; an empty replacement removes it."""

    start: int
    end: int
    replacement: str = ""


@dataclass(frozen=True)
class EditedText:
    """A text after edits.

    Attributes:
        text: the text.
        segments: those that are not empty, moved.
        starts: where each edit's replacement begins in `text`.
    """

    text: str
    segments: tuple[Segment, ...]
    starts: tuple[int, ...]


def apply_edits(text: str, segments: Sequence[Segment], edits: Sequence[Edit]) -> EditedText:
    """Applies edits that are in order and do not overlap.

    A segment that begins inside an edit begins after its replacement; one that ends inside ends with it. A segment
    that becomes empty is dropped.
    """
    shifts = [0]  # what is added to an offset behind the first n edits
    starts: list[int] = []
    parts: list[str] = []
    end = length = 0
    for edit in edits:
        unchanged = text[end : edit.start]
        starts.append(length + len(unchanged))
        parts += (unchanged, edit.replacement)
        length += len(unchanged) + len(edit.replacement)
        end = edit.end
        shifts.append(length - end)
    edited = "".join((*parts, text[end:]))
    edit_starts = [e.start for e in edits]

    def move(offset: int, is_start: bool) -> int:
        i = bisect_right(edit_starts, offset if is_start else offset - 1)  # edits that begin before this offset
        if i and (is_start and edits[i - 1].start == offset):
            return starts[i - 1]
        if i and offset < edits[i - 1].end:
            return starts[i - 1] + len(edits[i - 1].replacement)
        return offset + shifts[i]

    spans = ((s, move(s.char_start, True), move(s.char_end, False)) for s in segments)
    moved = tuple(replace(s, char_start=a, char_end=b) for s, a, b in spans if b > a)
    return EditedText(edited, moved, tuple(starts))
