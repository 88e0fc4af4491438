"""Writes the Markdown folder of an export: what people read of it, and may edit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl
import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.core.times import on_own_clock
from palimpsest.export.layout import MARKDOWN, safe_path
from palimpsest.memories.documents import version_id
from palimpsest.memories.formed import evidence_pairs, formed_memories, stated_memories
from palimpsest.memories.recency import own_clock
from palimpsest.sources.extracted import DocumentRow, ExtractedDocument, Segment, row_to_document
from palimpsest.sources.readers.encodings import clean_text, to_json_object
from palimpsest.sources.readers.front_matter import load_yaml_fields
from palimpsest.store.ingest_log import IngestLog

# The Markdown file of a document: its fields as front matter, and its text, or a heading and a text for each turn.

BLOCK = "palimpsest"
"""Field of the front matter that says which document a file is; the others are the document's own."""
_END = "\n---\n"
_HEADING = re.compile(r"### (\d{1,9})\. .*")
_ESCAPED = re.compile(r"^\\*### \d{1,9}\. ", re.MULTILINE)
_FIX = "put it back as it was exported, or export again"


@dataclass(frozen=True)
class Page:
    """What a file says.

    Attributes:
        fields: of the document, as YAML values.
        block: which document it is.
        body: the text of a document that is no conversation.
        turns: the text of each turn by its number, from 1; None of a document that is no conversation.
    """

    fields: Mapping[str, JsonValue]
    block: Mapping[str, JsonValue]
    body: str
    turns: Mapping[int, str] | None


def turns_of(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Returns the turns of a conversation; none where a document has other segments too: it is edited as a text."""
    return segments if all(s.kind == "turn" for s in segments) else ()


def render_page(document: ExtractedDocument, block: JsonObject, notes: Mapping[tuple[int, int], str]) -> str:
    """Returns the file of a document.

    Args:
        document: as the log has it.
        block: which document it is; written under `BLOCK`.
        notes: what the heading of a turn says besides speaker and time, by the span of the turn.
    """
    head = _dump({**document.metadata, BLOCK: block})
    turns = turns_of(document.segments)
    if not turns:
        return f"---\n{head}---\n\n{document.text}"
    parts = [_render_turn(n, turn, document.text, notes) for n, turn in enumerate(turns, 1)]
    return f"---\n{head}---\n\n" + "\n".join(parts)


def fields_of(document: ExtractedDocument) -> JsonObject:
    """Returns the fields of a document as a file that nobody edited has them."""
    return _fields(_dump(document.metadata)) if document.metadata else {}


def parse_page(text: str, name: str, is_conversation: bool | None = None) -> Page:
    """Returns what a file says.

    Args:
        text: of the file.
        name: of the file, for messages.
        is_conversation: whether the document is one; None reads the front matter alone.

    Raises:
        PalimpsestError: the front matter or the headings of turns are not as they were written.
    """
    text = clean_text(text)
    if not text.startswith("---\n") or (end := text.find(_END, 3)) < 0:
        raise PalimpsestError(f"{name}: its front matter, between two lines of three dashes, is gone; {_FIX}")
    fields = _fields(text[4 : end + 1], name)
    block = fields.pop(BLOCK, None)
    if not isinstance(block, dict):
        raise PalimpsestError(f"{name}: field {BLOCK} of its front matter is gone; {_FIX}")
    body = text[end + len(_END) :].removeprefix("\n")
    turns = _parse_turns(body, name) if is_conversation else None
    return Page(fields, block, body, turns)


def _render_turn(number: int, turn: Segment, text: str, notes: Mapping[tuple[int, int], str]) -> str:
    when = turn.said_at.strftime("%Y-%m-%d %H:%M") if turn.said_at else ""
    about = (turn.speaker or "", when, notes.get((turn.char_start, turn.char_end), ""))
    heading = " · ".join(" ".join(part.split()) for part in about if part)
    said = _ESCAPED.sub(lambda m: "\\" + m[0], text[turn.char_start : turn.char_end])
    return f"### {number}. {heading}\n\n{said}\n"


def _parse_turns(body: str, name: str) -> dict[int, str]:
    turns: dict[int, list[str]] = {}
    number = 0
    for line in body.split("\n"):
        if match := _HEADING.fullmatch(line):
            if int(match[1]) <= number:
                raise PalimpsestError(f"{name}: turn {match[1]} is out of order or twice; {_FIX}")
            number = int(match[1])
            turns[number] = []
        elif number:
            turns[number].append(line)
        elif line.strip():
            raise PalimpsestError(f"{name}: has a text before its first turn; write it into a turn, or remember it")
    return {n: _ESCAPED.sub(lambda m: m[0][1:], "\n".join(lines)).strip() for n, lines in turns.items()}


def _dump(fields: Mapping[str, JsonValue]) -> str:
    dumped: str = yaml.safe_dump(dict(fields), allow_unicode=True, sort_keys=True, width=10_000)
    return dumped


def _fields(head: str, name: str = "") -> JsonObject:
    try:
        found = load_yaml_fields(head)
        if not isinstance(found.value, dict) or found.repeated:
            raise ValueError("not a mapping, or a field is given twice")
        return to_json_object(found.value)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, LookupError, AttributeError) as e:
        why = " ".join(str(e).split())[:120]
        raise PalimpsestError(f"{name}: front matter is not valid YAML: {why}; correct it, or export again") from None


FORMED = "formed.md"
Frames = Mapping[str, pl.DataFrame]


def current_rows(log: IngestLog, collection: str, user: str) -> dict[str, tuple[str, DocumentRow]]:
    """Returns the current documents of a user by id, as the log has them, each with the uri of its source."""
    found = {}
    for uri, key in log.current().select("uri", "text_key").iter_rows():
        for row in log.rows(key) if key else ():
            if row["user_id"] == user:
                found[version_id(collection, cast(Mapping[str, str | None], row))] = (str(uri), cast(DocumentRow, row))
    return found


def write_pages(
    out: Path, collection: str, tables: Frames, rows: Mapping[str, tuple[str, DocumentRow]]
) -> list[JsonObject]:
    """Writes a file for each current document of a collection, and one for formed memories.

    Args:
        out: folder of the export.
        collection: name of the collection.
        tables: the user's rows of the published build.
        rows: see `current_rows`.

    Returns:
        Which file is of which document.
    """
    memories = tables["memories"].join(tables["versions"].select("memory_id", "is_latest"), on="memory_id", how="left")
    by_document = memories.partition_by("document_id", as_dict=True)
    entries: list[JsonObject] = []
    taken = {f"{MARKDOWN}/{collection}/{FORMED}".casefold()}
    for document_id, (_, row) in sorted(rows.items(), key=lambda item: _order(item[1][1])):
        own = by_document.get((document_id,), memories.clear())
        several = row["session_id"] is not None
        parts = [row["uri"], f"{row['project_id'] or ''} {row['session_id']}.md".strip()] if several else [row["uri"]]
        parts = parts if several or row["uri"].lower().endswith(".md") else [f"{row['uri']}.md"]
        name = safe_path([MARKDOWN, collection, *parts], taken)
        page = render_page(row_to_document(row), _block(document_id, collection, row, own), _notes(own))
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(page.encode())
        entries.append({"file": name, "collection": collection, "document_id": document_id})
    _write_formed(out / MARKDOWN / collection / FORMED, memories)
    return entries


def _order(row: DocumentRow) -> tuple[str, str, str]:
    return row["uri"], row["project_id"] or "", row["session_id"] or ""


def _block(document_id: str, collection: str, row: DocumentRow, memories: pl.DataFrame) -> JsonObject:
    """Returns which document a file is, and what its memories are like; None and empty values are left out."""
    when, memories = on_own_clock(row["source_time"], row["utc_offset"]), stated_memories(memories)
    block: JsonObject = {
        "document_id": document_id,
        "collection": collection,
        "uri": row["uri"],
        "session_id": row["session_id"],
        "project_id": row["project_id"],
        "title": row["title"],
        "time": when.isoformat() if when else None,
        "types": sorted(memories["type"].drop_nulls().unique()),
        "tags": sorted(memories["tags"].explode().drop_nulls().unique()),
        "importance": cast(float | None, memories["importance"].max()),
        "memories": memories.height,
        "replaced": int((~memories["is_latest"].fill_null(True)).sum()),
    }
    return {name: value for name, value in block.items() if value not in (None, "", [], 0)}


def _notes(memories: pl.DataFrame) -> dict[tuple[int, int], str]:
    """Returns what the headings of turns say of their memories, formed ones left out: those may have the same place."""
    columns = ("char_start", "char_end", "memory_id", "type", "is_latest")
    return {
        (start, end): f"{kind} · {memory_id}" + ("" if is_latest is not False else " · replaced")
        for start, end, memory_id, kind, is_latest in stated_memories(memories).select(columns).iter_rows()
    }


def _write_formed(path: Path, memories: pl.DataFrame) -> None:
    formed = formed_memories(memories)
    if formed.is_empty():
        return
    evidence: dict[str, list[str]] = {}
    for formed_id, evidence_id in evidence_pairs(memories).iter_rows():
        evidence.setdefault(formed_id, []).append(f"[memory:{evidence_id}]")
    lines = [
        "# Formed memories",
        "",
        "They are formed from the documents here; an edit of this page changes nothing.",
        "",
    ]
    ordered = formed.sort("observed_at", "memory_id", nulls_last=True).with_columns(own_clock())
    for row in ordered.iter_rows(named=True):
        day = f"{row['observed_at']:%Y-%m-%d}" if row["observed_at"] else ""
        about = ", ".join(part for part in (row["kind"] or row["type"], day) if part)
        sources = " ".join(evidence.get(row["memory_id"], ()))
        is_replaced = ", replaced" if row["is_latest"] is False else ""
        lines.append(
            f"- {' '.join(row['text'].split())} ({about}{is_replaced}) [memory:{row['memory_id']}] from {sources}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
