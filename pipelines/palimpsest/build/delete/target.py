"""What a delete names, and the rows of a build that this is."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.needles import encode_text
from palimpsest.memories.formed import formed_memories, rests_on, stated_memories
from palimpsest.sources.deletions import TurnIndex, place_key
from palimpsest.store.builds import Build
from palimpsest.store.decisions import ErasedText, tombstone
from palimpsest.store.home import Home


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
        return [f.name for f in fields(self) if getattr(self, f.name)]

    @property
    def key(self) -> str:
        """A hash of the selectors, the same for the same delete."""
        if self.expired_at:
            return "retention"  # the same delete, whenever it is repeated
        values = (getattr(self, f.name) for f in fields(self))
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
        uri = pl.col("uri")
        session = pl.format("{}#{}", uri, pl.col("session_id").fill_null(""))
        return rows.filter(
            (uri == self.document) | uri.str.starts_with(self.document + "#") | (session == self.document)
        )

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


def pending_path(home: Home, target: Target) -> Path:
    """Returns the file with hashes of what a delete removes; it exists until the delete is proved."""
    return home.path / f"pending-delete-{target.key}.json"


def unfinished_deletes(home: Home) -> list[str]:
    """Returns the names of the files of deletes that were started and not proved, sorted."""
    return sorted(path.name for path in home.path.glob("pending-delete-*.json"))


Edited = Mapping[str, frozenset[ErasedText]]


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


def match_rows(build: Build, name: str, target: Target, edited: Edited) -> MatchedRows:
    """Returns what a target names in a collection of a build.

    Args:
        build: the build.
        name: of the collection.
        target: what is deleted.
        edited: what memories were edited to, by their ids: that is deleted with them.
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
    later = frozenset(text for memory_id in wanted for text in edited.get(memory_id, ()))
    places = documents.join(found, on="document_id", how="semi") if later else documents.clear()
    versions = documents.join(places, on=["uri", "session_id", "user_id"], how="semi", nulls_equal=True)
    read = set(found["document_id"]) | set(versions["document_id"])
    hashed = _hash_memories(build, name, stated_memories(memories), read)
    erased = later | {e for memory_id, e in hashed if memory_id in wanted}
    equal = [memory_id for memory_id, e in hashed if e in erased]
    removed = memories.filter(pl.col("memory_id").is_in(equal))
    return MatchedRows(documents.clear(), with_formed(removed, memories), erased)


def with_formed(removed: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns memories that are removed, with the formed ones that rest on any of them."""
    chunk_ids = stated_memories(removed)["chunk_ids"].explode(empty_as_null=True).drop_nulls().to_list()
    return pl.concat([removed, rests_on(memories, chunk_ids)]).unique("memory_id", maintain_order=True)


def _hash_memories(
    build: Build, name: str, memories: pl.DataFrame, document_ids: set[str]
) -> list[tuple[str, ErasedText]]:
    rows = memories.filter(pl.col("document_id").is_in(list(document_ids)))
    texts = build.table(name, "document_texts").join(rows, on="document_id", how="semi")
    turns = {d: TurnIndex(s) for d, s in texts.select("document_id", "segments").iter_rows()}
    uris = dict(build.table(name, "documents").select("document_id", "uri").iter_rows())
    columns = ("memory_id", "document_id", "user_id", "session_id", "text", "char_start")
    return [
        (
            memory_id,
            ErasedText.of(
                place_key(name, user_id, uris[document_id], session_id),
                turns[document_id].utterance_at(start),
                text,
            ),
        )
        for memory_id, document_id, user_id, session_id, text, start in rows.select(columns).iter_rows()
        if encode_text(text)
    ]
