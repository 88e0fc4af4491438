"""The documents table: every version of every document in the ingest log, and which of them is current."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import polars as pl

from palimpsest.core.ids import GENERAL, SCOPE, VERSION_ORDER, JsonValue, content_id, scope_parts, text_hash
from palimpsest.memories.document_relations import document_relations
from palimpsest.memories.source_trust import document_trust
from palimpsest.sources.extracted import CONVERSATION, QUOTED_IN
from palimpsest.store.collection_config import CollectionConfig, schema_parts
from palimpsest.store.ingest_log import EXTRACTION, IngestLog, UnloggedSources
from palimpsest.store.tables import Schema, conform, empty
from palimpsest.text.document_status import STATED_IN_TEXT

# Applies a collection's metadata_schema to the versions of its documents.

SYSTEM_FIELDS = (
    "uri",
    "title",
    "media_type",
    "user_id",
    "project_id",
    "session_id",
    "kind",
    "source_time",
)


def without_broken_metadata(
    rows: pl.DataFrame, schema: Mapping[str, JsonValue] | None, key: Sequence[str]
) -> tuple[pl.DataFrame, list[dict[str, str]]]:
    """Returns the versions that conform to the schema, and a reject for each violation of a current one.

    Where a current version is excluded, the last earlier version with the same key takes its place.

    Args:
        rows: document versions with `document_id`, `seq`, `is_current`, `metadata` and the columns of `key`.
        schema: the collection's metadata_schema; None accepts every version.
        key: the columns that name a document across its versions.
    """
    if schema is None or rows.is_empty():
        return rows, []
    validator = _MetadataValidator(schema)
    violations = [validator.violations(row) for row in rows.to_dicts()]
    rows = rows.with_columns(pl.Series("_is_broken", [bool(v) for v in violations], pl.Boolean))
    broken = [
        {"uri": uri, "stage": "metadata", "reason": reason}
        for uri, current, reasons in zip(rows["uri"], rows["is_current"], violations, strict=True)
        for reason in (reasons if current else ())
    ]
    without_current = rows.filter(pl.col("_is_broken") & pl.col("is_current")).select(key).unique()
    valid = rows.filter(~pl.col("_is_broken")).drop("_is_broken")
    fallback = (
        valid.join(without_current, on=key, how="semi", nulls_equal=True)
        .sort("seq", "document_id")
        .unique(key, keep="last", maintain_order=True)["document_id"]
    )
    return valid.with_columns(pl.col("is_current") | pl.col("document_id").is_in(fallback.to_list())), broken


class _MetadataValidator:
    """Validates one document: the stated metadata by one schema, the derived fields by another."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        from jsonschema import Draft202012Validator

        self._parts = {name: Draft202012Validator(part) for name, part in schema_parts(schema).items()}

    def violations(self, row: Mapping[str, object]) -> list[str]:
        """Returns one line for each violation, in a fixed order; each names the field."""
        found = []
        for name, validator in self._parts.items():
            value = _stated_fields(row) if name == "custom" else _system_fields(row)
            for error in sorted(validator.iter_errors(value), key=lambda e: list(map(str, e.path))):
                field = ".".join(str(p) for p in error.path) or ("metadata" if name == "custom" else "system")
                found.append(f"{field}: {error.message[:200]}")
        return found


def _stated_fields(row: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields that people wrote as such: what the text states is no field."""
    fields = json.loads(str(row["metadata"] or "{}"))
    return {name: value for name, value in fields.items() if name not in STATED_IN_TEXT}


def _system_fields(row: Mapping[str, object]) -> dict[str, object]:
    """Returns the derived fields that have a value; times as ISO 8601."""
    fields = {name: row.get(name) for name in SYSTEM_FIELDS}
    fields["project_id"] = fields["project_id"] or None  # the general memory has no project
    return {n: v.isoformat() if hasattr(v, "isoformat") else v for n, v in fields.items() if v is not None}


# Quotes in mails: a quote makes memories only where the quoted mail is not a source itself.


def without_repeated_quotes(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns document versions without the quotes whose words another current document of the scope contains.

    A mail and a reply that quotes it would make the same memories twice. Of equal quotes the one with the lowest id is
    kept.

    Args:
        rows: document versions with document_id, user_id, project_id, metadata, text and is_current.
    """
    is_quote = pl.col("metadata").fill_null("").str.contains(f'"{QUOTED_IN}"', literal=True)
    words = pl.col("text").fill_null("").str.replace_all(r"[\s>]+", " ").str.strip_chars().str.to_lowercase()
    state = rows.select("document_id", "user_id", "project_id", "is_current", quote=is_quote, words=words)
    if not state["quote"].any():
        return rows
    repeated: set[str] = set()
    for _, scope in state.group_by("user_id", "project_id", maintain_order=True):
        whole = [f" {text} " for text in scope.filter(pl.col("is_current") & ~pl.col("quote"))["words"]]
        quotes = scope.filter("quote").sort("is_current", "document_id", descending=[True, False])
        seen: set[str] = set()
        for document_id, text in quotes.select("document_id", "words").iter_rows():
            if text in seen or any(f" {text} " in other for other in whole):
                repeated.add(document_id)
            seen.add(text)
    return rows.filter(~pl.col("document_id").is_in(sorted(repeated)))


def document_tables(
    log: IngestLog | UnloggedSources, config: CollectionConfig, folder: Path
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
        "rejects": _rejects(config.name, log, broken, set(rows.filter("is_current")["uri"])),
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


def _rejects(
    name: str, log: IngestLog | UnloggedSources, broken: list[dict[str, str]], current: Set[str]
) -> pl.DataFrame:
    """Returns what could not be read, or violates the collection's metadata_schema; for sources that exist now."""
    found = [
        {"uri": v["uri"], "stage": "read", "reason": reason, "is_kept": v["unread_hash"] is not None}
        for v in log.current().to_dicts()
        for reason in [*([v["reason"]] if v["reason"] else []), *(v["problems"] or [])]
    ]
    found += [row | {"is_kept": row["uri"] in current} for row in broken]
    frame = pl.DataFrame(found, schema=empty("rejects").schema).with_columns(collection=pl.lit(name))
    return conform("rejects", frame.unique().sort(pl.all()))
