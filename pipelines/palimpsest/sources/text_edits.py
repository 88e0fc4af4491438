"""Replaces spans of a document's text and moves its segments, so that every segment still spans its words."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from palimpsest.core.ids import JsonValue
from palimpsest.sources.extracted import HEADINGS, Segment


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


# Removes spans from the text of a document; what is left keeps its wording, and other spans move.

Span = tuple[int, int]
BULLETS = frozenset("-*>+#| \t")


@dataclass(frozen=True)
class TextRemoval:
    """A document's text after spans were removed.

    Attributes:
        text: what is left.
        segments: the segments that are left, as JSON rows; null where there were none.
        spans: what was removed, as sorted spans of the former text.
    """

    text: str
    segments: str | None
    spans: tuple[Span, ...]

    def new_offset(self, offset: int) -> int:
        """Returns where an offset into the former text is now."""
        return offset - sum(min(end, offset) - start for start, end in self.spans if start < offset)

    def move_redactions(self, redactions: str) -> str:
        """Returns the redactions of the text that is left, at their new places; JSON as in `Redaction.to_row`."""
        rows: list[JsonValue] = []
        for kind, name, start, line in json.loads(redactions):
            if name != "text" or start is None:
                rows.append([kind, name, start, line])
            elif not any(a <= start < b for a, b in self.spans):
                offset = self.new_offset(start)
                rows.append([kind, name, offset, self.text.count("\n", 0, offset) + 1])
        return json.dumps(rows)


def remove_spans(text: str, segments: str | None, spans: Iterable[Span]) -> TextRemoval | None:
    """Removes spans, widened to whole lines and turns where nothing else is left of those.

    Args:
        text: of the document.
        segments: its segments, JSON rows as `Segment.to_row` writes them.
        spans: start and end, exclusive, in any order.

    Returns:
        What is left; None where that is no text but headings.
    """
    rows = json.loads(segments or "[]")
    turns = [(row[0], row[1]) for row in rows if row[2] == "turn"]
    merged = _merge_spans([_widen_to_turn(text, turns, *_widen_to_line(text, *span)) for span in spans])
    if not merged:
        return TextRemoval(text, segments, ())
    edges = [0, *(edge for span in merged for edge in span), len(text)]
    left = "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    moved = TextRemoval(left, None, tuple(merged))
    segments_left = []
    for start, end, *rest in rows:
        a, b = moved.new_offset(start), moved.new_offset(end)
        if left[a:b].strip():
            segments_left.append([a, b, *rest])
    had_segments = segments not in (None, "", "[]")
    if not (any(row[2] not in HEADINGS for row in segments_left) if had_segments else left.strip()):
        return None
    return TextRemoval(left, json.dumps(segments_left, ensure_ascii=False), moved.spans)


def _widen_to_line(text: str, start: int, end: int) -> Span:
    """Adds the spaces behind a span, and its line where nothing but a bullet is left on it."""
    while end < len(text) and text[end] in " \t" and (start == 0 or text[start - 1].isspace()):
        end += 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    if set(text[line_start:start]) <= BULLETS and not text[end:line_end].strip():
        return line_start, min(line_end + 1, len(text))
    return start, end


def _widen_to_turn(text: str, turns: list[Span], start: int, end: int) -> Span:
    """Adds the speaker before a whole turn and the line end behind it."""
    i = bisect_right(turns, (start, len(text))) - 1
    if i < 0 or turns[i][0] < start or turns[i][1] > end:
        return start, end
    before = turns[i - 1][1] if i else 0
    return max(before, text.rfind("\n", 0, start) + 1), end + (text[end : end + 1] == "\n")


def _merge_spans(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif start < end:
            merged.append((start, end))
    return merged
