"""Cuts erased texts out of retained documents: their ids change with their text, and spans after the cut move."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import polars as pl

from palimpsest.build.stage import Table
from palimpsest.core.ids import text_hash
from palimpsest.memories.documents import version_id
from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.sources.filters.span_removal import TextRemoval
from palimpsest.sources.records.document_row import TextRow

Frames = dict[str, pl.DataFrame]
_FIELDS = ("document_id", "user_id", "project_id", "uri", "session_id", "title", "text", "metadata", "segments")


def cut_texts(
    collection: str, frames: Frames, tables: Sequence[Table], erased: ErasedTexts
) -> tuple[Frames, pl.DataFrame]:
    """Removes erased texts from retained documents.

    Args:
        collection: the collection's name.
        frames: the tables by name.
        tables: their declarations.
        erased: what was erased.

    Returns:
        The tables, and the memories that lost a part of their text, or the text that their pronoun refers to: the next
        build forms them again.
    """
    rows = frames["documents"].join(frames["document_texts"], on="document_id", how="inner")
    changed: dict[str, TextRemoval | None] = {}
    texts: dict[str, dict[str, Any]] = {}
    for row in rows.select(_FIELDS).iter_rows(named=True):
        removal = erased.remove_from(collection, cast(TextRow, row))
        if removal is None or removal.spans:
            changed[row["document_id"]] = removal
        if removal is not None and removal.spans:
            texts[row["document_id"]] = row | {"text": removal.text, "segments": removal.segments}
    hashes = {old: {"content_hash": text_hash(row["text"])} for old, row in texts.items()}
    out = frames | {
        "document_texts": _update(frames["document_texts"], texts, ("text", "segments")),
        "documents": _update(frames["documents"], hashes, ("content_hash",)),
    }
    partial: set[str] = set()
    for table in tables:
        if table.has_spans:
            spans, cut = _moved_spans(frames[table.name], table.key[0], changed)
            out[table.name] = _update(frames[table.name], spans, ("char_start", "char_end"), table.key[0])
            partial |= cut if table.key == ("memory_id",) else set()
    ids = {old: version_id(collection, texts[old]) if old in texts else None for old in changed}
    _rename_documents(out, tables, ids)
    out["redactions"] = _move_redactions(out["redactions"], frames["redactions"], changed)
    for table in tables:
        if "document_id" in out[table.name].columns:
            out[table.name] = out[table.name].filter(pl.col("document_id").is_not_null())
    order = ["document_id", "is_current", "seq"]
    out["documents"] = out["documents"].sort(order).unique("document_id", keep="last", maintain_order=True)
    out["document_texts"] = out["document_texts"].unique("document_id", keep="first").sort("document_id")
    return out, frames["memories"].filter(pl.col("memory_id").is_in(list(partial)))


def _moved_spans(
    frame: pl.DataFrame, key: str, changed: Mapping[str, TextRemoval | None]
) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Returns the spans of rows of cut documents where they are now, and the ids of rows that lost a part."""
    spans: dict[str, dict[str, int]] = {}
    partial: set[str] = set()
    if "refers_to" not in frame.columns:
        frame = frame.with_columns(refers_to=pl.lit(None, dtype=pl.String))
    fields = frame.select(key, "document_id", "char_start", "char_end", "refers_to")
    for row_id, document_id, start, end, refers_to in fields.iter_rows():
        if (removal := changed.get(document_id)) is None:
            continue
        moved = removal.new_offset(start), removal.new_offset(end)
        spans[row_id] = {"char_start": moved[0], "char_end": moved[1]}
        lost_referent = refers_to is not None and refers_to not in removal.text
        if lost_referent or moved[1] - moved[0] != end - start:
            partial.add(row_id)
    return spans, partial


def _rename_documents(frames: Frames, tables: Sequence[Table], ids: dict[str, str | None]) -> None:
    """Gives changed documents their new ids wherever a table names them; the ids of removed ones become null.

    A version that a removed one superseded names the next that is left.
    """
    if not ids:
        return
    following = dict(frames["documents"].select("document_id", "superseded_by").iter_rows())

    def next_left(document_id: str | None) -> str | None:
        while document_id in ids and ids[document_id] is None:
            document_id = following.get(document_id)
        return ids.get(document_id, document_id) if document_id is not None else None

    later = {old: next_left(old) for old in ids}
    for table in tables:
        named = {r.column for r in table.references if r.tables == ("documents",)}
        if table.key == ("document_id",):
            named.add("document_id")
        frames[table.name] = frames[table.name].with_columns(
            pl.col(c).replace(later if c == "superseded_by" else ids) for c in sorted(named)
        )


def _move_redactions(
    renamed: pl.DataFrame, before: pl.DataFrame, changed: Mapping[str, TextRemoval | None]
) -> pl.DataFrame:
    """Moves redactions with their texts; one whose span was cut is removed."""
    rows = []
    for row, old in zip(renamed.to_dicts(), before["document_id"], strict=True):
        removal, start = changed.get(old), row["char_start"]
        if removal is not None and start is not None:
            if any(a <= start < b for a, b in removal.spans):
                continue
            row["char_start"] = removal.new_offset(start)
            row["line"] = removal.text.count("\n", 0, row["char_start"]) + 1
        rows.append(row)
    return pl.DataFrame(rows, schema=renamed.schema)


def _update(
    frame: pl.DataFrame, values: Mapping[str, Mapping[str, object]], columns: tuple[str, ...], key: str = "document_id"
) -> pl.DataFrame:
    """Returns a table in which the columns of some rows have other values; `values` maps the key to them."""
    if not values:
        return frame
    schema = {key: frame.schema[key], **{c: frame.schema[c] for c in columns}}
    rows = [{key: k, **{c: v[c] for c in columns}} for k, v in values.items()]
    return frame.update(pl.DataFrame(rows, schema=schema), on=key, how="left")
