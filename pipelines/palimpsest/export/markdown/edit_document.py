"""A document as a person edited it in its Markdown page."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.export.markdown.page import Page, fields_of, turns_of
from palimpsest.sources.extracted import ExtractedDocument, Segment
from palimpsest.sources.readers.common.clean_text import parse_name
from palimpsest.sources.readers.common.document_head import update_document_head
from palimpsest.sources.readers.common.document_time import check_dates, find_stated_time
from palimpsest.sources.readers.common.front_matter import SCOPE_FIELDS, check_fields, parse_relations
from palimpsest.sources.readers.text_files import markdown_segments
from palimpsest.sources.storage_policy import Redaction, redactions_from_json, redactions_to_json
from palimpsest.sources.text_edits import Edit, apply_edits, remove_spans
from palimpsest.text.dates import DateOrder

_MAX_COMPARED = 4_000_000  # lines times lines; longer changes are one


def edit_document(document: ExtractedDocument, page: Page, dates: DateOrder | None) -> ExtractedDocument | None:
    """Returns the document as its page has it, the same object where nothing was edited; None where nothing is left.

    Args:
        document: that the page was written from.
        page: what the page says.
        dates: which part comes first in dates of three numbers.

    Raises:
        ValueError: a field or a turn cannot be as the page has it; the message says why.
    """
    edited = _with_fields(document, page.fields, dates)
    changed = _with_turns(edited, page.turns) if page.turns is not None else _with_body(edited, page.body)
    if changed is None or changed is document:
        return changed
    changed = update_document_head(document, changed, dates)
    return replace(changed, redactions=relocated_redactions(document.redactions, changed.text))


def _with_fields(
    document: ExtractedDocument, fields: Mapping[str, JsonValue], dates: DateOrder | None
) -> ExtractedDocument:
    before = fields_of(document)
    changed = {name for name in (*fields, *before) if fields.get(name) != before.get(name)}
    if not changed:
        return document
    if scope := sorted(changed.intersection(SCOPE_FIELDS)):
        raise ValueError(f"{scope[0]} cannot be changed: it says whose the text is; put it back")
    metadata: JsonObject = {k: v for k, v in document.metadata.items() if k not in changed}
    metadata |= {name: fields[name] for name in changed if name in fields}
    relations, problems = parse_relations(metadata, document.uri)
    problems += [*check_fields(metadata), *check_dates(metadata, "front matter", dates)]
    if problems:
        raise ValueError(problems[0])
    when, was = find_stated_time(metadata, dates), find_stated_time(document.metadata, dates)
    title = parse_name(metadata.get("title")) if "title" in changed else None
    return replace(
        document,
        metadata=metadata,
        title=title or document.title,
        source_time=when if when != was else document.source_time,
        relations=relations if relations != parse_relations(document.metadata, document.uri)[0] else document.relations,
    )


def _with_turns(document: ExtractedDocument, said: Mapping[int, str]) -> ExtractedDocument | None:
    turns = turns_of(document.segments)
    if unknown := sorted(set(said) - set(range(1, len(turns) + 1))):
        raise ValueError(f"has no turn {unknown[0]}; send a new statement with palimpsest remember")
    edits, removed = [], []
    for number, turn in enumerate(turns, 1):
        text = said.get(number, "")
        if not text:
            removed.append(number - 1)
        elif text != document.text[turn.char_start : turn.char_end].strip():
            edits.append(Edit(turn.char_start, turn.char_end, text))
    if not edits and not removed:
        return document
    edited = apply_edits(document.text, document.segments, edits)
    if not removed:
        return replace(document, text=edited.text, segments=edited.segments)
    spans = [(edited.segments[i].char_start, edited.segments[i].char_end) for i in removed]
    left = remove_spans(edited.text, json.dumps([s.to_row() for s in edited.segments], ensure_ascii=False), spans)
    if left is None or not left.text.strip():
        return None
    return replace(document, text=left.text, segments=tuple(map(Segment.from_row, json.loads(left.segments or "[]"))))


def _with_body(document: ExtractedDocument, body: str) -> ExtractedDocument | None:
    if body.rstrip("\n") == document.text.rstrip("\n"):
        return document
    if not any(c.isalnum() for c in body):
        return None
    if document.media_type == "text/markdown":
        return replace(document, text=body, segments=tuple(markdown_segments(body)))
    edits = list(_line_edits(document.text, body))
    edited = apply_edits(document.text, document.segments, edits)
    return replace(
        document, text=edited.text, segments=tuple(_covering(edited.text, edited.segments, edits, edited.starts))
    )


def _line_edits(before: str, after: str) -> Iterator[Edit]:
    """Yields the lines that differ, as edits of the text before."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = min(len(old), len(new)) - first
    last = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    offsets = [sum(map(len, old[:first]))]
    for line in a:
        offsets.append(offsets[-1] + len(line))
    if len(a) * len(b) > _MAX_COMPARED:
        yield Edit(offsets[0], offsets[-1], "".join(b))
        return
    for tag, i, j, k, n in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Edit(offsets[i], offsets[j], "".join(b[k:n]))


def _covering(
    text: str, segments: tuple[Segment, ...], edits: list[Edit], starts: tuple[int, ...]
) -> Iterator[Segment]:
    """Yields the segments, and one more for each text that was added outside of them, with the headings above it."""
    added = []
    for edit, start in zip(edits, starts, strict=True):
        words = edit.replacement.strip()
        at = start + edit.replacement.find(words) if words else start
        if words and not any(s.char_start <= at < s.char_end for s in segments):
            end = min([at + len(words), *(s.char_start for s in segments if s.char_start > at)])
            above = max((s for s in segments if s.char_end <= at), key=lambda s: s.char_end, default=None)
            added.append(Segment(at, end, "prose", above.heading if above else None, above.page if above else None))
    yield from sorted([*segments, *added], key=lambda s: s.char_start)


def relocated_redactions(redactions: str | None, text: str) -> str | None:
    """Returns the redactions whose marker the text still has, at its place now."""
    if redactions is None:
        return None
    found, at = [], 0
    for redaction in redactions_from_json(redactions):
        if redaction.field != "text":
            found.append(redaction)
            continue
        start = text.find(f"[redacted: {redaction.kind}]", at)
        if start >= 0:
            at = start + 1
            found.append(Redaction(redaction.kind, "text", start, text.count("\n", 0, start) + 1))
    return redactions_to_json(found)
