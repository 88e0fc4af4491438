"""Brings the ingest log of a collection up to what is in its folder now."""

import datetime as dt
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError, Rejected
from palimpsest.core.files import file_hash, read_json, write_json
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress
from palimpsest.sources.filters.erased_texts import ErasedTexts, Row, expired_spans, without_spans
from palimpsest.sources.filters.storage_policy import clean_log, row_of, storable
from palimpsest.sources.readers.common.clean_text import uri_of, visible
from palimpsest.sources.readers.common.sidecar import SUFFIX as SIDECAR
from palimpsest.sources.readers.common.sidecar import sidecar_of
from palimpsest.sources.readers.conversations.slack import users_beside
from palimpsest.sources.records.extracted import ExtractedDocument, ReadResult
from palimpsest.sources.records.source import listed
from palimpsest.sources.removals import check_removals
from palimpsest.sources.workers.pool import read_sources
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.ingest_log import IngestLog, text_key

_READERS = ("palimpsest.sources.readers.read_source", "palimpsest.sources.filters.redact_documents")


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
    if not decisions.tombstones:
        return []
    files = source_files(folder, config)
    return [uri for uri, path in files if decisions.hides_source(config.name, uri, _hash(path, folder))]


def source_state(folder: Path, config: CollectionConfig, decisions: Decisions) -> dict[str, tuple[Path, str]]:
    """Returns (path, content hash) of every source by uri, those deleted by decision left out."""
    found = {uri: (path, _hash(path, folder)) for uri, path in source_files(folder, config)}
    return {uri: told for uri, told in found.items() if not decisions.hides_source(config.name, uri, told[1])}


_MAX_USER_BYTES = 800  # what a collection.yaml may name: 200 characters
_MAX_URI_BYTES = 4096
_LED_OUT = "a link that leads out of the collection or nowhere; copy the file in"
_UNREADABLE = "unreadable"  # a link out of the collection or in a circle, a pipe, no permission: rejected when read


def _hash(path: Path, folder: Path) -> str:
    try:
        inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
        if not inside:
            return _UNREADABLE
        beside = {"sidecar": sidecar_of(path), "users": users_beside(path, path.relative_to(folder).as_posix())}
        read_too = [part for name, other in beside.items() if other for part in (name, file_hash(other))]
        return content_id(file_hash(path), *read_too) if read_too else file_hash(path)
    except (OSError, RuntimeError):
        return _UNREADABLE


def reader_hash(config: CollectionConfig) -> str:
    """Returns the hash of all that an extraction depends on beside the file itself."""
    limits = config.limits.model_dump_json()
    kept_by = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    names = (config.user_id, config.project_id, limits, config.dates or "")
    return content_id(code_hash(_READERS), *names, *kept_by)


@dataclass(frozen=True)
class Rules:
    """What decides which of a source's documents enter the log.

    Attributes:
        config: the collection.
        decisions: what was deleted stays out.
        now: the time of the build; what is past its retention stays out.
        memories: current memories of each source in the published build, by uri.
        allow_removals: build although too many sources or memories vanished.
    """

    config: CollectionConfig
    decisions: Decisions
    now: dt.datetime
    memories: Mapping[str, int] = field(default_factory=dict)
    allow_removals: bool = False

    def kept(self, row: Row) -> Row | None:
        """Returns a document without what was deleted; None where nothing of it may stay."""
        names = (row["user_id"], row["uri"], row["session_id"], row["project_id"])
        if self.decisions.hides_document(self.config.name, *names):
            return None
        applied = self.erased.applied(self.config.name, row)
        return applied.row if applied else None

    @cached_property
    def erased(self) -> ErasedTexts:
        """The texts that were deleted one by one."""
        return ErasedTexts(self.decisions.erased)


@dataclass(frozen=True)
class Ingested:
    """What an ingest did: sources read, and (uri, content hash) of those of which everything had been deleted."""

    read: int
    deleted: tuple[tuple[str, str], ...]


def ingest(log: IngestLog, sources: dict[str, tuple[Path, str]], rules: Rules) -> Ingested:
    """Reads what is new or changed into the log and commits.

    A source that cannot be read keeps its last version that could, and is listed with the reason. One that never could
    be read is a version with its reason, so that the reason stays until the file changes.

    Raises:
        PalimpsestError: too many sources or memories vanished; nothing is committed.
    """
    config = rules.config
    clean_log(log, config)
    again, deleted = apply_deletions(log, rules)
    reader = reader_hash(config)
    known = {r["uri"]: r for r in log.current().to_dicts()}
    seen: dict[str, dict[str, object]] = {}
    todo: dict[str, Path] = {}
    for uri, (path, content_hash) in sources.items():
        key = text_key(uri, content_hash, reader)
        old = known.get(uri)
        is_read = old is not None and old["unread_hash"] is None  # else restored: its problem is over
        if old and is_read and (old["content_hash"], old["text_key"]) == (content_hash, key) and not again:
            seen[uri] = {k: old[k] for k in _CARRIED}
        else:
            seen[uri] = {"content_hash": content_hash, "text_key": key}
            todo[uri] = path
    shrunk: dict[str, float] = {}
    with progress("read", len(todo), "sources") as advance:
        for uri, outcome in _outcomes(todo, seen, config):
            told = storable(outcome, config)
            seen[uri]["not_stored"] = json.dumps(told.not_stored) if told.not_stored else None
            good = known.get(uri) if known.get(uri, {}).get("reason") is None else None
            if good and (why := _unread(outcome, told.outcome)):
                why = f"{why}; cannot be read now, its last good version is kept: restore or remove the file"
                held = {k: good[k] for k in _CARRIED}
                seen[uri] = held | {"problems": [visible(why)], "unread_hash": seen[uri]["content_hash"]}
            elif _keep(log, seen[uri], told.outcome, rules):
                shrunk[uri] = _lost_share(log, good, outcome)
            else:
                deleted.append((uri, str(seen.pop(uri)["content_hash"])))
            advance(1)
    by_decision = {uri for uri, _ in deleted} | {
        uri for uri, row in known.items() if rules.decisions.hides_source(config.name, uri, row["content_hash"])
    }
    vanished = set(known) - set(seen) - by_decision
    check_removals(config, known, vanished, shrunk, rules.memories, rules.allow_removals)
    log.record(seen, rules.now)
    log.sweep()  # what other readers or settings extracted is no version's text any more
    return Ingested(len(todo), tuple(sorted(deleted)))


_CARRIED = ("content_hash", "text_key", "reason", "problems", "left_out", "not_stored")


def _outcomes(
    todo: dict[str, Path], seen: dict[str, dict[str, object]], config: CollectionConfig
) -> Iterator[tuple[str, ReadResult]]:
    """Yields what each source gave; a link that leads out of the collection is not followed."""
    out = {u for u, path in todo.items() if seen[u]["content_hash"] == _UNREADABLE and path.is_symlink()}
    yield from ((uri, Rejected(_LED_OUT)) for uri in sorted(out))
    rest = ((path, uri) for uri, path in todo.items() if uri not in out)
    yield from read_sources(rest, config.limits, dates=config.dates)


def _unread(outcome: ReadResult, stored: ReadResult) -> str:
    """Returns why a source gave nothing that may be stored; empty where it gave a document, or holds none."""
    if isinstance(stored, Rejected):
        return str(stored)
    return stored.problems[0] if stored.problems and not isinstance(outcome, Rejected) and not outcome.documents else ""


def _lost_share(log: IngestLog, good: dict[str, Any] | None, outcome: ReadResult) -> float:
    """Returns the share of its lines that an edited source lost, 0 to 1, before anything is left out of it."""
    if good is None or isinstance(outcome, Rejected):
        return 0.0
    before = sum(_lines(text) for text in log.text(str(good["text_key"]))["text"])
    after = sum(_lines(d.text) for d in outcome.documents)
    return max(0.0, 1 - after / before) if before else 0.0


def _lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def apply_deletions(log: IngestLog, rules: Rules) -> tuple[bool, list[tuple[str, str]]]:
    """Takes what was deleted out of the log, once for each state of the decisions.

    Returns:
        Whether a deletion was taken back since, so that every source has to be read again; and (uri, content hash) of
        sources that hold nothing any more, and are forgotten.
    """
    path = log.folder / "deleted.json"
    done = read_json(path) or {"key": Decisions().erased_key, "tombstones": []}
    if done["key"] == rules.decisions.erased_key:
        return False, []
    _, emptied = log.rewrite(rules.kept)
    told = log.versions().filter(pl.col("uri").is_in(list(emptied))).group_by("uri").last().sort("uri")
    gone = list(told.select("uri", "content_hash").iter_rows())
    log.forget(emptied)
    tombstones = sorted({*rules.decisions.tombstones, *(e.needle.digest for e in rules.decisions.erased)})
    write_json(path, {"key": rules.decisions.erased_key, "tombstones": tombstones})
    return not set(done["tombstones"]) <= set(tombstones), gone


def _keep(log: IngestLog, version: dict[str, object], outcome: ReadResult, rules: Rules) -> bool:
    """Writes what was read of a source to the log, and the reason or the problems to its version.

    Returns False, and writes nothing, where all that the source holds had been deleted.
    """
    config = rules.config
    rows: list[Row] = []
    left_out = hidden = 0
    if isinstance(outcome, Rejected):
        version |= {"reason": visible(str(outcome)), "problems": []}
    else:
        usable = [d for d in outcome.documents if not _too_long(d)]
        long = list(dict.fromkeys(told for d in outcome.documents if (told := _too_long(d))))
        problems = [visible(p) for p in (*outcome.problems, *listed(long, config.limits))]
        version |= {"reason": None, "problems": problems}
        if long and not usable:
            version |= {"reason": problems[-1], "problems": problems[:-1]}
        for row in (row_of(d, config) for d in usable):
            kept = rules.kept(row)
            if kept and (past := expired_spans(kept, config.retention_days, rules.now)):
                left_out += len(past)
                applied = without_spans(kept, past)
                kept = applied.row if applied else None
            else:
                hidden += kept is None
            if kept:
                rows.append(kept)
        if hidden and hidden == len(usable):
            return False
    version["left_out"] = left_out
    log.write_text(str(version["text_key"]), rows)
    return True


def _too_long(document: ExtractedDocument) -> str:
    """Says which name of a document no index of a server takes; empty where each fits."""
    told = (
        ("user_id", document.user_id, _MAX_USER_BYTES),
        ("project_id", document.project_id, _MAX_USER_BYTES),
        ("uri", document.uri, _MAX_URI_BYTES),
    )
    for name, value, limit in told:
        if (size := len((value or "").encode())) > limit:
            shown = (value or "")[:40]
            return f"{name} {shown!r}... has {size:,} bytes, the limit is {limit:,}; left out: give it a shorter one"
    return ""
