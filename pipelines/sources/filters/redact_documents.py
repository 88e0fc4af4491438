"""What of a document is kept: turns that nobody wants kept go, secrets are redacted, all before anything is stored."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from palimpsest.sources.filters.text_edits import Edit, edited
from palimpsest.sources.records.extracted import ExtractedDocument, Segment
from palimpsest.sources.secrets.find_secrets import Secret, find_secrets

Secrets = Literal["redact", "reject", "keep"]


@dataclass(frozen=True, slots=True)
class Redaction:
    """A secret that was taken out: its kind and where its marker stands; never the secret, nor a hash of it.

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

    def to_json(self) -> list[Any]:
        """Returns the fields in their order."""
        return [self.kind, self.field, self.char_start, self.line]


@dataclass(frozen=True)
class Kept:
    """A document as it may be stored; None where nothing of it is left.

    Attributes:
        document: without what is left out, its secrets replaced by markers.
        redactions: what was replaced.
        left_out: turns that are not stored, by reason: `tool` and `opted_out`.
    """

    document: ExtractedDocument | None
    redactions: tuple[Redaction, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def kept(document: ExtractedDocument, secrets: Secrets, store_tool_outputs: bool) -> Kept:
    """Returns what of a document may be stored.

    Args:
        document: as a reader gave it.
        secrets: with `keep` secrets stay; with `reject` they are redacted too, and the caller leaves the document out.
        store_tool_outputs: whether the turns of tools are stored.
    """
    left, counts = _without_turns(document, store_tool_outputs)
    if left is None or secrets == "keep":
        return Kept(left, (), counts)
    clean, redactions = redacted(left)
    return Kept(clean, redactions, counts)


def marker(kind: str) -> str:
    """Returns what stands in place of a secret."""
    return f"[redacted: {kind}]"


def redacted_text(text: str) -> str:
    """Returns a text, such as the reason of a reject, with markers in place of its secrets."""
    return _replaced(text, find_secrets(text))


def redacted(document: ExtractedDocument) -> tuple[ExtractedDocument, tuple[Redaction, ...]]:
    """Returns a document without its secrets, and what was replaced."""
    found = find_secrets(document.text)
    out = edited(document.text, document.segments, [Edit(s.start, s.end, marker(s.kind)) for s in found])
    lines = _lines(out.text, out.starts)
    told = [Redaction(s.kind, "text", at, n) for s, at, n in zip(found, out.starts, lines, strict=True)]

    def clean(text: str, name: str, secrets: Sequence[Secret] | None = None) -> str:
        secrets = find_secrets(text) if secrets is None else secrets
        told.extend(Redaction(s.kind, name) for s in secrets)
        return _replaced(text, secrets)

    metadata = {}
    for name, value in document.metadata.items():
        key = clean(name, "metadata")
        metadata[key] = _plain(value, name, f"metadata.{key}", clean)
    changed = replace(
        document,
        text=out.text,
        title=clean(document.title, "title"),
        segments=_segments(out.segments, clean),
        metadata=metadata,
        relations=tuple(replace(r, older_uri=clean(r.older_uri, "relations")) for r in document.relations),
    )
    return changed, tuple(told)


_Clean = Callable[..., str]


def _plain(value: Any, key: str, name: str, clean: _Clean) -> Any:
    """Returns a value of metadata without secrets; `password: ...` is one by the name of its key."""
    if isinstance(value, str):
        lead = f"{key}: "
        found = [s for s in find_secrets(lead + value) if s.start >= len(lead)]
        return clean(value, name, [Secret(s.start - len(lead), s.end - len(lead), s.kind) for s in found])
    if isinstance(value, dict):
        return {_replaced(str(k), find_secrets(str(k))): _plain(v, str(k), name, clean) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, key, name, clean) for v in value]
    if isinstance(value, int) and not isinstance(value, bool) and find_secrets(f"{key}: {value}"):
        return _plain(str(value), key, name, clean)
    return value


def _segments(segments: Sequence[Segment], clean: _Clean) -> tuple[Segment, ...]:
    """Cleans what segments repeat: who speaks, the headings above them, and tags."""
    speakers = {s.speaker for s in segments if s.speaker}
    headings = {s.heading for s in segments if s.heading}
    other: dict[str | None, str] = {n: c for n in sorted(speakers) if (c := clean(n, "speaker")) != n}
    heads: dict[str | None, str] = {h: c for h in sorted(headings) if (c := _replaced(h, find_secrets(h))) != h}
    told = {tag for s in segments if s.stated for tag in s.stated.tags}
    tags = {t: c for t in sorted(told) if (c := clean(t, "tags")) != t}
    if not other and not heads and not tags:
        return tuple(segments)
    return tuple(
        replace(
            s,
            speaker=other.get(s.speaker, s.speaker),
            heading=heads.get(s.heading, s.heading),
            stated=s.stated and replace(s.stated, tags=tuple(tags.get(t, t) for t in s.stated.tags)),
        )
        for s in segments
    )


def _replaced(text: str, secrets: Sequence[Secret]) -> str:
    return edited(text, (), [Edit(s.start, s.end, marker(s.kind)) for s in secrets]).text if secrets else text


def _lines(text: str, starts: Sequence[int]) -> list[int]:
    lines, line, at = [], 1, 0
    for start in starts:
        line += text.count("\n", at, start)
        at = start
        lines.append(line)
    return lines


def _without_turns(
    document: ExtractedDocument, store_tool_outputs: bool
) -> tuple[ExtractedDocument | None, dict[str, int]]:
    """Returns a document without turns of tools and those that opted out, and how many of each there were."""
    if str((document.metadata or {}).get("memory")).strip().lower() in ("off", "false"):
        return None, {"opted_out": sum(s.kind == "turn" for s in document.segments) or 1}
    whole_is_tool = str(document.metadata.get("kind")).strip().lower() == "tool" and not store_tool_outputs
    if whole_is_tool:
        return None, {"tool": sum(s.kind == "turn" for s in document.segments) or 1}
    why = [_why(s, store_tool_outputs) for s in document.segments]
    if not any(why):
        return document, {}
    edits, at = [], 0
    for i, (segment, reason) in enumerate(zip(document.segments, why, strict=True)):
        if reason:  # its "Speaker: " goes with it, up to the turn before
            last = i + 1 == len(why)
            edits.append(Edit(at, len(document.text) if last else segment.char_end))
        at = segment.char_end
    out = edited(document.text, [s for s, reason in zip(document.segments, why, strict=True) if not reason], edits)
    counts = dict(sorted(Counter(r for r in why if r).items()))
    if not out.segments:
        return None, counts
    return _told_by(replace(document, text=out.text, segments=out.segments)), counts


def _why(segment: Segment, store_tool_outputs: bool) -> str:
    stated = segment.stated
    if stated is None:
        return ""
    if stated.memory == "off":
        return "opted_out"
    return "tool" if stated.kind == "tool" and not store_tool_outputs else ""


def _told_by(document: ExtractedDocument) -> ExtractedDocument:
    """Returns a document with the speakers and the time of the turns that are left."""
    times = [s.said_at for s in document.segments if s.said_at]
    speakers = sorted({s.speaker for s in document.segments if s.speaker})
    metadata = document.metadata | ({"speakers": speakers} if "speakers" in document.metadata else {})
    start = len(document.text) - len(document.text.lstrip("\n"))  # a first turn that went left its line end
    moved = tuple(replace(s, char_start=s.char_start - start, char_end=s.char_end - start) for s in document.segments)
    return replace(
        document,
        text=document.text[start:],
        segments=moved,
        metadata=metadata,
        source_time=min(times) if times else document.source_time,
    )


def redactions_json(redactions: Sequence[Redaction]) -> str:
    """Returns redactions as the log keeps them."""
    return json.dumps([r.to_json() for r in redactions])
