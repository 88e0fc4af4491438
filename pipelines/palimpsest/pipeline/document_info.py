"""The documents of a home: which there are, and what the ingest log has of one."""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal, cast

import polars as pl

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.core.times import on_own_clock
from palimpsest.query.request.types import LAST_GOOD
from palimpsest.sources.storage_policy import redact_text
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.home import Home
from palimpsest.store.inbox import inbox_files, is_inbox_uri, is_of_operation, is_of_user, read_failures, record_failure
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import web_pages

_COUNTED = (
    "collection",
    "uri",
    "session_id",
    "user_id",
    "project_id",
    "title",
    "media_type",
    "source_time",
    "utc_offset",
)
_COUNTS = ("chunks", "memories", "latest")


@dataclass(frozen=True)
class DocumentInfo(JsonRecord):
    """A document: a source, a conversation of one, or a part of one such as an attachment.

    Attributes:
        collection: of it.
        uri: of it; the part of a source has the uri of the source, `#`, and its own name.
        session_id: of a conversation.
        user_id: whose it is.
        project_id: of which project; "" for the user's general memory.
        title: of it.
        media_type: of it.
        source_time: when it is from, ISO 8601 with the offset that it states; None where nothing states it.
        document_id: of its current version in the published build.
        chunks: of it in the published build.
        memories: of it in the published build.
        latest: those of them that are not retired.
        state: `built`; `last good version` where its source cannot be read now; `pending` where the published build
            does not have it; `rejected`; `gone` where its source is not there any more.
        reason: why it was rejected, or a part of it, or cannot be read now.
    """

    collection: str
    uri: str
    session_id: str | None
    user_id: str
    project_id: str
    title: str | None
    media_type: str | None
    source_time: str | None
    state: str
    reason: str | None = None
    document_id: str | None = None
    chunks: int = 0
    memories: int = 0
    latest: int = 0


@dataclass(frozen=True)
class DocumentText:
    """What the log has of a document, as a reader extracted it and without what a delete or `secrets` took out.

    Attributes:
        info: of it.
        text: of it.
        metadata: that its source states.
        version: which version of its source it is, from 1.
        read_at: when that was read, ISO 8601 in UTC.
    """

    info: DocumentInfo
    text: str
    metadata: JsonObject
    version: int
    read_at: str

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        rest: JsonObject = {
            "text": self.text,
            "metadata": self.metadata,
            "version": self.version,
            "read_at": self.read_at,
        }
        return self.info.to_json() | rest


def list_documents(home: Home, collection: str | None = None, user: str | None = None) -> list[DocumentInfo]:
    """Returns the documents that exist now, by collection, uri and session; sources that are not built too.

    Args:
        home: the home.
        collection: only of this one.
        user: only of this one; of sources that are pending those of the inbox and of the web alone have a user.

    Raises:
        ArgumentError: the home has no such collection.
    """
    build = published(home)
    found = [
        info
        for name in _collections(home, build, collection)
        for info in (*_built(build, name), *_unbuilt(home, build, name))
        if user in (None, info.user_id)
    ]
    return sorted(found, key=lambda d: (d.collection, d.uri, d.session_id or "", d.user_id, d.project_id))


def view_document(home: Home, uri: str, collection: str | None = None, user: str | None = None) -> list[DocumentText]:
    """Returns what the log has of a document: of all conversations of a source, or of one by `uri#session`.

    Args:
        home: the home.
        uri: of it, inside its collection.
        collection: where it is; needed where several have it.
        user: only what is of this one.

    Raises:
        ArgumentError: no collection has it, several do, or nothing of it is left or the user's.
    """
    build = published(home)
    name, source = find_source(home, uri, collection)
    log = IngestLog(home.log / name)
    versions = log.versions().filter(pl.col("uri") == source)
    if versions.is_empty():
        raise ArgumentError("uri", "no build has read it yet; run palimpsest build", uri)
    version = versions.row(-1, named=True)
    known = {(d.uri, d.session_id, d.user_id, d.project_id): d for d in _built(build, name)}
    found = []
    rows = log.text(version["text_key"]) if version["text_key"] else pl.DataFrame()
    for row in rows.iter_rows(named=True):
        session = f"{row['uri']}#{row['session_id'] or ''}"
        if uri not in (source, row["uri"], session) and not row["uri"].startswith(f"{uri}#"):
            continue
        key = (row["uri"], row["session_id"], row["user_id"], row["project_id"] or "")
        info = known.get(key) or _info_of(name, row, "gone" if version["gone_at"] else "pending")
        if user in (None, info.user_id):
            metadata = json.loads(row["metadata"]) if row["metadata"] else {}
            found.append(DocumentText(info, row["text"], metadata, version["ordinal"], version["seen_at"].isoformat()))
    if not found:
        why = f"nothing of it was stored: {version['reason']}" if version["reason"] else "nothing of it is in the log"
        raise ArgumentError("uri", why + (f" of user {user}" if user else ""), uri)
    return found


def find_source(home: Home, uri: str, collection: str | None = None) -> tuple[str, str]:
    """Returns the collection and the source that a document is of.

    Args:
        home: the home.
        uri: of a source, of a part of one, or `uri#session`.
        collection: where to look; None looks everywhere.

    Raises:
        ArgumentError: no collection has it, or several do.
    """
    parts = uri.split("#")
    candidates = ["#".join(parts[:n]) for n in range(len(parts), 0, -1)]
    names = _collections(home, published(home), collection)
    found = []
    for name in names:
        uris = set(IngestLog(home.log / name).versions()["uri"]) | {p.uri for p in _pending(home, name)}
        if source := next((c for c in candidates if c in uris), None):
            found.append((name, source))
    if len(found) > 1:
        raise ArgumentError("collection", f"{uri} is in {' and '.join(n for n, _ in found)}; name one")
    if not found:
        where = ", ".join(names) or "this home"
        raise ArgumentError("uri", f"no source of {where}; palimpsest document list shows them", uri)
    return found[0]


def _collections(home: Home, build: Build | None, collection: str | None) -> list[str]:
    names = sorted({*home.sources, *(build.collections if build else ())})
    if collection is not None and collection not in names:
        raise ArgumentError("collection", f"not in this home; it has: {', '.join(names) or 'none'}", collection)
    return [name for name in names if collection in (None, name)]


def _built(build: Build | None, name: str) -> Iterator[DocumentInfo]:
    if build is None or name not in build.collections:
        return
    latest = build.table(name, "versions").filter("is_latest").select("memory_id", is_latest=pl.lit(True))
    memories = build.table(name, "memories").select("memory_id", "document_id").join(latest, on="memory_id", how="left")
    counts = memories.group_by("document_id").agg(memories=pl.len(), latest=pl.col("is_latest").sum())
    chunks = build.table(name, "chunks").group_by("document_id").agg(chunks=pl.len())
    documents = build.table(name, "documents").filter("is_current")
    for part in (counts, chunks):
        documents = documents.join(part, on="document_id", how="left")
    rejects: dict[str, dict[str, object]] = {r["uri"]: r for r in build.table(name, "rejects").to_dicts()}
    for row in documents.select(*_COUNTED, "document_id", *_COUNTS).iter_rows(named=True):
        reject = rejects.get(row["uri"]) or rejects.get(row["uri"].partition("#")[0]) or {}
        chunk_count, memory_count, latest_count = (row[count] or 0 for count in _COUNTS)
        yield replace(
            _info_of(name, row, LAST_GOOD if reject.get("is_kept") else "built"),
            reason=cast(str | None, reject.get("reason")),
            document_id=row["document_id"],
            chunks=chunk_count,
            memories=memory_count,
            latest=latest_count,
        )


def _unbuilt(home: Home, build: Build | None, name: str) -> Iterator[DocumentInfo]:
    """Yields the sources that the published build has nothing of: they are new, or were rejected."""
    known: set[str] = set()
    if build is not None and name in build.collections:
        known = {uri.partition("#")[0] for uri in build.table(name, "documents").filter("is_current")["uri"]}
        known |= set(build.table(name, "documents").filter("is_current")["uri"])
    for row in IngestLog(home.log / name).current().iter_rows(named=True):
        if row["uri"] not in known:
            known.add(row["uri"])
            state = "rejected" if row["reason"] else "pending"
            yield DocumentInfo(name, row["uri"], None, "", "", None, None, None, state, row["reason"])
    yield from (p for p in _pending(home, name) if p.uri not in known)


def _pending(home: Home, name: str) -> Iterator[DocumentInfo]:
    """Yields the texts and files of the inbox and the pages of the web, which the published build may have or not."""
    for file in inbox_files(home.inbox, name):
        sent = file.described()
        scope = (sent.session_id, sent.user_id, sent.project_id)
        yield DocumentInfo(name, file.uri, *scope, None, None, None, "pending")
    for page in web_pages(home.web, name):
        if not page.record.erased:
            of = (page.record.user_id, page.record.project_id or "")
            yield DocumentInfo(name, page.record.uri, None, *of, None, None, None, "pending")


def _info_of(name: str, row: dict[str, object], state: str) -> DocumentInfo:
    time = on_own_clock(row["source_time"], row["utc_offset"])  # type: ignore[arg-type]
    return DocumentInfo(
        name,
        str(row["uri"]),
        None if row["session_id"] is None else str(row["session_id"]),
        str(row["user_id"]),
        str(row["project_id"] or ""),
        None if row["title"] is None else str(row["title"]),
        None if row["media_type"] is None else str(row["media_type"]),
        time.isoformat() if time else None,
        state,
    )


# What became of an operation of the inbox, as the builds, the log and the inbox have it: no state is stored.

State = Literal["received", "rejected", "built", "published", "failed"]
_MAX_REASON_CHARS = 300
_OF_THE_BUILD: Mapping[State, str] = {
    "built": "the gate closed: the build is not published; whoever runs the builds sees why with palimpsest gate",
    "failed": "the last build failed, the next tries again; whoever runs the builds sees why with palimpsest logs",
}


class UnknownOperation(PalimpsestError):
    """No operation of the home has this id, or several have it."""


@dataclass(frozen=True)
class OperationStatus:
    """The state of an operation.

    Attributes:
        operation_id: as it was sent.
        state: `received`: no build has read it; `rejected`: it cannot be stored; `built`: in a build that is not
            published; `published`; `failed`: the last build failed before it was done, and the next tries again.
        reason: why it was rejected, failed or is not published, or what of it was left out; None without one.
        collection: where its memories are or will be.
        uri: of its source.
        document_id: of its first document; None until it is built, and so are the counts.
        chunks: how many it has.
        entities: how many its memories mention.
        facts: how many its memories state.
    """

    operation_id: str
    state: State
    reason: str | None
    collection: str
    uri: str
    document_id: str | None = None
    chunks: int | None = None
    entities: int | None = None
    facts: int | None = None

    def for_sender(self) -> "OperationStatus":
        """Returns the status as its sender may see it: why a build stopped may quote what belongs to other users."""
        return replace(self, reason=_OF_THE_BUILD.get(self.state, self.reason))

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object; what is formed of it only where it is built."""
        return {n: v for n, v in asdict(self).items() if v is not None or n == "reason"}


def operation_status(home: Home, operation_id: str, user: str | None = None) -> OperationStatus:
    """Returns the state of an operation.

    Args:
        home: the home.
        operation_id: as `ingest_text` returned it.
        user: only an operation of this user; one of somebody else is answered as one that does not exist.

    Raises:
        UnknownOperation: there is no such operation, or several users have one with this id.
        PalimpsestError: a file that says what became of it is damaged.
    """
    found = sorted(
        (collection, uri)
        for collection, uri in set(_sources(home))
        if is_of_operation(uri, operation_id) and (user is None or is_of_user(uri, user))
    )
    name = f"operation {operation_id[:60]}"
    if not found:
        raise UnknownOperation(f"{name}: not in home {home.path}; check the id, or send it again")
    if len(found) > 1:
        raise UnknownOperation(f"{name}: {len(found)} users or collections have one; add --user")
    return _status(home, operation_id, *found[0])


def record_inbox_failure(home: Home, reason: str) -> None:
    """Records why a build failed for each operation that it was to read and that no build has."""
    waiting = [
        file.uri
        for name in home.sources
        for file in inbox_files(home.inbox, name)
        if _status(home, "", name, file.uri).state in ("received", "failed")
    ]
    line = redact_text(" ".join(reason.split()))[:_MAX_REASON_CHARS]
    record_failure(home.inbox, dict.fromkeys(sorted(waiting), line))


def _sources(home: Home) -> Iterator[tuple[str, str]]:
    """Yields (collection, uri) of every operation: of files, and of what is only in a log."""
    yield from ((file.collection, file.uri) for file in inbox_files(home.inbox))
    for name in home.sources:
        yield from ((name, uri) for uri in IngestLog(home.log / name).on_disk()["uri"] if is_inbox_uri(uri))


def _status(home: Home, operation_id: str, collection: str, uri: str) -> OperationStatus:
    """Returns the state of the operation of a source: by the published build, the staged one, then failures."""
    builds: list[tuple[Build, State]] = []  # looked up once: a build may be finished or published meanwhile
    if current := published(home):
        builds.append((current, "published"))
    if (made := staged(home)).is_finished:
        builds.append((made, "built"))
    for build, state in builds:
        if formed := _formed(build, collection, uri):
            reason = _reject(build, collection, uri)
            if state == "built":
                reason = _why_not_published(build)
            return OperationStatus(operation_id, state, reason, collection, uri, **formed)  # type: ignore[arg-type]
    for build, _ in builds:
        if reason := _reject(build, collection, uri) or _left_out(home, build, collection, uri):
            return OperationStatus(operation_id, "rejected", reason, collection, uri)
    if why := read_failures(home.inbox).get(uri):
        return OperationStatus(operation_id, "failed", str(why), collection, uri)
    return OperationStatus(operation_id, "received", None, collection, uri)


def _why_not_published(build: Build) -> str:
    """Returns the first reason of the gate, how many more there are, and the command that shows them."""
    first, *more = [*map(str, build.manifest.gate.get("reasons", []))] or ["the build is not published"]
    line = first if len(first) <= _MAX_REASON_CHARS else f"{first[:_MAX_REASON_CHARS]}…"
    return line + (f"; and {len(more)} more" if more else "") + "; palimpsest gate shows all"


def _formed(build: Build, collection: str, uri: str) -> dict[str, str | int] | None:
    """Returns the first document of a source in a build and counts of what was formed; None without a document."""
    documents = _of_source(build.table(collection, "documents"), uri)
    if documents.is_empty():
        return None
    ids = documents["document_id"].to_list()
    chunks = build.table(collection, "chunks").filter(pl.col("document_id").is_in(ids))
    memories = build.table(collection, "memories").filter(pl.col("document_id").is_in(ids))["memory_id"].to_list()
    mentions = build.table(collection, "mentions").filter(pl.col("memory_id").is_in(memories))
    facts = build.table(collection, "clause_facts").filter(pl.col("memory_id").is_in(memories))
    return {
        "document_id": min(ids),
        "chunks": chunks.height,
        "entities": mentions["entity_id"].n_unique(),
        "facts": facts.height,
    }


def _reject(build: Build, collection: str, uri: str) -> str | None:
    reasons = _of_source(build.table(collection, "rejects"), uri)["reason"]
    return "; ".join(reasons.drop_nulls().unique().sort()) or None


def _left_out(home: Home, build: Build, collection: str, uri: str) -> str | None:
    """Returns why a source that a build read has no document and no reject; None where no build has read it."""
    if collection not in build.collections or not build.manifest.created_at:
        return None
    versions = IngestLog(home.log / collection).versions()
    seen = versions.filter(pl.col("uri") == uri)["seen_at"].min()
    made = dt.datetime.fromisoformat(build.manifest.created_at)
    # A build that is running has read it, and the published one was made before.
    if not isinstance(seen, dt.datetime) or seen > made:
        return None
    return "nothing of it may be stored: see users.deny, retention_days and memory: off"


def _of_source(rows: pl.DataFrame, uri: str) -> pl.DataFrame:
    """Returns the rows of a source, its attachments included."""
    return rows.filter((pl.col("uri") == uri) | pl.col("uri").str.starts_with(f"{uri}#"))
