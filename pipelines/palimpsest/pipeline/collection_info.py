"""What a home says of its collections: settings, when they were made, and how much of what is in them."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.memories.boilerplate import BOILERPLATE
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import CollectionConfig, load_collection
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog


@dataclass(frozen=True)
class CollectionInfo:
    """A collection of a home.

    Attributes:
        name: of it.
        folder: where its sources are; None where the home does not know any more.
        description: from its settings.
        unit: of its memories.
        include: names of the collections of which it includes documents.
        created_at: when the home first knew it, else when its first source was read; ISO 8601, None where neither is
            known.
        updated_at: when the last new version of a source was read.
        counts: `sources`, `documents` (current), `document_versions`, `chunks`, `memories`, `latest`, `users`,
            `projects`, `entities`, `relations` (without NONE), `rejects`, of the published build.
        size_bytes: of the files of the sources that exist now, as far as known: sizes are logged when a file is read.
        types: (documents, bytes) of each media type; a file of several documents counts its bytes once.
        months: number of memories by month of observation; undated ones under "".
        strategy: how a search of it is done.
    """

    name: str
    folder: Path | None
    description: str
    unit: str
    include: tuple[str, ...]
    created_at: str | None
    updated_at: str | None
    counts: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    types: dict[str, tuple[int, int]] = field(default_factory=dict)
    months: dict[str, int] = field(default_factory=dict)
    strategy: str = ""

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object."""
        types: JsonObject = {name: {"documents": n, "bytes": size} for name, (n, size) in self.types.items()}
        values = {**vars(self), "folder": None if self.folder is None else str(self.folder), "types": types}
        return values | {"include": list(self.include)}


def list_collections(home: Home) -> list[CollectionInfo]:
    """Returns every collection of a home, those without a build included, by name."""
    build = published(home)
    names = {*home.sources, *(build.collections if build else ())}
    return [_info(home, build, name) for name in sorted(names)]


def collection_info(home: Home, name: str) -> CollectionInfo:
    """Returns one collection of a home.

    Raises:
        ArgumentError: the home has no such collection.
    """
    return _info(home, _build_of(home, name), name)


def collection_schema(home: Home, name: str) -> JsonObject | None:
    """Returns the metadata_schema of a collection, as its settings state it; None where it has none.

    Raises:
        ArgumentError: the home has no such collection.
    """
    config = _config(home, _build_of(home, name), name)
    return None if config is None or config.metadata_schema is None else dict(config.metadata_schema)


@dataclass(frozen=True)
class RecurringText(JsonRecord):
    """A text that many documents of a collection have, and that is hidden for it.

    Attributes:
        text: as one of them has it: the first by memory id of those that differ in case and spaces alone.
        memories: how many memories have it.
        documents: how many documents.
        memory_id: of that one.
        uri: of its document.
    """

    text: str
    memories: int
    documents: int
    memory_id: str
    uri: str


def list_boilerplate(home: Home, name: str) -> list[RecurringText]:
    """Returns the texts of a collection that are hidden because they recur, once each, the most frequent first.

    Raises:
        ArgumentError: the home has no such collection.
    """
    build = _build_of(home, name)
    if build is None or name not in build.collections:
        return []
    uris = build.table(name, "documents").filter("is_current").select("document_id", "uri")
    rows = (
        build.table(name, "memories")
        .filter(pl.col("tags").list.contains(BOILERPLATE))
        .join(uris, on="document_id", how="inner")
        .with_columns(same=pl.col("text").str.to_lowercase().str.replace_all(r"\s+", " "))
        .sort("memory_id")
        .group_by("same")
        .agg(
            pl.col("text").first(),
            memories=pl.len(),
            documents=pl.col("uri").n_unique(),
            memory_id=pl.col("memory_id").first(),
            uri=pl.col("uri").first(),
        )
        .sort("memories", "same", descending=[True, False])
    )
    return [RecurringText(**row) for row in rows.drop("same").to_dicts()]


def _build_of(home: Home, name: str) -> Build | None:
    """Returns the published build of a home that has a collection, built or not.

    Raises:
        ArgumentError: the home has no such collection.
    """
    build = published(home)
    names = sorted({*home.sources, *(build.collections if build else ())})
    if name not in names:
        raise ArgumentError("name", f"not in this home; it has: {', '.join(names) or 'none'}", name)
    return build


def _info(home: Home, build: Build | None, name: str) -> CollectionInfo:
    folder = home.sources.get(name)
    log = IngestLog(home.log / name)
    versions = log.versions()
    seen = versions["seen_at"]
    first, last = (None if seen.is_empty() else t.isoformat() for t in (seen.min(), seen.max()))  # type: ignore[union-attr]
    config = _config(home, build, name)
    sources = log.current()
    found = CollectionInfo(
        name,
        folder,
        config.description if config else "",
        config.unit if config else "",
        tuple(sorted(config.include)) if config else (),
        home.created_at.get(name) or first,
        last,
        size_bytes=int(sources["size_bytes"].sum() or 0),
    )
    return _with_statistics(found, build, sources)


def _config(home: Home, build: Build | None, name: str) -> CollectionConfig | None:
    if folder := home.folder_of(name):
        return load_collection(folder)
    return build.config_of(name) if build else None


def _with_statistics(info: CollectionInfo, build: Build | None, sources: pl.DataFrame) -> CollectionInfo:
    """Returns a collection with what the published build has of it."""
    name = info.name
    if build is None or name not in build.collections:
        return replace(info, counts={"sources": sources.height})
    documents, memories = build.table(name, "documents"), build.table(name, "memories")
    relations = build.table(name, "relations")
    current = documents.filter("is_current")
    counts = {
        "sources": sources.height,
        "documents": current.height,
        "document_versions": documents.height,
        "chunks": build.table(name, "chunks").height,
        "memories": memories.height,
        "latest": build.table(name, "versions").filter("is_latest").height,
        "users": memories["user_id"].n_unique(),
        "projects": memories.filter(pl.col("project_id") != "")["project_id"].n_unique(),
        "entities": build.table(name, "entities").height,
        "relations": relations.filter(pl.col("label") != "NONE").height,
        "rejects": build.table(name, "rejects").height,
    }
    months = memories.select(month=pl.col("observed_at").dt.strftime("%Y-%m").fill_null(""))
    return replace(
        info,
        counts=counts,
        types=_types(current, sources),
        months=dict(months["month"].value_counts().sort("month").iter_rows()),
        strategy=build.manifest.settings.get("strategies", {}).get(name, ""),
    )


def _types(documents: pl.DataFrame, sources: pl.DataFrame) -> dict[str, tuple[int, int]]:
    sizes = dict(sources.select("uri", pl.col("size_bytes").fill_null(0)).iter_rows())
    numbers: Counter[str] = Counter(documents["media_type"])
    total: Counter[str] = Counter()
    # A part of a file (`mail.eml#plan.pdf`) has the uri of the file before its own name.
    for media_type, uri in documents.sort("uri").select("media_type", "uri").unique().sort("uri").iter_rows():
        total[media_type] += sizes.pop(uri, 0)
    return {media_type: (n, total[media_type]) for media_type, n in sorted(numbers.items())}


# What a home says of each source of a collection: type, size, when it was first read and when it last changed.


@dataclass(frozen=True)
class SourceInfo(JsonRecord):
    """A source that exists now.

    Attributes:
        uri: in its collection.
        media_type: of its documents in the published build; "" where it has none there.
        size_bytes: of the file; None where it was imported, or logged before sizes were.
        documents: how many current documents it has in the published build: a conversation file has one a session.
        versions: how many were read.
        created_at: when the first was read, ISO 8601 in UTC.
        updated_at: when the last was read.
    """

    uri: str
    media_type: str
    size_bytes: int | None
    documents: int
    versions: int
    created_at: str
    updated_at: str


def list_sources(home: Home, collection: str) -> list[SourceInfo]:
    """Returns the sources of a collection by uri."""
    log, build = IngestLog(home.log / collection), published(home)
    times = log.versions().group_by("uri").agg(pl.len(), first=pl.col("seen_at").min(), last=pl.col("seen_at").max())
    found = log.current().select("uri", "size_bytes").join(times, on="uri").sort("uri")
    types: dict[str, list[str]] = {}
    if build is not None:
        documents = build.table(collection, "documents").filter("is_current").sort("uri")
        known = set(found["uri"])
        for uri, media_type in documents.select("uri", "media_type").iter_rows():
            # A part of a file (`mail.eml#plan.pdf`) has the uri of the file before its own name.
            types.setdefault(uri if uri in known else uri.partition("#")[0], []).append(media_type)
    return [
        SourceInfo(
            row["uri"],
            next(iter(types.get(row["uri"], [""]))),
            row["size_bytes"],
            len(types.get(row["uri"], ())),
            row["len"],
            row["first"].isoformat(),
            row["last"].isoformat(),
        )
        for row in found.iter_rows(named=True)
    ]
