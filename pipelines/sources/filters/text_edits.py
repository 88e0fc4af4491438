"""Replaces spans of a document's text and moves its segments with it, so that every span still holds its words."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from palimpsest.sources.records.extracted import Segment


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """What stands in place of `text[start:end]`; nothing where `by` is empty."""

    start: int
    end: int
    by: str = ""


@dataclass(frozen=True)
class Edited:
    """A text after edits.

    Attributes:
        text: the text.
        segments: those that still hold anything, moved.
        starts: where each edit's replacement begins in `text`.
    """

    text: str
    segments: tuple[Segment, ...]
    starts: tuple[int, ...]


def edited(text: str, segments: Sequence[Segment], edits: Sequence[Edit]) -> Edited:
    """Applies edits that are in order and do not overlap.

    A segment that begins inside an edit begins after its replacement, one that ends inside ends with it; a segment
    of which nothing is left goes.
    """
    ends, shifts = [0], [0]
    starts: list[int] = []
    parts: list[str] = []
    at = length = 0
    for edit in edits:
        kept = text[at : edit.start]
        starts.append(length + len(kept))
        parts += (kept, edit.by)
        length += len(kept) + len(edit.by)
        at = edit.end
        ends.append(at)
        shifts.append(length - at)
    out = "".join((*parts, text[at:]))
    begun = [e.start for e in edits]

    def moved(place: int, is_start: bool) -> int:
        i = bisect_right(begun, place if is_start else place - 1)  # edits that begin before this place
        if i and (is_start and edits[i - 1].start == place):
            return starts[i - 1]
        if i and place < edits[i - 1].end:
            return starts[i - 1] + len(edits[i - 1].by)
        return place + shifts[i]

    spans = ((s, moved(s.char_start, True), moved(s.char_end, False)) for s in segments)
    kept_segments = tuple(replace(s, char_start=a, char_end=b) for s, a, b in spans if b > a)
    return Edited(out, kept_segments, tuple(starts))
