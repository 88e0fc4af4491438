"""Applies a collection's metadata_schema to the versions of its documents."""

import json
from collections.abc import Mapping, Sequence

import polars as pl

from palimpsest.core.json_types import JsonValue
from palimpsest.store.json_schema import schema_parts
from palimpsest.text.document_status import STATUS

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
    """Returns the fields that people wrote as such: a status in the text is no field."""
    fields = json.loads(str(row["metadata"] or "{}"))
    return {name: value for name, value in fields.items() if name != STATUS}


def _system_fields(row: Mapping[str, object]) -> dict[str, object]:
    """Returns the derived fields that have a value; times as ISO 8601."""
    fields = {name: row.get(name) for name in SYSTEM_FIELDS}
    fields["project_id"] = fields["project_id"] or None  # the general memory has no project
    return {n: v.isoformat() if hasattr(v, "isoformat") else v for n, v in fields.items() if v is not None}
