"""Brings the ingest log of a collection up to what is in its folder now."""

import datetime as dt
import json
import os
from collections.abc import Iterator
from pathlib import Path

from palimpsest.code import code_hash
from palimpsest.config import CollectionConfig
from palimpsest.corpus.isolate import Outcome, read_sources
from palimpsest.corpus.limits import listed
from palimpsest.corpus.readers.builder import uri_of, visible
from palimpsest.corpus.readers.sidecar import SUFFIX as SIDECAR
from palimpsest.corpus.readers.sidecar import sidecar_of
from palimpsest.corpus.storing import clean_log, row_of, storable
from palimpsest.corpus.types import ExtractedDocument
from palimpsest.decisions import Decisions
from palimpsest.errors import PalimpsestError, Rejected
from palimpsest.progress import progress
from palimpsest.store.files import file_hash
from palimpsest.store.ids import content_id
from palimpsest.store.log import IngestLog, text_key

_READERS = ("palimpsest.corpus.read", "palimpsest.corpus.redaction.keep")


def source_files(folder: Path, config: CollectionConfig) -> Iterator[tuple[str, Path]]:
    """Yields (uri, path) of every source below `folder`, sorted by uri; hidden files and settings are not sources.

    Nor is a sidecar beside its source; one without a source is yielded, to be rejected by name.
    A uri is the path relative to the collection, with forward slashes; what cannot be shown is escaped.

    Raises:
        PalimpsestError: a folder cannot be listed; what it holds must not pass for removed.
    """

    def unlisted(error: OSError) -> None:
        raise PalimpsestError(f"{error.filename}: this folder of {config.name} cannot be listed; make it readable")

    settings = {"collection.yaml", config.document_relations}
    found = []
    for root, folders, names in os.walk(folder, onerror=unlisted):
        linked = [f for f in folders if not f.startswith(".") and Path(root, f).is_symlink()]
        folders[:] = [f for f in folders if not f.startswith(".") and f not in linked]
        beside = {*names, *linked}
        for name in [*names, *linked]:
            path = Path(root, name)
            uri = uri_of(path.relative_to(folder).as_posix())
            owned = name.endswith(SIDECAR) and name.removesuffix(SIDECAR) in beside
            if not name.startswith(".") and uri not in settings and not owned:
                found.append((uri, path))
    yield from sorted(found)


def deleted_sources(folder: Path, config: CollectionConfig, decisions: Decisions) -> list[str]:
    """Returns the uris of sources that were deleted and are still on disk: skipped, and told (decision 14)."""
    return [uri for uri, _ in source_files(folder, config) if decisions.hides_document(config.name, uri)]


def source_state(folder: Path, config: CollectionConfig, decisions: Decisions) -> dict[str, tuple[Path, str]]:
    """Returns (path, content hash) of every source by uri, those deleted by decision left out."""
    return {
        uri: (path, _hash(path, folder))
        for uri, path in source_files(folder, config)
        if not decisions.hides_document(config.name, uri)
    }


_MAX_USER_BYTES = 800  # what a collection.yaml may name: 200 characters
_MAX_URI_BYTES = 4096
_LED_OUT = "a link that leads out of the collection or nowhere; copy the file in"
_UNREADABLE = "unreadable"  # a link out of the collection or in a circle, a pipe, no permission: rejected when read


def _hash(path: Path, folder: Path) -> str:
    try:
        inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
        if not inside:
            return _UNREADABLE
        sidecar = sidecar_of(path)
        return content_id("sidecar", file_hash(path), file_hash(sidecar)) if sidecar else file_hash(path)
    except (OSError, RuntimeError):
        return _UNREADABLE


def reader_hash(config: CollectionConfig, decisions: Decisions) -> str:
    """Returns the hash of all that an extraction depends on beside the file itself."""
    limits = config.limits.model_dump_json()
    kept_by = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    names = (config.user_id, config.project_id, limits, config.dates or "")
    return content_id(code_hash(_READERS), *names, *kept_by, *sorted(decisions.tombstones))


def ingest(
    log: IngestLog,
    config: CollectionConfig,
    sources: dict[str, tuple[Path, str]],
    decisions: Decisions,
    now: dt.datetime,
) -> int:
    """Reads what is new or changed into the log and commits; returns how many sources were read.

    A source that cannot be read is a version too, with its reason, so that the reason stays until the file changes.
    """
    clean_log(log, config)
    reader = reader_hash(config, decisions)
    known = {(r["uri"], r["content_hash"]): r for r in log.current().to_dicts()}
    readable = {uri: row for (uri, _), row in known.items() if row["reason"] is None}
    seen: dict[str, dict[str, object]] = {}
    todo: dict[str, Path] = {}
    for uri, (path, content_hash) in sources.items():
        key = text_key(uri, content_hash, reader)
        old = known.get((uri, content_hash))
        if content_hash == _UNREADABLE and (good := readable.get(uri)):
            kept = "cannot be read now; the last version that could is kept: make the file readable"
            seen[uri] = {k: good[k] for k in ("content_hash", "text_key", "reason", "not_stored")} | {
                "problems": [kept]
            }
        elif old and old["text_key"] == key:
            seen[uri] = {k: old[k] for k in ("content_hash", "text_key", "reason", "problems", "not_stored")}
        else:
            seen[uri] = {"content_hash": content_hash, "text_key": key}
            if content_hash == _UNREADABLE and path.is_symlink():
                _keep(log, seen[uri], Rejected(_LED_OUT), config, decisions)
            else:
                todo[uri] = path
    with progress("read", len(todo), "sources") as advance:
        for uri, outcome in read_sources(
            ((path, uri) for uri, path in todo.items()), config.limits, dates=config.dates
        ):
            told = storable(outcome, config)
            seen[uri]["not_stored"] = json.dumps(told.not_stored) if told.not_stored else None
            _keep(log, seen[uri], told.outcome, config, decisions)
            advance(1)
    log.record(seen, now)
    log.sweep()  # what other readers or settings extracted is no version's text any more
    return len(todo)


def _keep(
    log: IngestLog, version: dict[str, object], outcome: Outcome, config: CollectionConfig, decisions: Decisions
) -> None:
    """Writes what was read of a source to the log, and the reason or the problems to its version."""
    rows: list[dict[str, object]] = []
    if isinstance(outcome, Rejected):
        version |= {"reason": visible(str(outcome)), "problems": []}
    else:
        usable = [d for d in outcome.documents if not _too_long(d)]
        long = list(dict.fromkeys(told for d in outcome.documents if (told := _too_long(d))))
        problems = [visible(p) for p in (*outcome.problems, *listed(long, config.limits))]
        version |= {"reason": None, "problems": problems}
        if long and not usable:
            version |= {"reason": problems[-1], "problems": problems[:-1]}
        rows = [row_of(d, config) for d in usable if not _hidden(d, config, decisions)]
    log.write_text(str(version["text_key"]), rows)


def _too_long(document: ExtractedDocument) -> str:
    """Says which name of a document no index of a server takes; empty where each fits."""
    told = (
        ("user_id", document.user_id, _MAX_USER_BYTES), ("project_id", document.project_id, _MAX_USER_BYTES),
        ("uri", document.uri, _MAX_URI_BYTES),
    )  # fmt: skip
    for name, value, limit in told:
        if (size := len((value or "").encode())) > limit:
            shown = (value or "")[:40]
            return f"{name} {shown!r}... has {size:,} bytes, the limit is {limit:,}; left out: give it a shorter one"
    return ""


def _hidden(document: ExtractedDocument, config: CollectionConfig, decisions: Decisions) -> bool:
    """Tells whether a document, its session or its user was deleted."""
    uris = {document.uri, f"{document.uri}#{document.session_id}"}
    return decisions.hides_user(document.user_id or config.user_id) or any(
        decisions.hides_document(config.name, uri) for uri in uris
    )
