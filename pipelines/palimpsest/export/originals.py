"""The files that a user's documents were read from, where they hold nothing but what is stored of that user."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.export.layout import ORIGINALS, safe_path
from palimpsest.sources.discovery import SourceFile
from palimpsest.sources.records.scope import Scope
from palimpsest.sources.workers.pool import read_sources
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.inbox import is_inbox_uri
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import is_web_uri


@dataclass(frozen=True)
class Originals:
    """What is in the folder of originals, and what is not, each with its collection and uri."""

    copied: list[JsonObject]
    left_out: list[JsonObject]


def copy_originals(
    out: Path,
    config: CollectionConfig,
    log: IngestLog,
    files: Mapping[str, SourceFile],
    decisions: Decisions,
    user: str,
) -> Originals:
    """Copies the current file of each source of a user.

    Args:
        out: folder of the export.
        config: of the collection.
        log: its log.
        files: its files by uri, as they are now.
        decisions: where anything was deleted, files are read again: one may still have what the log has not.
        user: the user.
    """
    found = Originals([], [])
    taken: set[str] = set()
    rows: dict[str, Mapping[str, object]] = {}
    reasons: dict[str, str] = {}
    for row in log.current().filter(pl.col("text_key").is_not_null()).iter_rows(named=True):
        texts = log.text(row["text_key"])
        if user in texts["user_id"]:
            rows[row["uri"]] = row
            reasons[row["uri"]] = _why_not(row, texts, files.get(row["uri"]), user)
    if decisions.tombstones or decisions.erased:
        wanted = [uri for uri, reason in reasons.items() if not reason]
        reasons |= dict(_with_more_than_the_log(wanted, config, log, rows, files))
    for uri, reason in sorted(reasons.items()):
        if reason:
            found.left_out.append({"collection": config.name, "uri": uri, "reason": reason})
            continue
        name = f"{ORIGINALS}/{config.name}/{safe_path([uri], taken)}"
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files[uri].path, out / name)
        found.copied.append({"file": name, "collection": config.name, "uri": uri})
    return found


def _why_not(row: Mapping[str, object], texts: pl.DataFrame, file: SourceFile | None, user: str) -> str:
    """Returns why a file is not copied; empty where it is."""
    if set(texts["user_id"]) != {user}:
        return "the file has texts of other users too"
    if is_inbox_uri(str(row["uri"])):
        return "it was sent to the inbox; its text is in sources.json"
    if is_web_uri(str(row["uri"])):
        return "it was read from the web; its text is in sources.json"
    if row["instead_of"] is not None or file is None or not file.path.is_file():
        return "it was imported, or the file is gone"
    if file.content_hash != row["content_hash"]:
        return "the file changed since it was read"
    if row["not_stored"] or row["left_out"] or any(r not in (None, "[]") for r in texts["redactions"]):
        return "parts of the file are not stored, or are redacted"
    return ""


def _with_more_than_the_log(
    uris: list[str],
    config: CollectionConfig,
    log: IngestLog,
    rows: Mapping[str, Mapping[str, object]],
    files: Mapping[str, SourceFile],
) -> Iterator[tuple[str, str]]:
    """Yields the sources whose file has a text that the log does not have, with the reason to leave them out."""
    defaults = Scope(config.user_id, config.project_id)
    items = ((files[uri].path, uri) for uri in uris)
    for uri, result in read_sources(items, config.limits, dates=config.dates, defaults=defaults):
        logged = set(log.text(str(rows[uri]["text_key"])).select("uri", "session_id", "text").iter_rows())
        if isinstance(result, Rejected) or any((d.uri, d.session_id, d.text) not in logged for d in result.documents):
            yield uri, "something of the file was deleted"
