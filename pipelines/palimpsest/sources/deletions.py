"""Removes from extracted documents what was deleted by decision, and what is past its retention."""

import datetime as dt
import json
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from palimpsest.core.ids import content_id
from palimpsest.core.needles import Needle, Needles, encode_text
from palimpsest.sources.extracted import DocumentRow, Segment, TextRow, parse_stated_fields
from palimpsest.sources.text_edits import BULLETS, Span, TextRemoval, remove_spans
from palimpsest.store.decisions import Decisions, ErasedText, Utterance

# Finds texts that were deleted one by one, so that a source that is still on disk never brings one back.
#
# Used where the log is written and where a delete rewrites it and the builds.

_MIN_CHARS_INSIDE = 16  # a shorter text is erased only where it begins a line or a sentence
_ENDS_A_SENTENCE = frozenset("\n.!?:;…\"'”\u2019)]")
_ENDING_CATEGORIES = frozenset({"Po", "Pe", "Pf", "So"})  # full stops of any script, closing quotes, bullets, emoji
_INSIDE_A_SENTENCE = frozenset(",&@%/\\،、，·・")  # noqa: RUF001


def place_key(collection: str, user_id: str, uri: str, session_id: str | None) -> str:
    """Returns the hash of where a document is from, the same for all its versions."""
    return content_id("place", collection, user_id, uri, session_id)


def utterance_of(speaker: str | None, said_at: str | dt.datetime | None) -> Utterance:
    """Returns the hashes of who said a text and when."""
    when = dt.datetime.fromisoformat(said_at) if isinstance(said_at, str) else said_at
    said = content_id("said", speaker, when.astimezone(dt.UTC).isoformat() if when else None)
    return Utterance(said, content_id("speaker", speaker))


class TurnIndex:
    """Who speaks at an offset of a document's text, and when."""

    def __init__(self, segments: str | None):
        """Indexes `segments`: JSON rows, as `Segment.to_row` writes them."""
        self._rows = json.loads(segments or "[]")
        self._starts = [row[0] for row in self._rows]

    def utterance_at(self, offset: int) -> Utterance:
        """Returns the hashes of who said the text at an offset and when."""
        i = bisect_right(self._starts, offset) - 1
        row = self._rows[i] if i >= 0 and offset < self._rows[i][1] else []
        return utterance_of(row[5], row[6]) if len(row) > 6 else utterance_of(None, None)


@dataclass(frozen=True)
class ErasedTexts:
    """All deleted texts of a home."""

    items: frozenset[ErasedText]

    @cached_property
    def _by_place(self) -> dict[str, tuple[Needles, dict[Needle, set[Utterance]]]]:
        grouped: dict[str, dict[Needle, set[Utterance]]] = {}
        for item in self.items:
            grouped.setdefault(item.place, {}).setdefault(item.needle, set()).add(item.utterance)
        return {place: (Needles(place.encode(), tuple(sorted(n))), n) for place, n in grouped.items()}

    def remove_from(self, collection: str, row: TextRow) -> TextRemoval | None:
        """Removes the deleted texts of a document; returns None where no text but headings is left.

        A text is deleted as its speaker said it at that time. Where the document has none of that time any more, the
        time was corrected: then it is the same text by the same speaker, whenever it was said.
        """
        found = self._by_place.get(place_key(collection, row["user_id"], row["uri"], row["session_id"]))
        if found is None or not row["text"]:
            return TextRemoval(row["text"], row["segments"], ())
        needles, utterances = found
        turns = TurnIndex(row["segments"])
        matches = [(start, end, n, turns.utterance_at(start)) for start, end, n in _find_texts(row["text"], needles)]
        there = {(n, by.said) for _, _, n, by in matches}
        moved = {(n, by.speaker) for n, deleted in utterances.items() for by in deleted if (n, by.said) not in there}
        spans = [
            (start, end)
            for start, end, n, by in matches
            if any(by.said == deleted.said for deleted in utterances[n]) or (n, by.speaker) in moved
        ]
        return remove_spans(row["text"], row["segments"], spans)


def _find_texts(text: str, needles: Needles) -> Iterator[tuple[int, int, Needle]]:
    """Yields the character spans of the needles that are texts of their own, not pieces of a longer one."""
    data = encode_text(text)
    is_ascii = len(data) == len(text)
    for a, b, needle in needles.find(data):
        start = a if is_ascii else len(data[:a].decode("utf-8", "surrogatepass"))
        end = b if is_ascii else start + len(data[a:b].decode("utf-8", "surrogatepass"))
        if _is_separate(text, start, end):
            yield start, end, needle


def _is_separate(text: str, start: int, end: int) -> bool:
    """Returns whether a span ends at word boundaries, and where it is short, begins a line or a sentence, too."""
    if start and text[start - 1].isalnum() and text[start].isalnum():
        return False
    if end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        return False
    return end - start >= _MIN_CHARS_INSIDE or _begins_sentence(text, start)


def _begins_sentence(text: str, start: int) -> bool:
    """Returns whether a line or a sentence begins here, in any script."""
    before = text[text.rfind("\n", 0, start) + 1 : start].rstrip()
    if not any(c.isalnum() for c in before) or before[-1] in _ENDS_A_SENTENCE or before[-1] in BULLETS:
        return True
    return before[-1] not in _INSIDE_A_SENTENCE and unicodedata.category(before[-1]) in _ENDING_CATEGORIES


@dataclass(frozen=True)
class Deletions:
    """The deletions of one collection."""

    collection: str
    decisions: Decisions

    def apply(self, row: DocumentRow) -> DocumentRow | None:
        """Returns a document without what was deleted, the same object where that is nothing; None if none is left."""
        names = (row["user_id"], row["uri"], row["session_id"], row["project_id"])
        if self.decisions.hides_document(self.collection, *names):
            return None
        removal = self._erased.remove_from(self.collection, row)
        return apply_removal(row, removal) if removal else None

    @cached_property
    def _erased(self) -> ErasedTexts:
        return ErasedTexts(self.decisions.erased)


def apply_removal(row: DocumentRow, removal: TextRemoval) -> DocumentRow:
    """Returns a document after spans of its text were removed, the same object where there were none."""
    if not removal.spans:
        return row
    changed = row.copy()
    changed["text"], changed["segments"] = removal.text, removal.segments
    if redactions := row["redactions"]:
        changed["redactions"] = removal.move_redactions(redactions)
    return changed


# Finds the text of a document that is past its retention.


def expired_spans(row: DocumentRow, retention_days: int | None, now: dt.datetime) -> list[Span]:
    """Returns the spans of a document that are past their retention: some of its turns, or all of it.

    The shortest of the retentions of the collection, the document and the turn applies. What has no date is not
    expired here: its retention counts from when it was read.

    Args:
        row: the document.
        retention_days: of the collection.
        now: the time of the build.
    """
    metadata = json.loads(row["metadata"] or "{}")
    stated = parse_stated_fields(metadata, free_words=True)[0] if isinstance(metadata, dict) else None
    days = [d for d in (retention_days, stated.retention_days if stated else None) if d]
    segments = [Segment.from_row(s) for s in json.loads(row["segments"] or "[]")]

    def is_expired(said_at: dt.datetime | None, turn_days: int | None) -> bool:
        limits, since = [*days, *([turn_days] if turn_days else [])], said_at or row["source_time"]
        return bool(limits) and since is not None and since <= now - dt.timedelta(days=min(limits))

    everything = [(0, len(row["text"]))]
    if not segments:
        return everything if is_expired(None, None) else []
    expired = [
        (s.char_start, s.char_end)
        for s in segments
        if is_expired(s.said_at, s.stated.retention_days if s.stated else None)
    ]
    return everything if len(expired) == len(segments) else expired
