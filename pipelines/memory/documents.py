"""The documents table: every version of every document in the ingest log, and which of them is current."""

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from pipelines.config import CollectionConfig
from pipelines.errors import PalimpsestError
from pipelines.store.ids import content_id, text_hash
from pipelines.store.log import EXTRACTION, IngestLog
from pipelines.store.tables import Schema, conform, empty


def document_tables(
    log: IngestLog, config: CollectionConfig, folder: Path
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Returns documents, document_texts, document_relations and rejects, and the stated relations that lead nowhere.

    A document is one (uri, session) of a source; each different content of it is a version with an id of its own. The
    version that the newest state of the source holds is current; the others name it in `superseded_by`.
    """
    versions = log.versions()
    last = versions.group_by("uri").agg(pl.col("ordinal").max().alias("last"), pl.col("gone_at").last())
    frames = [
        log.text(v["text_key"]).with_columns(
            source=pl.lit(v["uri"]), seq=pl.lit(v["ordinal"], pl.Int64), ingested_at=pl.lit(v["seen_at"]),
        )
        for v in versions.to_dicts()
        if v["text_key"]
    ]  # fmt: skip
    extra: Schema = {"source": pl.String, "seq": pl.Int64, "ingested_at": pl.Datetime("us", "UTC")}
    seen = pl.concat([pl.DataFrame(schema=EXTRACTION | extra), *frames], how="vertical_relaxed")
    ids = [
        content_id(
            "document", config.name, r["user_id"], r["uri"], r["session_id"], r["title"], r["text"], r["metadata"]
        )
        for r in seen.select("user_id", "uri", "session_id", "title", "text", "metadata").iter_rows(named=True)
    ]
    rows = (
        seen.with_columns(document_id=pl.Series(ids, dtype=pl.String))
        .sort("document_id", "seq")
        .group_by("document_id", maintain_order=True)
        .agg(pl.exclude("ingested_at").last(), pl.col("ingested_at").first())
        .join(last, left_on="source", right_on="uri", how="left")
        .with_columns(
            collection=pl.lit(config.name),
            is_current=(pl.col("seq") == pl.col("last")) & pl.col("gone_at").is_null(),
            content_hash=pl.col("text").map_elements(text_hash, return_dtype=pl.String),
        )
    )
    key = ["user_id", "uri", "session_id"]
    current = (
        rows.filter("is_current").select(*key, pl.col("document_id").alias("superseded_by")).unique(key, keep="first")
    )
    rows = rows.join(current, on=key, how="left", nulls_equal=True).with_columns(
        superseded_by=pl.when("is_current").then(None).otherwise("superseded_by")
    )
    rows = rows.sort("document_id")
    relations, nowhere = _relations(rows, config, folder)
    return {
        "documents": conform("documents", rows.drop("text", "relations", "segments", "source", "last", "gone_at")),
        "document_texts": conform("document_texts", rows.select("document_id", "text", "segments")),
        "document_relations": relations,
        "rejects": _rejects(log, rows, config),
    }, nowhere


def _relations(rows: pl.DataFrame, config: CollectionConfig, folder: Path) -> tuple[pl.DataFrame, list[str]]:
    """Relations stated by current documents and by the collection's file of them; those that name no source apart."""
    known = set(rows["uri"])
    stated = [
        {"user_id": user, "newer_uri": uri, "older_uri": older, "label": label}
        for user, uri, relations in rows.filter("is_current").select("user_id", "uri", "relations").iter_rows()
        for older, label in json.loads(relations)
    ]
    if config.document_relations:
        stated += [{"user_id": config.user_id, **r} for r in _read_relations(folder / config.document_relations)]
    nowhere = sorted(
        {
            f"{r['newer_uri']} {r['label']}s {r['older_uri']}"
            for r in stated
            if not {r["newer_uri"], r["older_uri"]} <= known
        }
    )
    stated = [r for r in stated if {r["newer_uri"], r["older_uri"]} <= known]
    frame = pl.DataFrame(
        stated, schema={"user_id": pl.String, "newer_uri": pl.String, "older_uri": pl.String, "label": pl.String}
    )
    frame = frame.with_columns(collection=pl.lit(config.name)).unique().sort(pl.all())
    return conform("document_relations", frame), nowhere


def _read_relations(path: Path) -> Iterator[dict[str, str]]:
    """Yields {newer_uri, older_uri, label} of a JSONL file with fields newer, older and label."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise PalimpsestError(
            f"collection.yaml: document_relations: cannot read {path.name}; add it or drop the field ({path})"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            label = {"UPDATE": "UPDATE", "EXTEND": "EXTEND"}[row["label"]]
            yield {"newer_uri": str(row["newer"]), "older_uri": str(row["older"]), "label": label}
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(
                f"{path.name}: line {number}: needs newer, older and label UPDATE or EXTEND ({path})"
            ) from None


def _rejects(log: IngestLog, rows: pl.DataFrame, config: CollectionConfig) -> pl.DataFrame:
    """What could not be read, or breaks the collection's metadata_schema; for sources that are there now."""
    found = [
        {"uri": v["uri"], "stage": "read", "reason": reason}
        for v in log.current().to_dicts()
        for reason in [*([v["reason"]] if v["reason"] else []), *(v["problems"] or [])]
    ]
    if config.metadata_schema is not None:
        from jsonschema import Draft202012Validator

        validator = Draft202012Validator(config.metadata_schema)
        for uri, metadata in rows.filter("is_current").select("uri", "metadata").iter_rows():
            for error in sorted(validator.iter_errors(json.loads(metadata)), key=lambda e: list(map(str, e.path))):
                field = ".".join(str(p) for p in error.path) or "metadata"
                found.append({"uri": uri, "stage": "metadata", "reason": f"{field}: {error.message[:200]}"})
    return conform("rejects", pl.DataFrame(found, schema=empty("rejects").schema).unique().sort(pl.all()))
