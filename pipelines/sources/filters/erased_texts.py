"""Takes texts that were deleted, or are past their retention, out of extracted documents.

Used where the log is written and where a delete rewrites it, so that a source that is still on disk never brings a
deleted text back. What is left keeps its wording; spans are moved by what went before them.
"""

import datetime as dt
import json
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from palimpsest.core.ids import content_id
from palimpsest.core.needles import Needle, Needles, encoded
from palimpsest.sources.records.extracted import Segment
from palimpsest.sources.records.stated import read_stated
from palimpsest.store.erased_text import ErasedText

Row = dict[str, Any]
"""One extracted document, as `store.ingest_log.EXTRACTION` has it."""
Span = tuple[int, int]

_SHORT = 16  # characters: a shorter text goes only where it opens a line or a sentence
_OPENS = frozenset("\n.!?:;…\"'”\u2019)]")
_OPENING_KINDS = frozenset({"Po", "Pe", "Pf", "So"})  # full stops of any script, closing quotes, bullets, emoji
_INSIDE_A_SENTENCE = frozenset(",&@%/\\،、，·・")  # noqa: RUF001
_BULLETS = frozenset("-*>+#| \t")


def place_key(collection: str, user_id: str, uri: str, session_id: str | None) -> str:
    """Returns the hash of a document's place, the same for all its versions."""
    return content_id("place", collection, user_id, uri, session_id)


class Speakers:
    """Who said what stands at an offset of a document's text, and when."""

    def __init__(self, segments: str | None):
        self._rows = json.loads(segments or "[]")
        self._starts = [row[0] for row in self._rows]

    def said(self, offset: int) -> str:
        """Returns the hash of who said the text at an offset and when."""
        at = bisect_right(self._starts, offset) - 1
        row = self._rows[at] if at >= 0 and offset < self._rows[at][1] else []
        return said_key(row[5], row[6]) if len(row) > 6 else said_key(None, None)


def said_key(speaker: str | None, said_at: str | dt.datetime | None) -> str:
    """Returns the hash of who said a text and when."""
    when = dt.datetime.fromisoformat(said_at) if isinstance(said_at, str) else said_at
    return content_id("said", speaker, when.astimezone(dt.UTC).isoformat() if when else None)


@dataclass(frozen=True)
class ErasedTexts:
    """All deleted texts of a home, ready to be applied to documents."""

    items: frozenset[ErasedText]

    @cached_property
    def _by_place(self) -> dict[str, tuple[Needles, dict[Needle, set[str]]]]:
        grouped: dict[str, dict[Needle, set[str]]] = {}
        for item in self.items:
            grouped.setdefault(item.place, {}).setdefault(item.needle, set()).add(item.said)
        return {place: (Needles(place.encode(), tuple(sorted(n))), n) for place, n in grouped.items()}

    def applied(self, collection: str, row: Row) -> "Applied | None":
        """Returns the document without its deleted texts; None where no text but headings is left."""
        found = self._by_place.get(place_key(collection, row["user_id"], row["uri"], row["session_id"]))
        if found is None or not row["text"]:
            return Applied(row, ())
        needles, said = found
        speakers = Speakers(row["segments"])
        spans = [
            (start, end) for start, end, needle in _found(row["text"], needles) if speakers.said(start) in said[needle]
        ]
        return without_spans(row, spans)


@dataclass(frozen=True)
class Applied:
    """A document after some of its text went, and the spans of its former text that went, in order."""

    row: Row
    gone: tuple[Span, ...]

    def moved(self, offset: int) -> int:
        """Returns where an offset into the former text is now."""
        return offset - sum(min(end, offset) - start for start, end in self.gone if start < offset)


def without_spans(row: Row, spans: Iterable[Span]) -> Applied | None:
    """Returns a document without these spans of its text; None where no text but headings is left."""
    turns = [(s[0], s[1]) for s in json.loads(row["segments"] or "[]") if s[2] == "turn"]
    gone = _merged([_whole_turn(row["text"], turns, *_whole_line(row["text"], *span)) for span in spans])
    if not gone:
        return Applied(row, ())
    applied = Applied(row, tuple(gone))
    text = row["text"]
    left = "".join(text[a:b] for a, b in _between(gone, len(text)))
    segments = []
    for start, end, *rest in json.loads(row["segments"] or "[]"):
        a, b = applied.moved(start), applied.moved(end)
        if left[a:b].strip():
            segments.append([a, b, *rest])
    had = row["segments"] not in (None, "", "[]")
    if not (any(s[2] != "heading" for s in segments) if had else left.strip()):
        return None
    told = json.dumps(segments, ensure_ascii=False)
    changed = {"text": left, "segments": told}
    if row.get("redactions"):
        changed["redactions"] = json.dumps(_moved_redactions(json.loads(row["redactions"]), applied, left))
    return replace(applied, row=row | changed)


def _moved_redactions(redactions: list[list[Any]], applied: Applied, left: str) -> list[list[Any]]:
    """Returns what was redacted of the text that is left, where it is now."""
    out = []
    for kind, name, start, line in redactions:
        if name != "text" or start is None:
            out.append([kind, name, start, line])
        elif not any(a <= start < b for a, b in applied.gone):
            out.append([kind, name, (at := applied.moved(start)), left.count("\n", 0, at) + 1])
    return out


def expired_spans(row: Row, retention_days: int | None, now: dt.datetime) -> list[Span]:
    """Returns the spans of a document that are past their retention: some of its turns, or all of it.

    The shortest of the three retentions holds: of the collection, the document and the turn. What has no date is not
    past it here: its retention counts from when it was read.

    Args:
        row: the document.
        retention_days: of the collection.
        now: the time of the build.
    """
    metadata = json.loads(row["metadata"] or "{}")
    stated = read_stated(metadata, free_words=True)[0] if isinstance(metadata, dict) else None
    days = [d for d in (retention_days, stated.retention_days if stated else None) if d]
    segments = [Segment.from_row(s) for s in json.loads(row["segments"] or "[]")]

    def is_past(said_at: dt.datetime | None, own: int | None) -> bool:
        kept, since = [*days, *([own] if own else [])], said_at or row["source_time"]
        return bool(kept) and since is not None and since <= now - dt.timedelta(days=min(kept))

    if not segments:
        return [(0, len(row["text"]))] if is_past(None, None) else []
    past = [
        (s.char_start, s.char_end)
        for s in segments
        if is_past(s.said_at, s.stated.retention_days if s.stated else None)
    ]
    return [(0, len(row["text"]))] if len(past) == len(segments) else past


def _found(text: str, needles: Needles) -> Iterable[tuple[int, int, Needle]]:
    data = encoded(text)
    plain = len(data) == len(text)
    for a, b, needle in needles.find(data):
        start = a if plain else len(data[:a].decode("utf-8", "surrogatepass"))
        end = b if plain else start + len(data[a:b].decode("utf-8", "surrogatepass"))
        if _stands_alone(text, start, end):
            yield start, end, needle


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Tells whether a span ends at word boundaries; a short one must open a line or a sentence, too."""
    if start and text[start - 1].isalnum() and text[start].isalnum():
        return False
    if end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        return False
    return end - start >= _SHORT or _opens(text, start)


def _opens(text: str, start: int) -> bool:
    """Tells whether a line or a sentence begins here, in any script."""
    before = text[text.rfind("\n", 0, start) + 1 : start].rstrip()
    if not any(c.isalnum() for c in before) or before[-1] in _OPENS or before[-1] in _BULLETS:
        return True
    return before[-1] not in _INSIDE_A_SENTENCE and unicodedata.category(before[-1]) in _OPENING_KINDS


def _whole_line(text: str, start: int, end: int) -> Span:
    """Widens a span over the spaces behind it, and over its line where nothing else but a bullet is on it."""
    while end < len(text) and text[end] in " \t" and (start == 0 or text[start - 1].isspace()):
        end += 1
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    if set(text[line_start:start]) <= _BULLETS and not text[end:line_end].strip():
        return line_start, min(line_end + 1, len(text))
    return start, end


def _whole_turn(text: str, turns: list[Span], start: int, end: int) -> Span:
    """Widens a span that holds a whole turn over the speaker before it and the line end behind it."""
    at = bisect_right(turns, (start, len(text))) - 1
    if at < 0 or turns[at][0] < start or turns[at][1] > end:
        return start, end
    before = turns[at - 1][1] if at else 0
    return max(before, text.rfind("\n", 0, start) + 1), end + (text[end : end + 1] == "\n")


def _merged(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif start < end:
            out.append((start, end))
    return out


def _between(gone: list[Span], length: int) -> list[Span]:
    edges = [0, *(x for span in gone for x in span), length]
    return list(zip(edges[::2], edges[1::2], strict=True))
