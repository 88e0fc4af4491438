"""A document as a row of the ingest log, see `store.ingest_log.EXTRACTION`."""

import json
from dataclasses import replace
from datetime import datetime
from typing import TypedDict

from palimpsest.core.times import utc_offset
from palimpsest.sources.records.extracted import ExtractedDocument


class TextRow(TypedDict):
    """The text of a document and where it is from; `segments` is JSON."""

    user_id: str
    session_id: str | None
    uri: str
    text: str
    segments: str | None


class DocumentRow(TextRow):
    """A row of the log; `metadata`, `relations` and `redactions` are JSON."""

    project_id: str | None
    title: str
    media_type: str
    source_time: datetime | None
    utc_offset: int | None
    metadata: str
    relations: str
    kind: str | None
    redactions: str | None


def document_to_row(document: ExtractedDocument, user_id: str, project_id: str | None) -> DocumentRow:
    """Returns the row of a document; `user_id` and `project_id` apply where it names none."""
    data = document.to_json()
    return {
        "user_id": document.user_id or user_id,
        "project_id": document.project_id or project_id,
        "session_id": document.session_id,
        "uri": document.uri,
        "title": document.title,
        "media_type": document.media_type,
        "text": document.text,
        "source_time": document.source_time,
        "utc_offset": utc_offset(document.source_time),
        "metadata": json.dumps(document.metadata, sort_keys=True, ensure_ascii=False, default=str),
        "relations": json.dumps(data["relations"], sort_keys=True),
        "segments": json.dumps(data["segments"], ensure_ascii=False),
        "kind": document.kind,
        "redactions": document.redactions,
    }


def row_to_document(row: DocumentRow) -> ExtractedDocument:
    """Returns the document that `document_to_row` wrote."""
    parsed = {
        "metadata": json.loads(row["metadata"]),
        "relations": json.loads(row["relations"]),
        "segments": json.loads(row["segments"] or "[]"),
    }
    return replace(ExtractedDocument.from_json({**row, **parsed}), redactions=row["redactions"])
