"""Brings the ingest log of a collection up to what is in its folder now."""

import datetime as dt
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, cast

from palimpsest.core.code import code_hash
from palimpsest.core.errors import PalimpsestError, Rejected
from palimpsest.core.files import progress, read_sealed_json, say, write_sealed_json
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.sources.deletions import Deletions, apply_removal, expired_spans
from palimpsest.sources.discovery import UNREADABLE, SourceFile
from palimpsest.sources.extracted import (
    DocumentRow,
    ExtractedDocument,
    Extraction,
    ReadResult,
    Scope,
    document_to_row,
    limit_problems,
)
from palimpsest.sources.readers.encodings import escape_invisible
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.readers.registry import formats_by_suffix, installed_readers_hash
from palimpsest.sources.storage_policy import (
    apply_storage_policy,
    reapply_storage_policy,
    redact_text,
    restrict_to_owner,
)
from palimpsest.sources.text_edits import remove_spans
from palimpsest.sources.worker_pool import read_sources
from palimpsest.store.collection_config import CollectionConfig, Limits
from palimpsest.store.decisions import Decisions
from palimpsest.store.inbox import InboxFile, is_inbox_uri, is_of_user
from palimpsest.store.ingest_log import IngestLog, text_key
from palimpsest.store.web_pages import is_web_uri

# Brings what the ingest log already contains up to the current settings and deletions.
#
# The files of old versions may be gone, so their extracted text is changed in place.

STORED_BY, DELETED = "stored_by.json", "deleted.json"
"""What was applied to a log already; where these are missing it is applied again."""
STORAGE_POLICY = "palimpsest.sources.storage_policy"
"""The module whose code decides what of a document is stored."""


def update_stored_documents(log: IngestLog, config: CollectionConfig) -> None:
    """Filters versions that were read under other settings or by older code again, once for each state of those."""
    path = log.folder / STORED_BY
    settings = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    key = content_id(code_hash((STORAGE_POLICY,)), *settings)
    if (read_sealed_json(path) or {}).get("key") == key:
        return
    for logged in log.versions()["text_key"].unique().drop_nulls().sort():
        if not log.text_path(logged).exists():
            continue
        before = log.rows(logged)
        after = [row for r in before if (row := reapply_storage_policy(cast(DocumentRow, r), config)) is not None]
        if after != before:
            log.write_text(logged, after)
    log.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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

    gone = log.rewrite(without_deleted)
    tombstones = sorted({*decisions.tombstones, *(e.needle.digest for e in decisions.erased)})
    write_sealed_json(path, {"key": decisions.erased_key, "tombstones": tombstones})
    return not set(applied["tombstones"]) <= set(tombstones), gone


# Stops a build where too much of a collection is gone: a disk that is not mounted looks like a deletion.

_MIN_SOURCES = 5
_MIN_MEMORIES = 20


@dataclass(frozen=True)
class Removals:
    """How much of a collection is gone since the last build. Memories are those of sources that are gone or shrank."""

    sources: int
    of_sources: int
    memories: int
    of_memories: int

    def too_many(self, max_removed: float) -> bool:
        """Returns whether all sources are gone, or more than this share of them and at least 5, or of 20 memories."""
        if self.of_sources and self.sources == self.of_sources:
            return True
        sources = self.sources >= _MIN_SOURCES and self.sources > max_removed * self.of_sources
        memories = self.memories >= _MIN_MEMORIES and self.memories > max_removed * self.of_memories
        return sources or memories


def count_removals(
    known: Iterable[str], vanished: set[str], lost_shares: Mapping[str, float], memories: Mapping[str, int]
) -> Removals:
    """Counts what is gone.

    Args:
        known: uris of the readable sources of the last build.
        vanished: uris of sources that are gone.
        lost_shares: the share of its lines that each edited source lost, 0 to 1.
        memories: number of current memories of each source in the published build.
    """
    names = set(known)
    gone = vanished & names
    lost = sum(memories.get(uri, 0) for uri in gone)
    lost += sum(round(share * memories.get(uri, 0)) for uri, share in lost_shares.items() if uri not in gone)
    return Removals(len(gone), len(names), lost, sum(memories.values()))


def check_removals(
    config: CollectionConfig,
    known: Mapping[str, Mapping[str, Any]],
    vanished: set[str],
    lost_shares: Mapping[str, float],
    memories: Mapping[str, int],
    allow: bool,
) -> None:
    """Compares what is gone with the limit of the collection; arguments as for `count_removals`.

    Raises:
        PalimpsestError: more is gone than `max_removed`, and `allow` is false.
    """
    readable = [uri for uri, version in known.items() if version["reason"] is None]
    found = count_removals(readable, vanished, lost_shares, memories)
    if allow or not found.too_many(config.max_removed):
        return
    raise PalimpsestError(
        f"{config.name}: {found.sources} of {found.of_sources} sources and {found.memories} of {found.of_memories} "
        f"memories are gone since the last build (limit {config.max_removed:.0%}); nothing was changed: restore them, "
        "or pass --allow-removals"
    )


_LEADS_OUT = "a link that leads out of the collection or to no file; copy the file in"
_MAX_USER_BYTES = 800  # what a collection.yaml may name: 200 characters
_MAX_URI_BYTES = 4096
_MAX_WARNINGS = 20  # of one source
_READING = ("reason", "problems", "left_out", "not_stored")


@dataclass(frozen=True)
class IngestRules:
    """What decides which documents of a source enter the log.

    Attributes:
        config: the collection.
        decisions: what was deleted stays out.
        now: the time of the build.
        memories: number of current memories of each source in the published build.
        allow_removals: continue although too much of the collection is gone.
        published_at: what was first seen later is in no published build, and leaves no history; None means nothing is.
    """

    config: CollectionConfig
    decisions: Decisions
    now: dt.datetime
    memories: Mapping[str, int] = field(default_factory=dict)
    allow_removals: bool = False
    published_at: dt.datetime | None = None


@dataclass(frozen=True)
class IngestResult:
    """How many sources were read, and (uri, content hash) of those of which everything had been deleted."""

    read: int
    deleted: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Version:
    """A version of a source as `IngestLog.record` takes it; `store.ingest_log.VERSIONS` describes the columns."""

    content_hash: str
    text_key: str
    reason: str | None = None
    problems: list[str] | None = None
    left_out: int | None = None
    not_stored: str | None = None
    unread_hash: str | None = None
    size_bytes: int | None = None

    def reading(self, lines: int | None) -> JsonObject:
        """Returns what `continued` takes, with how many lines the source has; None where it cannot be read."""
        return {**{name: getattr(self, name) for name in _READING}, "lines": lines}

    def continued(self, reading: JsonObject) -> "_Version":
        """Returns this version with what a run that was stopped had found in it."""
        return replace(self, **{name: cast(Any, reading[name]) for name in _READING})

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "_Version":
        names = ("content_hash", "text_key", "reason", "problems", "left_out", "not_stored", "size_bytes")
        return cls(**{name: row[name] for name in names})


def reader_hash(config: CollectionConfig) -> str:
    """Returns the hash of all that an extraction depends on besides the file itself.

    Raises:
        PalimpsestError: installed readers contradict each other or a built-in one.
    """
    formats_by_suffix()  # a contradiction must stop the build, not a worker
    policy = (config.secrets, str(config.store_tool_outputs), *sorted(config.users.deny))
    names = (config.user_id, config.project_id, config.limits.model_dump_json(), config.dates or "")
    code = (code_hash(("palimpsest.sources.readers", STORAGE_POLICY)), installed_readers_hash())
    return content_id(*code, *names, *policy)


def ingest(log: IngestLog, sources: Mapping[str, SourceFile], rules: IngestRules) -> IngestResult:
    """Reads new and changed sources into the log and commits.

    A source that cannot be read keeps its last readable version and is listed with the reason. One that never could be
    read is a version with its reason, so that the reason stays until the file changes.

    Args:
        log: of the collection.
        sources: by uri.
        rules: what enters the log.

    Raises:
        PalimpsestError: too many sources or memories are gone; nothing is committed.
    """
    config, decisions = rules.config, rules.decisions
    update_stored_documents(log, config)
    read_all, deleted = apply_deletions(log, config.name, decisions)
    known = {row["uri"]: row for row in log.current().to_dicts()}
    missing = log.missing_texts()  # a damaged text was removed, to be read again
    seen, unread = _compare_with_log(sources, known, missing, reader_hash(config), read_all)
    lost_shares: dict[str, float] = {}
    deletions = Deletions(config.name, decisions)
    readings = log.unrecorded()
    read_before = {u: v.continued(readings[v.text_key]) for u, v in unread.items() if v.text_key in readings}
    seen |= read_before  # by a run that was stopped
    for uri, before in read_before.items():
        lines = cast(int | None, readings[before.text_key]["lines"])
        lost_shares[uri] = _lost_share(log, _good(known, uri), lines)
    with progress("read", len(unread), "sources") as advance:
        advance(len(read_before))
        for uri, result in _read({u: v for u, v in unread.items() if u not in read_before}, sources, config):
            if (owner := sources[uri].owner) is not None:
                result = restrict_to_owner(result, owner, Scope(config.user_id, config.project_id))
            _say_warnings(config, uri, result)
            good = _good(known, uri)
            version = _log_source(log, unread[uri], result, good, rules, deletions)
            if version is None:
                deleted.append((uri, unread[uri].content_hash))
            else:
                seen[uri] = version
                if version.unread_hash is None:
                    lost_shares[uri] = _lost_share(log, good, _count_result(result))
            advance(1)
    hidden = {uri for uri, row in known.items() if decisions.hides_source(config.name, uri, row["content_hash"])}
    vanished = set(known) - set(seen) - {uri for uri, _ in deleted} - hidden
    check_removals(config, known, vanished, lost_shares, rules.memories, rules.allow_removals)
    log.record({uri: asdict(version) for uri, version in seen.items()}, rules.now, rules.published_at)
    log.sweep()  # what other readers or settings extracted is no version's text any more
    return IngestResult(len(unread), tuple(sorted(deleted)))


def _compare_with_log(
    sources: Mapping[str, SourceFile],
    known: Mapping[str, Mapping[str, Any]],
    missing: Collection[str],
    reader: str,
    read_all: bool,
) -> tuple[dict[str, _Version], dict[str, _Version]]:
    """Returns the versions of sources that need not be read, and of those that do, by uri."""
    unchanged: dict[str, _Version] = {}
    unread: dict[str, _Version] = {}
    for uri, source in sources.items():
        key = text_key(uri, source.content_hash, reader)
        row = known.get(uri)
        is_same = row is not None and (row["content_hash"], row["text_key"]) == (source.content_hash, key)
        is_same = is_same and key not in missing
        is_imported = row is not None and row["instead_of"] is not None and row["content_hash"] == source.content_hash
        is_log_only = is_imported or ((is_inbox_uri(uri) or is_web_uri(uri)) and not source.path.exists())
        if row is not None and (is_log_only or (is_same and row["unread_hash"] is None and not read_all)):
            unchanged[uri] = _Version.of_row(row)
        else:
            unread[uri] = _Version(source.content_hash, key, size_bytes=_size_of(source))
    return unchanged, unread


def _good(known: Mapping[str, Mapping[str, Any]], uri: str) -> Mapping[str, Any] | None:
    """Returns the last version of a source, where that could be read."""
    row = known.get(uri)
    return row if row is not None and row["reason"] is None else None


def _size_of(source: SourceFile) -> int | None:
    try:
        return source.path.stat().st_size
    except OSError:  # gone since it was listed, or a link to nothing
        return None


def _read(
    unread: Mapping[str, _Version], sources: Mapping[str, SourceFile], config: CollectionConfig
) -> Iterator[tuple[str, ReadResult]]:
    """Yields the result of each source; a link that leads out of the collection is not followed."""
    paths = {uri: sources[uri].path for uri in unread}
    leading_out = {u for u, path in paths.items() if unread[u].content_hash == UNREADABLE and path.is_symlink()}
    yield from ((uri, Rejected(_LEADS_OUT)) for uri in sorted(leading_out))
    inside = ((path, uri) for uri, path in paths.items() if uri not in leading_out)
    defaults = Scope(config.user_id, config.project_id)
    yield from read_sources(inside, config.limits, dates=config.dates, defaults=defaults)


def _say_warnings(config: CollectionConfig, uri: str, result: ReadResult) -> None:
    """Writes what a reader wants people to know of a source of which nothing is missing."""
    warnings = () if isinstance(result, Rejected) else result.warnings
    for warning in limit_problems([redact_text(w) for w in warnings], Limits(max_problems=_MAX_WARNINGS)):
        say(escape_invisible(f"warning: {config.name}/{uri}: {warning}"))


def _log_source(
    log: IngestLog,
    version: _Version,
    result: ReadResult,
    good: Mapping[str, Any] | None,
    rules: IngestRules,
    deletions: Deletions,
) -> _Version | None:
    """Writes what was read of a source to the log and returns its version.

    Args:
        log: of the collection.
        version: what is on disk.
        result: of reading it.
        good: the last version in the log, where that could be read; it stays where this one cannot.
        rules: what enters the log.
        deletions: what was deleted by decision.

    Returns:
        None, with nothing written, where all that the source contains had been deleted.
    """
    storable = apply_storage_policy(result, rules.config)
    if good and (why := _why_unreadable(result, storable.result)):
        return replace(_Version.of_row(good), problems=[escape_invisible(why)], unread_hash=version.content_hash)
    version = replace(version, not_stored=json.dumps(storable.not_stored) if storable.not_stored else None)
    if isinstance(storable.result, Rejected):
        version = replace(version, reason=escape_invisible(str(storable.result)), problems=[], left_out=0)
        log.write_text(version.text_key, [], version.reading(None))
        return version
    stored = _stored_documents(storable.result, rules, deletions)
    if stored is None:
        return None
    version = replace(version, reason=stored.reason, problems=stored.problems, left_out=stored.expired)
    log.write_text(version.text_key, stored.rows, version.reading(_count_result(result)))
    return version


class _Stored(NamedTuple):
    """The documents of a source that a log keeps, its problems, why it is rejected, and how many turns expired."""

    rows: list[DocumentRow]
    problems: list[str]
    reason: str | None
    expired: int


def _stored_documents(extraction: Extraction, rules: IngestRules, deletions: Deletions) -> _Stored | None:
    """Returns what is kept of an extraction; None where all that it contains had been deleted."""
    usable, problems, reason = _without_unusable(extraction, rules.config)
    rows: list[DocumentRow] = []
    expired = hidden = 0
    for document in usable:
        row = deletions.apply(document_to_row(document, rules.config.user_id, rules.config.project_id))
        if row is None:
            hidden += 1
            continue
        if spans := expired_spans(row, rules.config.retention_days, rules.now):
            expired += len(spans)
            removal = remove_spans(row["text"], row["segments"], spans)
            row = apply_removal(row, removal) if removal else None
        if row is not None:
            rows.append(row)
    if hidden and hidden == len(usable):
        return None
    return _Stored(rows, problems, reason, expired)


def read_inbox_file(file: InboxFile, rules: IngestRules) -> list[DocumentRow]:
    """Returns the documents that a build would keep of a file of the inbox, and writes nothing.

    Turns, which are written by this project alone, are read in this process; what was copied is read by a worker.

    Args:
        file: of turns, or a text file; its source must not have been deleted by decision.
        rules: of its collection.
    """
    config = rules.config
    defaults = Scope(config.user_id, config.project_id)
    result: ReadResult
    if file.is_turns:
        try:
            result = read_source(file.path, file.uri, config.limits, config.dates, defaults)
        except Rejected as e:
            result = e
    else:
        ((_, result),) = read_sources([(file.path, file.uri)], config.limits, 1, config.dates, defaults)
    storable = apply_storage_policy(result, config).result
    if isinstance(storable, Rejected):
        return []
    stored = _stored_documents(storable, rules, Deletions(config.name, rules.decisions))
    return stored.rows if stored is not None else []


def _why_unreadable(result: ReadResult, storable: ReadResult) -> str:
    """Returns why a source gave nothing that may be stored; empty where it gave a document, or contains none."""
    if isinstance(storable, Rejected):
        return str(storable)
    has_no_document = not isinstance(result, Rejected) and not result.documents
    return storable.problems[0] if storable.problems and has_no_document else ""


def _without_unusable(
    extraction: Extraction, config: CollectionConfig
) -> tuple[list[ExtractedDocument], list[str], str | None]:
    """Returns the documents whose names can be stored, the problems, and why the source is rejected if so."""
    unusable = [_describe_long_name(d) or _describe_other_user(d, config) for d in extraction.documents]
    usable = [d for d, why in zip(extraction.documents, unusable, strict=True) if not why]
    left_out = list(dict.fromkeys(filter(None, unusable)))
    problems = [escape_invisible(p) for p in (*extraction.problems, *limit_problems(left_out, config.limits))]
    if left_out and not usable:
        return usable, problems[:-1], problems[-1]
    return usable, problems, None


def _describe_long_name(document: ExtractedDocument) -> str:
    """Returns which name of a document no index of a server can store; empty where each fits."""
    limits = (
        ("user_id", document.user_id, _MAX_USER_BYTES),
        ("project_id", document.project_id, _MAX_USER_BYTES),
        ("uri", document.uri, _MAX_URI_BYTES),
    )
    for name, value, limit in limits:
        if (size := len((value or "").encode())) > limit:
            start = (value or "")[:40]
            return f"{name} {start!r}... has {size:,} bytes, the limit is {limit:,}; left out: give it a shorter one"
    return ""


def _describe_other_user(document: ExtractedDocument, config: CollectionConfig) -> str:
    """Returns why a document of the inbox is not of the user for whom it was sent; empty for all others."""
    if not is_inbox_uri(document.uri) or is_of_user(document.uri, document.user_id or config.user_id):
        return ""
    return "states a user_id other than that of the operation; left out: send it for its own user"


def _lost_share(log: IngestLog, good: Mapping[str, Any] | None, after: int | None) -> float:
    """Returns the share of its lines that an edited source lost, 0 to 1, before anything is left out of it."""
    if good is None or after is None or not log.text_path(str(good["text_key"])).exists():
        return 0.0
    before = _count_lines(log.text(str(good["text_key"]))["text"])
    return max(0.0, 1 - after / before) if before else 0.0


def _count_result(result: ReadResult) -> int | None:
    """Returns how many lines a source has; None where it cannot be read."""
    return None if isinstance(result, Rejected) else _count_lines(d.text for d in result.documents)


def _count_lines(texts: Iterable[str]) -> int:
    return sum(1 for text in texts for line in text.splitlines() if line.strip())
