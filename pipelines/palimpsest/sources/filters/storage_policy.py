"""What of an extraction may be stored, by the collection's `secrets`, `store_tool_outputs` and `users.deny`."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from palimpsest.core.errors import Rejected
from palimpsest.sources.filters.excluded_turns import count_turns, exclude_turns
from palimpsest.sources.filters.redact_documents import (
    Redaction,
    redact_document,
    redact_text,
    redactions_from_json,
    redactions_to_json,
)
from palimpsest.sources.records.document_row import DocumentRow, document_to_row, row_to_document
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, ReadResult
from palimpsest.store.collection_config import CollectionConfig

_MAX_LISTED_SECRETS = 3


@dataclass(frozen=True)
class StorableResult:
    """What of a source may be stored, and how many turns may not be or are no text, by reason."""

    result: ReadResult
    not_stored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StorableDocument:
    """What of a document may be stored.

    Attributes:
        document: None where nothing is left.
        redactions: the secrets that were replaced by markers.
        not_stored: number of turns that were left out, by reason: `tool` and `opted_out`.
    """

    document: ExtractedDocument | None
    redactions: tuple[Redaction, ...] = ()
    not_stored: Mapping[str, int] = field(default_factory=dict)


def apply_storage_policy(result: ReadResult, config: CollectionConfig) -> StorableResult:
    """Returns what of a source may be stored.

    With `secrets: reject` a document with a secret is left out and becomes a problem that names kinds and lines; a
    source of which no other document is left is rejected.
    """
    keeps_secrets = config.secrets == "keep"
    if isinstance(result, Rejected):
        return StorableResult(result if keeps_secrets else Rejected(redact_text(str(result))))
    documents: list[ExtractedDocument] = []
    problems = [*result.problems] if keeps_secrets else [redact_text(p) for p in result.problems]
    refusals: list[str] = []
    counts: Counter[str] = Counter(result.left_out)
    for document in result.documents:
        if is_denied(document.user_id, config):
            counts["denied_user"] += count_turns(document)
            continue
        storable = _filter_document(document, config)
        counts.update(storable.not_stored)
        if storable.document is None:
            continue
        if config.secrets == "reject" and storable.redactions:
            refusals.append(_describe_refusal(storable.document, storable.redactions))
            continue
        redactions = None if keeps_secrets else redactions_to_json(storable.redactions)
        documents.append(replace(storable.document, redactions=redactions))
    not_stored = {reason: n for reason, n in sorted(counts.items()) if n}
    if refusals and not documents:
        return StorableResult(Rejected(refusals[0]), not_stored)
    return StorableResult(Extraction(tuple(documents), (*problems, *refusals)), not_stored)


def reapply_storage_policy(row: DocumentRow, config: CollectionConfig) -> DocumentRow | None:
    """Returns what of a logged document may be stored by the settings of today; None where nothing may."""
    if is_denied(row["user_id"], config):
        return None
    storable = _filter_document(row_to_document(row), config)
    if storable.document is None or (config.secrets == "reject" and storable.redactions):
        return None
    document = storable.document
    if config.secrets != "keep":
        redactions = [*redactions_from_json(row["redactions"]), *storable.redactions]
        document = replace(document, redactions=redactions_to_json(redactions))
    return document_to_row(document, config.user_id, config.project_id)


def is_denied(user_id: str | None, config: CollectionConfig) -> bool:
    """Returns whether nothing of this user may be stored; null is the collection's own user."""
    return (user_id or config.user_id) in config.users.deny


def _filter_document(document: ExtractedDocument, config: CollectionConfig) -> StorableDocument:
    remaining, counts = exclude_turns(document, config.stores_tool)
    if remaining is None or config.secrets == "keep":
        return StorableDocument(remaining, (), counts)
    redacted, redactions = redact_document(remaining)
    return StorableDocument(redacted, redactions, counts)


def _describe_refusal(document: ExtractedDocument, redactions: tuple[Redaction, ...]) -> str:
    listed = [f"{r.kind} in {r.field}{f' line {r.line}' if r.line else ''}" for r in redactions[:_MAX_LISTED_SECRETS]]
    more = f" and {len(redactions) - _MAX_LISTED_SECRETS} more" if len(redactions) > _MAX_LISTED_SECRETS else ""
    session = f"session {document.session_id}: " if document.session_id else ""
    return f"{session}holds secrets ({', '.join(listed)}{more}); take them out, or set secrets: redact"
