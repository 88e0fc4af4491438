"""Finds the text of a document that is past its retention."""

import datetime as dt
import json

from palimpsest.sources.filters.span_removal import Span
from palimpsest.sources.records.document_row import DocumentRow
from palimpsest.sources.records.extracted import Segment
from palimpsest.sources.records.stated_fields import parse_stated_fields


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
