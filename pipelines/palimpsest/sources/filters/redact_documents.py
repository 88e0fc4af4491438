"""Replaces the secrets of a document by markers such as `[redacted: aws access key]`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.filters.text_edits import Edit, apply_edits
from palimpsest.sources.records.extracted import ExtractedDocument, Segment
from palimpsest.sources.secrets.find_secrets import Secret, find_secrets


@dataclass(frozen=True, slots=True)
class Redaction:
    """A secret that was removed: its kind and the place of its marker; never the secret, nor a hash of it.

    Attributes:
        kind: such as `aws access key`.
        field: `text`, `title`, `speaker`, `tags`, `relations` or `metadata.<key>`.
        char_start: of the marker in the stored text; None outside of the text.
        line: of the marker in the stored text, from 1; None outside of the text.
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
    lines = _line_numbers(edited.text, edited.starts)
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
