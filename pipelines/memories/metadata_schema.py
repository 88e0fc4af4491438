"""Applies a collection's metadata_schema to the versions of its documents."""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from palimpsest.store.collection_config import schema_parts

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
    rows: pl.DataFrame, schema: dict[str, Any] | None, key: Sequence[str]
) -> tuple[pl.DataFrame, list[dict[str, str]]]:
    """Returns the versions that keep the schema, and a reject for each violation of a current one.

    Where a current version is left out, the last earlier version with the same key takes its place.

    Args:
        rows: document versions with `document_id`, `seq`, `is_current`, `metadata` and the columns of `key`.
        schema: the collection's metadata_schema; with None every version is kept.
        key: the columns that name a document across its versions.
    """
    if schema is None or rows.is_empty():
        return rows, []
    judge = _Judge(schema)
    violations = [judge.violations(row) for row in rows.to_dicts()]
    rows = rows.with_columns(pl.Series("_breaks", [bool(v) for v in violations], pl.Boolean))
    broken = [
        {"uri": uri, "stage": "metadata", "reason": reason}
        for uri, current, reasons in zip(rows["uri"], rows["is_current"], violations, strict=True)
        for reason in (reasons if current else ())
    ]
    lost = rows.filter(pl.col("_breaks") & pl.col("is_current")).select(key).unique()
    kept = rows.filter(~pl.col("_breaks")).drop("_breaks")
    fallback = (
        kept.join(lost, on=key, how="semi", nulls_equal=True)
        .sort("seq", "document_id")
        .unique(key, keep="last", maintain_order=True)["document_id"]
    )
    return kept.with_columns(pl.col("is_current") | pl.col("document_id").is_in(fallback.to_list())), broken


class _Judge:
    """Validates one document: the stated metadata by one schema, the derived fields by another."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from jsonschema import Draft202012Validator

        self._parts = {name: Draft202012Validator(part) for name, part in schema_parts(schema).items()}

    def violations(self, row: dict[str, Any]) -> list[str]:
        """Returns one line for each violation, in a fixed order; each names the field."""
        found = []
        for name, validator in self._parts.items():
            value = json.loads(row["metadata"] or "{}") if name == "custom" else _system(row)
            for error in sorted(validator.iter_errors(value), key=lambda e: list(map(str, e.path))):
                field = ".".join(str(p) for p in error.path) or ("metadata" if name == "custom" else "system")
                found.append(f"{field}: {error.message[:200]}")
        return found


def _system(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the derived fields that have a value; times as ISO 8601."""
    told = {name: row.get(name) for name in SYSTEM_FIELDS}
    told["project_id"] = told["project_id"] or None  # the general memory has no project
    return {n: v.isoformat() if hasattr(v, "isoformat") else v for n, v in told.items() if v is not None}
