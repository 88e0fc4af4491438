"""How far documents and memories are trusted: what the collection's settings say, lowered by what sources state."""

import datetime as dt
import json
from collections.abc import Iterator
from functools import lru_cache

import polars as pl

from palimpsest.sources.extracted import StatedFields, combine_stated_fields, parse_stated_fields
from palimpsest.store.collection_config import TrustConfig
from palimpsest.store.tables import SCHEMAS, Schema

# Attributes that sources state of memories: type, tags, importance, confidence, kind, privacy and retention.

# Defaults by type and by kind of source, where nobody states a value.
IMPORTANCE = {"preference": 0.7, "task": 0.7, "semantic": 0.6, "summary": 0.6, "inference": 0.4}
CONFIDENCE = {"file": 1.0, "message": 0.9, "import": 0.8, "tool": 0.6}
_NEUTRAL = 0.5
_TOOL_IMPORTANCE = 0.3
_TIME = pl.Datetime("us", "UTC")
_END_OF_TIME = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


def attribute_columns(rows: pl.DataFrame, default_type: str, retention_days: int | None) -> list[pl.Series]:
    """Returns the columns type, tags, importance, confidence, their sources, kind, pii, user_visible, retention_until.

    What a turn states wins over what its document states, and that over the default; of privacy, the stricter wins,
    and of the three retentions (collection, document, turn) the shortest. Retention counts from observed_at or, for an
    undated memory, from when a version of its document that has it was first read.

    Args:
        rows: one row for each memory, with `stated`, `metadata`, `kind` of the document, `observed_at`, `created_at`.
        default_type: type of what states none.
        retention_days: of the collection.
    """
    attributes = [
        _attributes(stated, metadata, kind, default_type, retention_days)
        for stated, metadata, kind in rows.select("stated", "metadata", "kind").iter_rows()
    ]
    columns = [pl.Series(name, [d[i] for d in attributes], dtype) for i, (name, dtype) in enumerate(_COLUMNS.items())]
    days = pl.Series("days", [d[-1] for d in attributes], pl.Int64)
    until = rows.select(pl.coalesce("observed_at", "created_at").cast(_TIME).alias("since"), days).select(
        pl.col("since") + pl.duration(days=pl.col("days"))
    )
    ends = until.to_series().alias("retention_until")
    return [*columns, ends.set(ends > _END_OF_TIME, None)]


_STATED = ("type", "tags", "importance", "importance_source", "confidence", "confidence_source", "kind", "pii")
_COLUMNS: Schema = {name: SCHEMAS["memories"][name] for name in (*_STATED, "user_visible")}

_Attributes = tuple[str, tuple[str, ...], float, str, float, str, str, bool, bool, int | None]


@lru_cache(maxsize=4096)
def _attributes(
    stated: str | None, metadata: str | None, document_kind: str | None, default_type: str, retention_days: int | None
) -> _Attributes:
    turn = StatedFields.from_json(json.loads(stated)) if stated else _NOTHING
    document = stated_by_document(metadata)
    both = combine_stated_fields([turn, document])
    kind = turn.kind or document.kind or document_kind or "file"
    type_ = turn.type or document.type
    importance, importance_source = _first(
        (turn.importance, "turn"),
        (document.importance, "document"),
        (IMPORTANCE.get(type_ or default_type), "type"),
        (_TOOL_IMPORTANCE if kind == "tool" else None, "kind"),
    )
    confidence, confidence_source = _first(
        (turn.confidence, "turn"), (document.confidence, "document"), (CONFIDENCE.get(kind), "kind")
    )
    days = min((d for d in (both.retention_days, retention_days) if d), default=None)
    return (
        type_ or default_type,
        both.tags,
        importance,
        importance_source,
        confidence,
        confidence_source,
        kind,
        bool(both.pii),
        both.user_visible is not False,
        days,
    )


@lru_cache(maxsize=256)
def stated_by_document(metadata: str | None) -> StatedFields:
    """Returns what the metadata of a document state of its memories."""
    try:
        data = json.loads(metadata or "{}")
    except ValueError:
        return _NOTHING
    return (parse_stated_fields(data, free_words=True)[0] or _NOTHING) if isinstance(data, dict) else _NOTHING


def _first(*found: tuple[float | None, str]) -> tuple[float, str]:
    return next(((value, source) for value, source in found if value is not None), (_NEUTRAL, "default"))


_NOTHING = StatedFields()


def document_trust(documents: pl.DataFrame, config: TrustConfig) -> pl.Series:
    """Returns the column `trust` of documents: of the least trusted speaker in each, at most that of its kind.

    What a document states of its own trust can only lower it: a source must not vouch for itself.

    Args:
        documents: document versions with `kind`, `metadata` and `segments`.
        config: the collection's `trust`.
    """
    rows = documents.select("kind", "metadata", "segments").iter_rows()
    found = [_document_trust(kind, metadata, segments, config) for kind, metadata, segments in rows]
    return pl.Series("trust", found, pl.Float64)


def _document_trust(kind: str | None, metadata: str | None, segments: str, config: TrustConfig) -> float:
    stated = stated_by_document(metadata)
    kind = stated.kind or kind or "file"
    found = [config.of_source(kind), *([] if stated.trust is None else [stated.trust])]
    if config.speakers or (config.kinds and '"kind"' in segments):
        found += [config.of_source(turn.kind or kind, speaker) for speaker, turn in _turns(segments)]
    return min(found)


def _turns(segments: str) -> Iterator[tuple[str | None, StatedFields]]:
    for row in json.loads(segments or "[]"):
        if row[5] or len(row) > 7:
            yield row[5], StatedFields.from_json(row[7]) if len(row) > 7 else _NOTHING


def memory_trust(rows: pl.DataFrame, config: TrustConfig) -> pl.Series:
    """Returns the column `trust` of memories: of the speaker, else of the kind, lowered by what is stated.

    A memory of several speakers has no speaker: in a conversation it is trusted as its document is.

    Args:
        rows: one row for each memory, with `kind`, `speaker`, `stated`, `metadata` and `document_trust`.
        config: the collection's `trust`.
    """
    columns = rows.select("kind", "speaker", "stated", "metadata", "document_trust").iter_rows()
    found = [
        _memory_trust(kind, speaker, stated, metadata, of_document, config)
        for kind, speaker, stated, metadata, of_document in columns
    ]
    return pl.Series("trust", found, pl.Float64)


def _memory_trust(
    kind: str,
    speaker: str | None,
    stated: str | None,
    metadata: str | None,
    of_document: float | None,
    config: TrustConfig,
) -> float:
    turn = StatedFields.from_json(json.loads(stated)).trust if stated else None
    lower = [turn, stated_by_document(metadata).trust, None if speaker else of_document]
    return min([config.of_source(kind, speaker), *(t for t in lower if t is not None)])
