"""How far documents and memories are trusted: what the collection's settings say, lowered by what sources state."""

import json
from collections.abc import Iterator

import polars as pl

from palimpsest.memories.stated_attributes import stated_by_document
from palimpsest.sources.records.stated_fields import StatedFields
from palimpsest.store.trust_config import TrustConfig

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
