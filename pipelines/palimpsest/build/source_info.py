"""What a home says of each source of a collection: type, size, when it was first read and when it last changed."""

from dataclasses import asdict, dataclass

import polars as pl

from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog


@dataclass(frozen=True)
class SourceInfo:
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

    def to_json(self) -> JsonObject:
        """Returns the fields as a JSON object."""
        return asdict(self)


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
