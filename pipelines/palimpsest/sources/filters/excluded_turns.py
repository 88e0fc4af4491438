"""Leaves out turns of tools and turns that must not be stored."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from palimpsest.sources.filters.text_edits import Edit, apply_edits
from palimpsest.sources.records.extracted import ExtractedDocument, Segment

Reason = Literal["opted_out", "tool"]


def count_turns(document: ExtractedDocument) -> int:
    """Returns the number of turns; a document without turns counts as one."""
    return sum(s.kind == "turn" for s in document.segments) or 1


StoresTool = Callable[[str | None], bool]
"""From the name of a tool: whether its turns are stored."""


def exclude_turns(
    document: ExtractedDocument, stores_tool: StoresTool
) -> tuple[ExtractedDocument | None, dict[str, int]]:
    """Returns a document without turns that must not be stored, None where none is left, and their number by reason."""
    if reason := _reason_of_document(document, stores_tool):
        return None, {reason: count_turns(document)}
    reasons = [_reason_of_turn(s, stores_tool) for s in document.segments]
    if not any(reasons):
        return document, {}
    edits, previous_end = [], 0
    for i, (segment, reason) in enumerate(zip(document.segments, reasons, strict=True)):
        if reason:  # its "Speaker: " goes with it, up to the turn before
            is_last = i + 1 == len(reasons)
            edits.append(Edit(previous_end, len(document.text) if is_last else segment.char_end))
        previous_end = segment.char_end
    remaining = [s for s, reason in zip(document.segments, reasons, strict=True) if not reason]
    edited = apply_edits(document.text, remaining, edits)
    counts: dict[str, int] = dict(sorted(Counter(r for r in reasons if r).items()))
    if not edited.segments:
        return None, counts
    return _update_speakers_and_time(replace(document, text=edited.text, segments=edited.segments)), counts


def _reason_of_document(document: ExtractedDocument, stores_tool: StoresTool) -> Reason | None:
    if str((document.metadata or {}).get("memory")).strip().lower() in ("off", "false"):
        return "opted_out"
    is_tool = str(document.metadata.get("kind")).strip().lower() == "tool"
    return "tool" if is_tool and not stores_tool(None) else None


def _reason_of_turn(segment: Segment, stores_tool: StoresTool) -> Reason | None:
    stated = segment.stated
    if stated is None:
        return None
    if stated.memory == "off":
        return "opted_out"
    return "tool" if stated.kind == "tool" and not stores_tool(segment.speaker) else None


def _update_speakers_and_time(document: ExtractedDocument) -> ExtractedDocument:
    """Returns a document with the speakers and the time of the turns that are left."""
    times = [s.said_at for s in document.segments if s.said_at]
    speakers = sorted({s.speaker for s in document.segments if s.speaker})
    metadata = document.metadata | ({"speakers": speakers} if "speakers" in document.metadata else {})
    start = len(document.text) - len(document.text.lstrip("\n"))  # a first turn that was removed left its line end
    moved = tuple(replace(s, char_start=s.char_start - start, char_end=s.char_end - start) for s in document.segments)
    return replace(
        document,
        text=document.text[start:],
        segments=moved,
        metadata=metadata,
        source_time=min(times) if times else document.source_time,
    )
