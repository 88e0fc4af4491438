"""The chunks table: the spans of every document version, the newest version of a document winning a shared span."""

import json
from collections.abc import Sequence

import polars as pl

from pipelines.config import CollectionConfig
from pipelines.corpus.chunk import chunk_documents
from pipelines.corpus.tokens import count_tokens_batch
from pipelines.corpus.types import ExtractedDocument
from pipelines.store.ids import content_id
from pipelines.store.tables import conform, empty


def chunk_table(
    documents: pl.DataFrame,
    texts: pl.DataFrame,
    config: CollectionConfig,
    before: tuple[pl.DataFrame, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Returns one row for each different span text of each document, sorted by (document_id, ordinal).

    chunk_id is content-addressed over (collection, user, uri, session, text, n-th occurrence there), so a text that an
    edit left alone keeps its id; its offsets are those of the newest version that holds it.

    Args:
        documents: the documents table.
        texts: the document_texts table.
        config: the collection.
        before: (documents, chunks) of an earlier build made by the same code; their spans are carried over.
    """
    todo = documents
    carried = empty("chunks")
    if before is not None:
        was_current = before[0].select("document_id", was_current="is_current")
        todo = documents.join(was_current, on="document_id", how="left").filter(
            pl.col("was_current").is_null() | (pl.col("is_current") & ~pl.col("was_current"))
        )
        carried = before[1].join(documents, on="document_id", how="semi")
    counts = dict(before[1].select("text", "token_count").iter_rows()) if before is not None else {}
    fresh = _chunk(todo.join(texts, on="document_id", how="left", maintain_order="left"), config, counts)
    seq = documents.select("document_id", "seq", "is_current")
    rows = (
        pl.concat([carried, fresh])
        .join(seq, on="document_id", how="left")
        .sort("chunk_id", "is_current", "seq", "document_id")
        .unique("chunk_id", keep="last", maintain_order=True)
    )
    return conform("chunks", rows.drop("seq", "is_current").sort("document_id", "ordinal", "chunk_id"))


def _chunk(rows: pl.DataFrame, config: CollectionConfig, counts: dict[str, int]) -> pl.DataFrame:
    """Cuts documents into chunks; `counts` are the token counts of texts that an earlier build counted."""

    def count_tokens(texts: Sequence[str]) -> list[int]:
        unknown = [t for t in dict.fromkeys(texts) if t not in counts]
        counts.update(zip(unknown, count_tokens_batch(unknown), strict=True))
        return [counts[t] for t in texts]

    documents = [
        ExtractedDocument.from_json(
            {
                "uri": r["uri"], "session_id": r["session_id"], "user_id": r["user_id"], "project_id": r["project_id"],
                "title": r["title"], "media_type": r["media_type"], "text": r["text"], "source_time": r["source_time"],
                "metadata": {}, "relations": [], "segments": json.loads(r["segments"]),
            }
        )
        for r in rows.to_dicts()
    ]  # fmt: skip
    out: list[dict[str, object]] = []
    for document_id, document, chunks in zip(
        rows["document_id"], documents, chunk_documents(documents, config.unit, count_tokens), strict=True
    ):
        occurrences: dict[str, int] = {}
        for chunk in chunks:
            n = occurrences[chunk.text] = occurrences.get(chunk.text, 0) + 1
            out.append(
                {
                    "chunk_id": content_id(
                        "chunk", config.name, document.user_id, document.uri, document.session_id, chunk.text, n
                    ),
                    "document_id": document_id, "collection": config.name, "user_id": document.user_id,
                    "ordinal": chunk.ordinal, "text": chunk.text, "char_start": chunk.char_start,
                    "char_end": chunk.char_end, "heading": chunk.heading, "page": chunk.page, "speaker": chunk.speaker,
                    "said_at": chunk.said_at, "token_count": chunk.token_count,
                }
            )  # fmt: skip
    return pl.DataFrame(out, schema=empty("chunks").schema)
