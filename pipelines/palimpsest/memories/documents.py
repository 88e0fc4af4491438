"""The documents table: every version of every document in the ingest log, and which of them is current."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from palimpsest.core.document_versions import VERSION_ORDER
from palimpsest.core.ids import content_id, text_hash
from palimpsest.core.scopes import GENERAL, SCOPE, scope_parts
from palimpsest.memories.document_relations import document_relations
from palimpsest.memories.metadata_schema import without_broken_metadata
from palimpsest.memories.repeated_quotes import without_repeated_quotes
from palimpsest.memories.source_trust import document_trust
from palimpsest.sources.records.extracted import CONVERSATION
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.extraction import EXTRACTION
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.tables import Schema, conform, empty


def document_tables(
    log: IngestLog, config: CollectionConfig, folder: Path
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Returns the tables of documents, by name, and the stated relations of which an end is no source.

    A document is one (user, project, uri, session) of a source; each different content of it is a version with an id
    of its own. The version in the newest state of the source is current; the others name the next in `superseded_by`. A
    version whose metadata violate the collection's metadata_schema is in no table: the last valid one is current.
    """
    versions = log.versions()
    last = versions.group_by("uri").agg(pl.col("ordinal").max().alias("last"), pl.col("gone_at").last())
    extracted = [
        row | {"source": v["uri"], "seq": v["ordinal"], "ingested_at": v["seen_at"]}
        for v in versions.to_dicts()
        if v["text_key"]
        for row in log.rows(v["text_key"])
    ]
    extra: Schema = {"source": pl.String, "seq": pl.Int64, "ingested_at": pl.Datetime("us", "UTC")}
    seen = pl.DataFrame(extracted, schema=EXTRACTION | extra)
    seen = seen.with_columns(pl.col("project_id").fill_null(GENERAL))
    ids = [version_id(config.name, r) for r in seen.select(_ID_FIELDS).iter_rows(named=True)]
    rows = (
        seen.with_columns(document_id=pl.Series(ids, dtype=pl.String))
        .sort("document_id", "seq")
        .group_by("document_id", maintain_order=True)
        .agg(pl.exclude("ingested_at").last(), pl.col("ingested_at").first())
        .join(last, left_on="source", right_on="uri", how="left")
        .with_columns(
            collection=pl.lit(config.name),
            kind=pl.coalesce("kind", kind_of(pl.col("media_type"))),
            is_current=(pl.col("seq") == pl.col("last")) & pl.col("gone_at").is_null(),
            content_hash=pl.col("text").map_elements(text_hash, return_dtype=pl.String),
        )
    )
    key = ["user_id", "project_id", "uri", "session_id"]
    rows, broken = without_broken_metadata(rows, config.metadata_schema, key)
    rows = without_repeated_quotes(rows.filter(~pl.col("user_id").is_in(list(config.users.deny))))
    later = pl.col("document_id").shift(-1).over(key)
    rows = rows.sort(VERSION_ORDER).with_columns(superseded_by=pl.when("is_current").then(None).otherwise(later))
    rows = rows.sort("document_id")
    rows = rows.with_columns(document_trust(rows, config.trust))
    relations, unresolved = document_relations(rows, config, folder)
    return {
        "documents": conform(
            "documents", rows.drop("text", "relations", "segments", "source", "last", "gone_at", "redactions")
        ),
        "document_texts": conform("document_texts", rows.select("document_id", "text", "segments")),
        "document_relations": relations,
        "redactions": _redactions(rows),
        "rejects": _rejects(log, broken),
    }, unresolved


def not_stored(log: IngestLog) -> dict[str, int]:
    """Returns how many turns of the sources that exist now are not stored, by reason."""
    counts: Counter[str] = Counter()
    for reasons in log.current()["not_stored"].drop_nulls():
        counts.update(json.loads(reasons))
    return dict(sorted(counts.items()))


def _redactions(rows: pl.DataFrame) -> pl.DataFrame:
    found = [
        {**row, "kind": kind, "field": field, "char_start": start, "line": line}
        for *place, redactions in rows.select(*_PLACE, "redactions").iter_rows()
        for row in (dict(zip(_PLACE, place, strict=True)),)
        for kind, field, start, line in json.loads(redactions or "[]")
    ]
    frame = pl.DataFrame(found, schema=empty("redactions").schema)
    return conform("redactions", frame.sort("document_id", "field", "char_start", "kind", nulls_last=True))


_PLACE = ("document_id", *SCOPE, "session_id", "uri")
_ID_FIELDS = ("user_id", "project_id", "uri", "session_id", "title", "text", "metadata", "segments")


def version_id(collection: str, row: Mapping[str, str | None]) -> str:
    """Returns the id of a document version, by all of its content; `row` is as `store.ingest_log.EXTRACTION` has it."""
    scope = scope_parts(collection, row["user_id"] or "", row["project_id"] or GENERAL)
    content = [row[field] for field in _ID_FIELDS[2:-1]]
    return content_id("document", *scope, *content, *_stated_by_turns(str(row["segments"])))


def kind_of(media_type: pl.Expr) -> pl.Expr:
    """Returns the kind of source where a reader states none."""
    return pl.when(media_type == CONVERSATION).then(pl.lit("message")).otherwise(pl.lit("file"))


def _stated_by_turns(segments: str) -> list[str]:
    """Returns what the turns of a document state, for its id; empty where they state nothing."""
    if '{"' not in segments:
        return []
    stated = [[row[0], row[7]] for row in json.loads(segments) if len(row) > 7]
    return [json.dumps(stated, sort_keys=True)] if stated else []


def _rejects(log: IngestLog, broken: list[dict[str, str]]) -> pl.DataFrame:
    """Returns what could not be read, or violates the collection's metadata_schema; for sources that exist now."""
    found = [
        {"uri": v["uri"], "stage": "read", "reason": reason}
        for v in log.current().to_dicts()
        for reason in [*([v["reason"]] if v["reason"] else []), *(v["problems"] or [])]
    ]
    return conform("rejects", pl.DataFrame(found + broken, schema=empty("rejects").schema).unique().sort(pl.all()))
