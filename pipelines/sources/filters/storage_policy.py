"""What of an extraction enters the ingest log: no secrets, no users who are denied, no turns that nobody wants kept."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from palimpsest.core.code import code_hash
from palimpsest.core.errors import Rejected
from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import content_id
from palimpsest.sources.filters.redact_documents import Kept, Redaction, kept, redacted_text, redactions_json
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, ReadResult
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.ingest_log import IngestLog

_SHOWN = 3


@dataclass(frozen=True)
class Storable:
    """What a source gave as it may be stored, and how many turns may not be, by reason."""

    outcome: ReadResult
    not_stored: Mapping[str, int] = field(default_factory=dict)


def storable(outcome: ReadResult, config: CollectionConfig) -> Storable:
    """Returns what of a source may be stored, by the collection's `secrets`, `store_tool_outputs` and `users.deny`.

    With `secrets: reject` a document that holds one is left out and becomes a problem that names kinds and lines; a
    source of which nothing else is left is rejected.
    """
    keep = config.secrets == "keep"
    if isinstance(outcome, Rejected):
        return Storable(outcome if keep else Rejected(redacted_text(str(outcome))))
    documents: list[ExtractedDocument] = []
    problems = [*outcome.problems] if keep else [redacted_text(p) for p in outcome.problems]
    rejected: list[str] = []
    counts: Counter[str] = Counter()
    for document in outcome.documents:
        if _is_denied(document.user_id, config):
            counts["denied_user"] += _turns(document)
            continue
        found = kept(document, config.secrets, config.store_tool_outputs)
        counts.update(found.left_out)
        if found.document is None:
            continue
        if config.secrets == "reject" and found.redactions:
            rejected.append(_refusal(found))
            continue
        told = None if keep else redactions_json(found.redactions)
        documents.append(replace(found.document, redactions=told))
    if rejected and not documents:
        return Storable(Rejected(rejected[0]), dict(sorted(counts.items())))
    return Storable(Extraction(tuple(documents), (*problems, *rejected)), dict(sorted(counts.items())))


def row_of(document: ExtractedDocument, config: CollectionConfig) -> dict[str, object]:
    """Returns a document as a row of `store.ingest_log.EXTRACTION`."""
    data = document.to_json()
    return {
        "user_id": document.user_id or config.user_id,
        "project_id": document.project_id or config.project_id,
        "session_id": document.session_id,
        "uri": document.uri,
        "title": document.title,
        "media_type": document.media_type,
        "text": document.text,
        "source_time": document.source_time,
        "metadata": json.dumps(document.metadata, sort_keys=True, ensure_ascii=False, default=str),
        "relations": json.dumps(data["relations"], sort_keys=True),
        "segments": json.dumps(data["segments"], ensure_ascii=False),
        "kind": document.kind,
        "redactions": document.redactions,
    }


def document_of(row: Mapping[str, Any]) -> ExtractedDocument:
    """Returns the document that `row_of` wrote."""
    parsed = {name: json.loads(row[name]) for name in ("metadata", "relations", "segments")}
    return replace(ExtractedDocument.from_json({**row, **parsed}), redactions=row["redactions"])


def clean_log(log: IngestLog, config: CollectionConfig) -> None:
    """Brings versions that were read under other settings, or before secrets were looked for, to today's.

    Files of old versions are gone: what the log holds of them is cleaned in place, once for each state of settings.
    """
    path = log.folder / "stored_by.json"
    rules = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    key = content_id(code_hash(("palimpsest.sources.filters.redact_documents",)), *rules)
    if (read_json(path) or {}).get("key") == key:
        return
    for text_key in log.versions()["text_key"].unique().drop_nulls().sort():
        if not log.text_path(text_key).exists():
            continue
        before = log.text(text_key).to_dicts()
        after = [again for row in before if (again := _cleaned(row, config)) is not None]
        if after != before:
            log.write_text(text_key, after)
    if log.folder.is_dir():
        write_json(path, {"key": key})


def _cleaned(row: dict[str, Any], config: CollectionConfig) -> dict[str, Any] | None:
    if _is_denied(row["user_id"], config):
        return None
    found = kept(document_of(row), config.secrets, config.store_tool_outputs)
    if found.document is None or (config.secrets == "reject" and found.redactions):
        return None
    if config.secrets == "keep":
        return row_of(found.document, config)
    before = [Redaction(*told) for told in json.loads(row["redactions"] or "[]")]
    told = redactions_json([*before, *found.redactions])
    return row_of(replace(found.document, redactions=told), config)


def _is_denied(user_id: str | None, config: CollectionConfig) -> bool:
    return (user_id or config.user_id) in config.users.deny


def _turns(document: ExtractedDocument) -> int:
    return sum(s.kind == "turn" for s in document.segments) or 1


def _refusal(found: Kept) -> str:
    shown = [f"{r.kind} in {r.field}{f' line {r.line}' if r.line else ''}" for r in found.redactions[:_SHOWN]]
    more = f" and {len(found.redactions) - _SHOWN} more" if len(found.redactions) > _SHOWN else ""
    session = f"session {found.document.session_id}: " if found.document and found.document.session_id else ""
    return f"{session}holds secrets ({', '.join(shown)}{more}); take them out, or set secrets: redact"
