"""Writes the Markdown folder of an export: what people read of it, and may edit."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import polars as pl

from palimpsest.core.json_types import JsonObject
from palimpsest.core.times import on_own_clock
from palimpsest.export.layout import MARKDOWN, safe_path
from palimpsest.export.markdown.page import render_page
from palimpsest.memories.documents import version_id
from palimpsest.memories.formed import evidence_pairs, formed_memories, stated_memories
from palimpsest.memories.memory_times import own_clock
from palimpsest.sources.extracted import DocumentRow, row_to_document
from palimpsest.store.ingest_log import IngestLog

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
