"""Brings what the ingest log already contains up to the current settings and deletions.

The files of old versions may be gone, so their extracted text is changed in place.
"""

from collections.abc import Mapping
from typing import Any, cast

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import content_id
from palimpsest.core.sealed_json import read_sealed_json, write_sealed_json
from palimpsest.sources.filters.deletions import Deletions
from palimpsest.sources.filters.storage_policy import reapply_storage_policy
from palimpsest.sources.records.document_row import DocumentRow
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.ingest_log import IngestLog

STORED_BY, DELETED = "stored_by.json", "deleted.json"
"""What was applied to a log already; where these are missing it is applied again."""
STORAGE_POLICY = "palimpsest.sources.filters.storage_policy"
"""The module whose code decides what of a document is stored."""


def update_stored_documents(log: IngestLog, config: CollectionConfig) -> None:
    """Filters versions that were read under other settings or by older code again, once for each state of those."""
    path = log.folder / STORED_BY
    settings = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    key = content_id(code_hash((STORAGE_POLICY,)), *settings)
    if (read_sealed_json(path) or {}).get("key") == key:
        return
    for text_key in log.versions()["text_key"].unique().drop_nulls().sort():
        if not log.text_path(text_key).exists():
            continue
        before = log.rows(text_key)
        after = [row for r in before if (row := reapply_storage_policy(cast(DocumentRow, r), config)) is not None]
        if after != before:
            log.write_text(text_key, after)
    if log.folder.is_dir():
        write_sealed_json(path, {"key": key})


def apply_deletions(log: IngestLog, collection: str, decisions: Decisions) -> tuple[bool, list[tuple[str, str]]]:
    """Removes what was deleted from the log, once for each state of the decisions.

    Returns:
        Whether a deletion was revoked since, so that every source has to be read again; and (uri, content hash) of
        sources of which nothing is left, which are forgotten.
    """
    path = log.folder / DELETED
    applied: dict[str, Any] = read_sealed_json(path) or {"key": Decisions().erased_key, "tombstones": []}
    if applied["key"] == decisions.erased_key:
        return False, []
    deletions = Deletions(collection, decisions)

    def without_deleted(row: Mapping[str, object]) -> Mapping[str, object] | None:
        return deletions.apply(cast(DocumentRow, row))

    _, emptied = log.rewrite(without_deleted)
    last = log.versions().filter(pl.col("uri").is_in(list(emptied))).group_by("uri").last().sort("uri")
    # The file that an imported version replaces must not be read again.
    file_hash = pl.when(pl.col("instead_of").fill_null("") != "").then("instead_of").otherwise("content_hash")
    gone = list(last.select("uri", file_hash).iter_rows())
    log.forget(emptied)
    tombstones = sorted({*decisions.tombstones, *(e.needle.digest for e in decisions.erased)})
    write_sealed_json(path, {"key": decisions.erased_key, "tombstones": tombstones})
    return not set(applied["tombstones"]) <= set(tombstones), gone
