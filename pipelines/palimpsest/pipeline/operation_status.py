"""What became of an operation of the inbox, as the builds, the log and the inbox have it: no state is stored."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.types import JsonObject
from palimpsest.sources.storage_policy import redact_text
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.home import Home
from palimpsest.store.inbox import inbox_files, is_inbox_uri, is_of_operation, is_of_user, read_failures, record_failure
from palimpsest.store.ingest_log import IngestLog

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
