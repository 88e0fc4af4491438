"""What a delete names, and the rows of a build that this is."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.needles import encode_text
from palimpsest.memories.formed import formed_memories, rests_on, stated_memories
from palimpsest.sources.deletions import TurnIndex, place_key
from palimpsest.store.builds import Build, kept_builds, published
from palimpsest.store.collection_config import settings_or_none
from palimpsest.store.decisions import Decisions, ErasedText, tombstone
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.tables import SCHEMAS


@dataclass(frozen=True)
class Target:
    """Selectors of a delete; a row must match all that are given.

    Attributes:
        collection: name of a collection; None means all of them.
        document: uri of a source, or `uri#session`.
        user: user id.
        session: session id.
        project: project id.
        tag: a tag of memories.
        before: memories observed before this time.
        memories: memory ids; none means any.
        expired_at: memories whose retention ended by this time.
        denied: the user is one of `users.deny`: that setting keeps new texts out, and no tombstone is written.
        former: former names of sources by (collection, name), see `with_former_names`; no selector.
    """

    collection: str | None = None
    document: str | None = None
    user: str | None = None
    session: str | None = None
    project: str | None = None
    tag: str | None = None
    before: dt.datetime | None = None
    memories: frozenset[str] = frozenset()
    expired_at: dt.datetime | None = None
    denied: bool = False
    former: "FormerNames" = field(default_factory=dict, compare=False)

    @property
    def by_memory(self) -> bool:
        """Whether single memories are named: the rest of their documents is retained."""
        return bool(self.memories or self.tag or self.before or self.expired_at)

    @property
    def whole_collection(self) -> bool:
        """Whether a collection is deleted with all it has."""
        return self == Target(collection=self.collection)

    @property
    def whole_scope(self) -> bool:
        """Whether all of a collection, a user or a project is deleted: what people decided of it goes too."""
        return self == Target(self.collection, user=self.user, project=self.project, denied=self.denied)

    @property
    def selectors(self) -> list[str]:
        """The names of the selectors that are given, not what they name."""
        return [f.name for f in _selectors() if getattr(self, f.name)]

    @property
    def key(self) -> str:
        """A hash of the selectors, the same for the same delete."""
        if self.expired_at:
            return "retention"  # the same delete, whenever it is repeated
        values = (getattr(self, f.name) for f in _selectors())
        return content_id("delete", *(str(sorted(v)) if isinstance(v, frozenset) else str(v) for v in values))

    def check(self) -> None:
        """Checks that something is named and no selector is empty: an empty one would widen the delete.

        Raises:
            PalimpsestError: nothing is named, or a selector is empty.
        """
        if self == Target():
            names = "--memory, --document, --user, --session, --project, --tag, --before or --collection"
            raise PalimpsestError(f"delete: name what to delete: {names}")
        for name in ("document", "user", "session", "project", "tag", "collection"):
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise PalimpsestError(f"delete: --{name} is empty; name one, or leave it out")

    def covers(self, collection: str) -> bool:
        """Returns whether the target may name something in a collection."""
        return self.collection in (None, collection)

    def documents(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns the rows of a documents table whose document, user, session and project are those named."""
        given = {"user_id": self.user, "session_id": self.session, "project_id": self.project}
        rows = rows.filter(pl.lit(True), *(pl.col(c) == value for c, value in given.items() if value is not None))
        if self.document is None:
            return rows
        names = self.document_names
        named = [is_named(names, *row) for row in rows.select("uri", "session_id").iter_rows()]
        return rows.filter(pl.Series(named, dtype=pl.Boolean))

    @property
    def document_names(self) -> list[str]:
        """The document, and what it was named before; none where no document is named."""
        if self.document is None:
            return []
        source, mark, part = self.document.partition("#")
        former = {name for names in self.former.values() for name in names}
        return [self.document, *sorted({name + mark + part for name in former} - {self.document, source})]

    def tombstones(self, rows: pl.DataFrame) -> set[str]:
        """Returns the hashes that exclude the target's documents from later builds.

        Args:
            rows: collection, user_id, uri, session_id and project_id of the documents that are deleted.
        """
        if self.by_memory or self.whole_collection or self.denied:
            return set()
        scope = [self.collection] if self.collection else []
        if self == Target(collection=self.collection, user=self.user):
            return {tombstone("user", *scope, str(self.user))}
        if self == Target(collection=self.collection, document=self.document):
            return {tombstone("document", str(self.collection), str(self.document))}
        names = rows.select("collection", "user_id", "uri", "session_id", "project_id").iter_rows()
        return {tombstone("conversation", *(n or "" for n in row)) for row in names}


def is_named(names: Iterable[str], uri: str, session_id: str | None) -> bool:
    """Returns whether one of the names of documents is that of this one, or of what has it as a part."""
    own = (uri, f"{uri}#{session_id or ''}")
    return any(name in own or uri.startswith(f"{name}#") for name in names)


def _selectors() -> Iterator[Any]:
    return (f for f in fields(Target) if f.name != "former")


def pending_path(home: Home, target: Target) -> Path:
    """Returns the file with hashes of what a delete removes; it exists until the delete is proved."""
    return home.path / f"pending-delete-{target.key}.json"


_NO_DOCUMENTS = pl.DataFrame(schema=SCHEMAS["documents"])
FormerNames = Mapping[tuple[str, str], frozenset[str]]
"""Names that sources had before they were renamed, by collection and name of the source."""


def with_former_names(home: Home, builds: Iterable[Build], target: Target, earlier: Iterable[str]) -> Target:
    """Returns a target with the former names of what it names: a renamed document is history under them.

    A former name is that of a source that is gone, of which a kept build has a document with the same text, session,
    user and project. Users, sessions and projects name rows of documents whatever these are called, and need none.

    Args:
        home: the home.
        builds: the kept builds.
        target: the target.
        earlier: hashes of the former names that a stopped run of the same delete found: the log may have lost them.
    """
    if not (target.document or target.by_memory) or target.expired_at:
        return target
    former: dict[tuple[str, str], frozenset[str]] = {}
    wanted = (target.document, target.document.partition("#")[0]) if target.document else ()
    for name in (c for c in home.sources if target.covers(c)):
        log = IngestLog(home.log / name)
        documents = pl.concat([b.table(name, "documents") for b in builds if name in b.collections] or [_NO_DOCUMENTS])
        names = _former_names(documents, set(log.current()["uri"]))
        former |= {(name, u): frozenset(found) for u, found in names.items() if not wanted or u in wanted}
        uris = {u.partition("#")[0] for u in (*documents["uri"], *log.versions()["uri"])} if earlier else set()
        if again := frozenset(u for u in uris if former_hash(name, u) in earlier):
            former[name, ""] = again
    return replace(target, former=former)


def former_hash(collection: str, name: str) -> str:
    """Returns the hash of a former name, as the file of an unproved delete has it."""
    return content_id("former", collection, name)


def _former_names(documents: pl.DataFrame, current: set[str]) -> dict[str, set[str]]:
    """Returns the former names of every source that has any.

    Args:
        documents: of kept builds.
        current: the sources that are there now.
    """
    source, part = (pl.col("uri").str.splitn("#", 2).struct[i] for i in (0, 1))
    keys = ["content_hash", "session_id", "user_id", "project_id", "part"]
    rows = documents.with_columns(source=source, part=part).select("source", *keys).unique()
    gone = rows.filter(~pl.col("source").is_in(list(current)))
    pairs = rows.join(gone, on=keys, suffix="_gone", nulls_equal=True).select("source", "source_gone").unique()
    before: dict[str, set[str]] = {}
    for name, name_gone in pairs.filter(pl.col("source") != pl.col("source_gone")).sort(pl.all()).iter_rows():
        before.setdefault(name, set()).add(name_gone)
    for name, found in before.items():
        while more := {n for other in found for n in before.get(other, ())} - found - {name}:
            found |= more
    return before


def unfinished_deletes(home: Home) -> list[str]:
    """Returns the names of the files of deletes that were started and not proved, sorted."""
    return sorted(path.name for path in home.path.glob("pending-delete-*.json"))


@dataclass(frozen=True)
class MatchedRows:
    """The rows of one collection of one build that a target matches.

    Attributes:
        documents: rows of documents that are deleted whole.
        memories: rows of memories that are deleted.
        erased: hashes of memories that are deleted from documents that are retained.
        rejected: uris of sources that were rejected and are deleted: they have no documents.
    """

    documents: pl.DataFrame
    memories: pl.DataFrame
    erased: frozenset[ErasedText] = frozenset()
    rejected: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether the build has nothing of the target."""
        return not (self.documents.height or self.memories.height or self.rejected)


def match_rows(build: Build, name: str, target: Target, decisions: Decisions) -> MatchedRows:
    """Returns what a target names in a collection of a build.

    Args:
        build: the build.
        name: of the collection.
        target: what is deleted.
        decisions: what memories were edited to is deleted with them, and what was deleted before stays deleted.
    """
    documents, memories = build.table(name, "documents"), build.table(name, "memories")
    if not target.covers(name):
        return MatchedRows(documents.clear(), memories.clear())
    named = target.documents(documents)
    if not target.by_memory:
        found = memories.join(named, on="document_id", how="semi")
        rejects = build.table(name, "rejects").filter(pl.col("uri") == target.document) if target.document else None
        rejected = frozenset() if rejects is None else frozenset(rejects["uri"]) - set(documents["uri"])
        return MatchedRows(named, with_formed(found, memories), rejected=rejected)
    found = memories.join(named, on="document_id", how="semi")
    if target.memories:
        found = found.filter(pl.col("memory_id").is_in(list(target.memories)))
    if target.tag is not None:
        found = found.filter(pl.col("tags").list.contains(target.tag))
    if target.before is not None:
        found = found.filter(pl.col("observed_at") < target.before)
    if target.expired_at is not None:
        found = found.filter(pl.col("retention_until") <= target.expired_at)
    # What a formed memory says is in its evidence, from which the next build would form it again.
    rested = formed_memories(found)["chunk_ids"].explode(empty_as_null=True).drop_nulls().to_list()
    evidence = pl.col("chunk_ids").list.set_intersection(pl.lit(rested, dtype=pl.List(pl.String))).list.len() > 0
    found = pl.concat([stated_memories(found), stated_memories(memories).filter(evidence)]).unique("memory_id")
    # Only documents that lose a memory are read; an equal text at the same place is deleted too.
    wanted = set(found["memory_id"])
    later = frozenset(text for memory_id in wanted for text in decisions.edited.get(memory_id, ()))
    places = documents.join(found, on="document_id", how="semi") if later else documents.clear()
    versions = documents.join(places, on=["uri", "session_id", "user_id"], how="semi", nulls_equal=True)
    former = {n for (collection, _), names in target.former.items() if collection == name for n in names}
    renamed = documents.filter(pl.col("uri").str.split("#").list.first().is_in(list(former)))
    read = set(found["document_id"]) | set(versions["document_id"]) | set(renamed["document_id"])
    hashed = _hash_memories(build, name, stated_memories(memories), read, target.former)
    erased = later | {e for memory_id, texts in hashed if memory_id in wanted for e in texts}
    erased |= {e for _, (e, *_) in hashed if e in decisions.erased}
    equal = [memory_id for memory_id, (e, *_) in hashed if e in erased]
    removed = memories.filter(pl.col("memory_id").is_in(equal))
    return MatchedRows(documents.clear(), with_formed(removed, memories), erased)


def with_formed(removed: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns memories that are removed, with the formed ones that rest on any of them."""
    chunk_ids = stated_memories(removed)["chunk_ids"].explode(empty_as_null=True).drop_nulls().to_list()
    return pl.concat([removed, rests_on(memories, chunk_ids)]).unique("memory_id", maintain_order=True)


def _hash_memories(
    build: Build, name: str, memories: pl.DataFrame, document_ids: set[str], former: FormerNames
) -> list[tuple[str, list[ErasedText]]]:
    """Returns ids of memories of documents, with the hashes of each: where it is, then where it was before."""
    rows = memories.filter(pl.col("document_id").is_in(list(document_ids)))
    texts = build.table(name, "document_texts").join(rows, on="document_id", how="semi")
    turns = {d: TurnIndex(s) for d, s in texts.select("document_id", "segments").iter_rows()}
    uris = dict(build.table(name, "documents").select("document_id", "uri").iter_rows())
    columns = ("memory_id", "document_id", "user_id", "session_id", "text", "char_start")
    hashed = []
    for memory_id, document_id, user_id, session_id, text, start in rows.select(columns).iter_rows():
        if not encode_text(text):
            continue
        said = turns[document_id].utterance_at(start)
        source, mark, part = uris[document_id].partition("#")
        names = [uris[document_id], *(n + mark + part for n in sorted(former.get((name, source), ())))]
        places = [place_key(name, user_id, uri, session_id) for uri in names]
        hashed.append((memory_id, [ErasedText.of(place, said, text) for place in places]))
    return hashed


# Deletes before a build what its settings exclude: memories past their retention, and users who are denied.


def due_targets(home: Home, now: dt.datetime) -> list[Target]:
    """Returns targets for memories past their retention, and for users in `users.deny`, that a kept build still has.

    A delete of this kind that was stopped is due again.
    """
    expired = Target(expired_at=now)
    found = [expired] if _has_expired(home, now) or pending_path(home, expired).exists() else []
    current = published(home)
    for name, folder in sorted(home.sources.items()):
        if not (folder / "collection.yaml").is_file():
            continue
        config = settings_or_none(folder) or (current.config_of(name) if current else None)
        denied = sorted(config.users.deny) if config else []
        users = set(_users(home, name)) if denied else set()
        for user in denied:
            target = Target(collection=name, user=user, denied=True)
            if user in users or pending_path(home, target).exists():
                found.append(target)
    return found


def _has_expired(home: Home, now: dt.datetime) -> bool:
    for build in kept_builds(home):
        for name in build.collections:
            path = build.table_path(name, "memories")
            if path.exists() and "retention_until" in pl.read_parquet_schema(path):
                until = pl.read_parquet(path, columns=["retention_until"], glob=False)["retention_until"]
                if (until <= now).any():
                    return True
    return False


def _users(home: Home, collection: str) -> Iterator[str]:
    for build in kept_builds(home):
        if (path := build.table_path(collection, "documents")).exists():
            yield from pl.read_parquet(path, columns=["user_id"], glob=False)["user_id"].unique()


def delete_due(home: Home, now: dt.datetime | None = None) -> int:
    """Deletes what is due from a home whose lock this process has; returns how many memories.

    Raises:
        Refused: some of it was found afterwards; the message names the files.
        PalimpsestError: a collection's settings are wrong, or the home is in Neo4j too, and the server does not answer.
    """
    targets = due_targets(home, now or dt.datetime.now(dt.UTC))
    if not targets:
        return 0
    from palimpsest.pipeline.deletion.delete import delete_target

    return sum(delete_target(home, target).memories for target in targets)
