"""The chunks table: the spans of every document version, the newest version of a document winning a shared span."""

import datetime as dt
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from palimpsest.chunks.cut import Chunk, chunk_documents
from palimpsest.core.ids import DOCUMENT, GENERAL, SCOPE, VERSION_ORDER, content_id, scope_parts
from palimpsest.core.progress import progress
from palimpsest.core.times import utc_offset
from palimpsest.sources.extracted import ExtractedDocument, combine_stated_fields
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform, empty
from palimpsest.text.tokenizer import CountTokens, count_tokens_batch

_BATCH_DOCUMENTS = 500
_TIMES = ("source_time", "utc_offset", "segments")
_CONTENT = ("heading", "refers_to", "stated")
"""What a chunk says beside what its id is made of, and beside where it is."""


def chunk_table(
    documents: pl.DataFrame,
    texts: pl.DataFrame,
    config: CollectionConfig,
    previous: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Returns one row for each different span text of each document, sorted by (document_id, ordinal).

    chunk_id is content-addressed over (collection, user, uri, session, text, speaker, time, n-th occurrence of all
    that), so a text that an edit left alone keeps its id; its offsets are those of the newest version that holds it.
    `created_at` is when its first version was read, `updated_at` when the one since which its other contents are equal.

    Args:
        documents: the documents table.
        texts: the document_texts table.
        config: the collection.
        previous: (documents, document_texts, chunks) of an earlier build made by the same code; their spans are
            carried over.
    """
    todo = documents
    carried = empty("chunks")
    if previous is not None:
        todo = _changed_documents(_with_times(documents, texts), _with_times(*previous[:2])).drop("segments")
        kept = documents.join(todo, on="document_id", how="anti")
        carried = previous[2].join(kept, on="document_id", how="semi")
    counts = dict(previous[2].select("text", "token_count").iter_rows()) if previous is not None else {}
    fresh = _chunk(todo.join(texts, on="document_id", how="left", maintain_order="left"), config, counts)
    versions = documents.select("document_id", "seq", "is_current", "ingested_at")
    rows = (
        pl.concat([carried, fresh])
        .join(versions, on="document_id", how="left")
        .with_columns(pl.coalesce(time, "ingested_at").alias(time) for time in ("created_at", "updated_at"))
        .sort("chunk_id", *VERSION_ORDER)
    )
    return conform("chunks", _newest(rows).select(empty("chunks").columns).sort("document_id", "ordinal", "chunk_id"))


def _newest(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the last row of each chunk, with the times of all of its rows.

    The row of an earlier build has the times of all versions until then, so that an update gives what all rows give.
    """
    repeated = pl.col("chunk_id").is_duplicated()
    equal = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).last().over("chunk_id")) for c in _CONTENT)
    times = (
        rows.filter(repeated)
        .with_columns(unchanged=equal.cum_min(reverse=True).over("chunk_id"))
        .group_by("chunk_id")
        .agg(pl.col("created_at").min(), pl.col("updated_at").filter("unchanged").min())
    )
    return rows.unique("chunk_id", keep="last", maintain_order=True).update(times, on="chunk_id", how="left")


def _changed_documents(documents: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Returns the versions that are new, and all of a document to whose known versions more happened than new ones.

    A version whose times were corrected has its id, which its texts make, and counts as new. The newest version wins a
    shared span, and times are those of the versions before it: where one came back, is gone or was read at another
    time, spans change hands or times among the known ones.
    """
    version = pl.format("{}@{} ", "document_id", pl.col("ingested_at").dt.epoch("us").fill_null(0))

    def order(frame: pl.DataFrame) -> pl.DataFrame:
        ordered = frame.sort(VERSION_ORDER).with_columns(version=version)
        return ordered.group_by(DOCUMENT, maintain_order=True).agg(pl.col("version").str.join().alias("order"))

    pairs = order(documents).join(order(before), on=DOCUMENT, how="inner", suffix="_before", nulls_equal=True)
    moved = pairs.filter(~pl.col("order").str.starts_with(pl.col("order_before")))
    again = documents.join(moved, on=DOCUMENT, how="semi", nulls_equal=True)
    new = documents.join(before, on=["document_id", *_TIMES], how="anti", nulls_equal=True)
    return pl.concat([new, again]).unique("document_id", keep="first").sort("document_id")


def _with_times(documents: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Returns documents with their segments, which have the times of their turns."""
    return documents.join(texts.select("document_id", "segments"), on="document_id", how="left")


def _chunk(rows: pl.DataFrame, config: CollectionConfig, counts: dict[str, int]) -> pl.DataFrame:
    """Cuts documents into chunks; `counts` are the token counts of texts that an earlier build counted."""

    def count_tokens(texts: Sequence[str]) -> list[int]:
        unknown = [t for t in dict.fromkeys(texts) if t not in counts]
        counts.update(zip(unknown, count_tokens_batch(unknown), strict=True))
        return [counts[t] for t in texts]

    out: list[dict[str, object]] = []
    for document_id, document, chunks in _cut(rows, config, count_tokens):
        occurrences: dict[tuple[object, ...], int] = {}
        stated = _stated_by(document)
        owner = (config.name, document.user_id or "", document.project_id or GENERAL)
        scope = scope_parts(*owner)
        for chunk in chunks:
            # Speaker and time are part of it: or an edited "Yes." would hand its id to the next one, by somebody else.
            said_at = chunk.said_at.astimezone(dt.UTC) if chunk.said_at else None
            content = (chunk.text, chunk.speaker, said_at.isoformat() if said_at else None)
            n = occurrences[content] = occurrences.get(content, 0) + 1
            out.append(
                {
                    "chunk_id": content_id("chunk", *scope, document.uri, document.session_id, *content, n),
                    "document_id": document_id,
                    **dict(zip(SCOPE, owner, strict=True)),
                    "ordinal": chunk.ordinal,
                    "text": chunk.text,
                    "char_start": chunk.char_start,
                    "char_end": chunk.char_end,
                    "heading": chunk.heading,
                    "page": chunk.page,
                    "speaker": chunk.speaker,
                    "said_at": said_at,
                    "utc_offset": utc_offset(chunk.said_at),
                    "token_count": chunk.token_count,
                    "refers_to": chunk.refers_to,
                    "stated": stated(chunk),
                }
            )
    return pl.DataFrame(out, schema=empty("chunks").schema)


def _stated_by(document: ExtractedDocument) -> Callable[[Chunk], str | None]:
    """Returns a function from a chunk to what its turns state: JSON, or None where they state nothing."""
    spans = [(s.char_start, s.char_end, s.stated) for s in document.segments if s.stated]
    starts = [start for start, _, _ in spans]

    def stated(chunk: Chunk) -> str | None:
        first = bisect_right(starts, chunk.char_start) - 1
        last = bisect_left(starts, chunk.char_end)
        found = [s for _, end, s in spans[max(first, 0) : last] if end > chunk.char_start]
        return json.dumps(combine_stated_fields(found).to_json(), sort_keys=True) if found else None

    return stated


def _cut(
    rows: pl.DataFrame, config: CollectionConfig, count_tokens: CountTokens
) -> Iterator[tuple[str, ExtractedDocument, list[Chunk]]]:
    """Yields each document with its chunks; a few hundred at a time, so that tokens are counted in large batches."""
    with progress("chunk", rows.height, "documents") as advance:
        for batch in rows.iter_slices(_BATCH_DOCUMENTS):
            documents = [
                ExtractedDocument.from_json(
                    {
                        "uri": r["uri"],
                        "session_id": r["session_id"],
                        "user_id": r["user_id"],
                        "project_id": r["project_id"],
                        "title": r["title"],
                        "media_type": r["media_type"],
                        "text": r["text"],
                        "source_time": r["source_time"],
                        "metadata": {},
                        "relations": [],
                        "segments": json.loads(r["segments"]),
                    }
                )
                for r in batch.to_dicts()
            ]
            yield from zip(
                batch["document_id"], documents, chunk_documents(documents, config.unit, count_tokens), strict=True
            )
            advance(batch.height)
