"""What of an extraction may be stored, by the collection's `secrets`, `store_tool_outputs` and `users.deny`."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    DocumentRow,
    ExtractedDocument,
    Extraction,
    ReadResult,
    Scope,
    Segment,
    document_to_row,
    row_to_document,
)
from palimpsest.sources.find_secrets import Secret, find_secrets
from palimpsest.sources.text_edits import Edit, apply_edits
from palimpsest.store.collection_config import CollectionConfig

# Leaves out turns of tools and turns that must not be stored.

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


# Replaces the secrets of a document by markers such as `[redacted: aws access key]`.


@dataclass(frozen=True, slots=True)
class Redaction:
    """A secret that was removed: its kind and the place of its marker; never the secret, nor a hash of it.

    Attributes:
        kind: such as `aws access key`.
        field: `text`, `title`, `speaker`, `tags`, `relations` or `metadata.<key>`.
        char_start: of the marker in the stored text; None outside of the text.
        line: of the source where it was read from one, else of the stored text, from 1; None outside of the text.
    """

    kind: str
    field: str
    char_start: int | None = None
    line: int | None = None

    def to_row(self) -> list[JsonValue]:
        """Returns the fields in their order."""
        return [self.kind, self.field, self.char_start, self.line]


def redactions_to_json(redactions: Sequence[Redaction]) -> str:
    """Returns redactions as the log stores them."""
    return json.dumps([r.to_row() for r in redactions])


def redactions_from_json(text: str | None) -> list[Redaction]:
    """Returns the redactions that `redactions_to_json` wrote; none of a document where nothing was searched for."""
    return [Redaction(*row) for row in json.loads(text or "[]")]


def redact_text(text: str) -> str:
    """Returns a text, such as the reason of a reject, with markers in place of its secrets."""
    return _replace_secrets(text, find_secrets(text))


def redact_document(document: ExtractedDocument) -> tuple[ExtractedDocument, tuple[Redaction, ...]]:
    """Returns a document without its secrets, and what was replaced."""
    secrets = find_secrets(document.text)
    edited = apply_edits(document.text, document.segments, [Edit(s.start, s.end, _marker(s.kind)) for s in secrets])
    lines = (line + document.first_line - 1 for line in _line_numbers(edited.text, edited.starts))
    redactor = _Redactor(
        [Redaction(s.kind, "text", at, n) for s, at, n in zip(secrets, edited.starts, lines, strict=True)]
    )
    metadata = redactor.metadata(document.metadata)
    changed = replace(
        document,
        text=edited.text,
        title=redactor.text(document.title, "title"),
        segments=redactor.segments(edited.segments),
        metadata=metadata,
        relations=tuple(replace(r, other_uri=redactor.text(r.other_uri, "relations")) for r in document.relations),
    )
    return changed, tuple(redactor.redactions)


class _Redactor:
    """Redacts the fields of one document and records each redaction."""

    def __init__(self, redactions: list[Redaction]) -> None:
        self.redactions = redactions

    def text(self, text: str, field: str) -> str:
        return self._replace(text, field, find_secrets(text))

    def metadata(self, metadata: Mapping[str, JsonValue]) -> JsonObject:
        redacted: JsonObject = {}
        for name, value in metadata.items():
            key = self.text(name, "metadata")
            redacted[key] = self._value(value, name, f"metadata.{key}")
        return redacted

    def segments(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Redacts what segments repeat: who speaks, the headings above them, and tags."""
        names = sorted({s.speaker for s in segments if s.speaker})
        headings = sorted({s.heading for s in segments if s.heading})
        stated_tags = sorted({tag for s in segments if s.stated for tag in s.stated.tags})
        speakers = _changed(names, lambda name: self.text(name, "speaker"))
        paths = _changed(headings, redact_text)  # the text of the heading itself is recorded already
        tags = _changed(stated_tags, lambda tag: self.text(tag, "tags"))
        if not speakers and not paths and not tags:
            return tuple(segments)
        return tuple(
            replace(
                s,
                speaker=s.speaker and speakers.get(s.speaker, s.speaker),
                heading=s.heading and paths.get(s.heading, s.heading),
                stated=s.stated and replace(s.stated, tags=tuple(tags.get(t, t) for t in s.stated.tags)),
            )
            for s in segments
        )

    def _value(self, value: JsonValue, key: str, field: str) -> JsonValue:
        """Redacts a value of metadata; `password: ...` is a secret because of the name of its key."""
        if isinstance(value, str):
            lead = f"{key}: "
            found = [s for s in find_secrets(lead + value) if s.start >= len(lead)]
            return self._replace(value, field, [Secret(s.start - len(lead), s.end - len(lead), s.kind) for s in found])
        if isinstance(value, Mapping):
            return {redact_text(str(k)): self._value(v, str(k), field) for k, v in value.items()}
        if isinstance(value, list):
            return [self._value(v, key, field) for v in value]
        if isinstance(value, int) and not isinstance(value, bool) and find_secrets(f"{key}: {value}"):
            return self._value(str(value), key, field)
        return value

    def _replace(self, text: str, field: str, secrets: Sequence[Secret]) -> str:
        self.redactions += [Redaction(s.kind, field) for s in secrets]
        return _replace_secrets(text, secrets)


def _changed(values: Sequence[str], redact: Callable[[str], str]) -> dict[str, str]:
    return {value: redacted for value in values if (redacted := redact(value)) != value}


def _marker(kind: str) -> str:
    return f"[redacted: {kind}]"


def _replace_secrets(text: str, secrets: Sequence[Secret]) -> str:
    return apply_edits(text, (), [Edit(s.start, s.end, _marker(s.kind)) for s in secrets]).text if secrets else text


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    """Returns the line, from 1, of each offset; offsets ascend."""
    lines, line, previous = [], 1, 0
    for offset in offsets:
        line += text.count("\n", previous, offset)
        previous = offset
        lines.append(line)
    return lines


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


# What a page of the web may not state: whose its text is, and that it replaces other documents.

_OTHER_OWNER = "states a user_id or project_id of its own; left out: a page of the web belongs to whoever fetched it"
_REPLACES = "states that it replaces or needs other documents; ignored for a page of the web"


def restrict_to_owner(result: ReadResult, owner: Scope, defaults: Scope) -> ReadResult:
    """Returns what was read of a page without documents of another user or project, and without stated relations.

    Args:
        result: of reading the page.
        owner: user and project for whom it was fetched.
        defaults: user and project of documents that state none.
    """
    if isinstance(result, Rejected):
        return result
    kept, problems = [], dict.fromkeys(result.problems)
    for document in result.documents:
        stated = Scope(document.user_id, document.project_id).or_else(defaults)
        if (stated.user_id, stated.project_id) != (owner.user_id, owner.project_id):
            problems[_OTHER_OWNER] = None
            continue
        if document.relations:
            problems[_REPLACES] = None
            document = replace(document, relations=())
        kept.append(document)
    if result.documents and not kept:
        return Rejected(_OTHER_OWNER)
    return Extraction(tuple(kept), tuple(problems), result.left_out)
