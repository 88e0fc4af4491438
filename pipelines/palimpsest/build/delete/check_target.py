"""Whether a home has what a delete names, and in which collection a source is."""

import polars as pl

from palimpsest.build.delete.collect import DeletionSet
from palimpsest.build.delete.target import Target, pending_path
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import Build, kept
from palimpsest.store.decisions import read_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import find_page


def check_found(home: Home, target: Target, found: DeletionSet, builds: list[Build]) -> None:
    """Checks that a delete names something that the home has, or that an earlier run of it deleted.

    Raises:
        PalimpsestError: it names nothing; the message lists what there is.
    """
    again = pending_path(home, target).exists() or _was_deleted(home, target)
    if target.memories and (unknown := sorted(target.memories - found.memories)) and not again:
        raise PalimpsestError(
            f"delete: no memory {unknown[0]!r} in home {home.path}; ids are in palimpsest query --json"
        )
    if not found.is_empty or again or (target.whole_collection and target.collection in home.sources):
        return
    if target.document is not None and any(
        (IngestLog(home.log / c).versions()["uri"] == target.document).any() for c in home.sources if target.covers(c)
    ):
        return  # a source that was only ever rejected
    documents = [b.table(c, "documents") for b in builds for c in b.collections]
    for column, value in (("user_id", target.user), ("session_id", target.session), ("project_id", target.project)):
        known = sorted({v for d in documents for v in d[column].drop_nulls()})
        if value is not None and value not in known:
            what = column.removesuffix("_id")
            raise PalimpsestError(f"delete: no {what} {value!r}; there is {', '.join(known[:8]) or 'none'}")
    if target.collection is not None and target.collection not in home.sources:
        raise PalimpsestError(
            f"delete: no collection {target.collection!r}; there is {', '.join(home.sources) or 'none'}"
        )
    raise PalimpsestError(f"delete: nothing in home {home.path} matches; look at palimpsest query --history")


def _was_deleted(home: Home, target: Target) -> bool:
    by_user = target == Target(collection=target.collection, user=target.user)
    by_document = target == Target(collection=target.collection, document=target.document)
    if not (by_user or by_document) or target.whole_collection:
        return False
    return not target.tombstones(pl.DataFrame()).isdisjoint(read_decisions(home.decisions).tombstones)


def collection_of(home: Home, document: str, collection: str | None) -> str:
    """Returns the collection that has a source, or had it before a delete.

    Raises:
        PalimpsestError: no collection has it, or several do.
    """
    names = [c for c in home.sources if collection in (None, c)]
    target = Target(document=document)
    in_log = {c for c in names if (IngestLog(home.log / c).versions()["uri"] == document).any()}
    fetched = {c for c in names if find_page(home.web, c, document) is not None}
    in_builds = {c for b in kept(home) for c in b.collections if target.documents(b.table(c, "documents")).height}
    matching = sorted(in_log | fetched | (in_builds & set(names)))
    if len(matching) > 1:
        raise PalimpsestError(f"delete: {document} is in {' and '.join(matching)}; add --collection")
    if not matching:
        deleted = read_decisions(home.decisions).tombstones
        known = [c for c in names if tombstone("document", c, document) in deleted]
        if len(known) == 1:
            return known[0]
        raise PalimpsestError(
            f"delete: no source {document!r} in {', '.join(names) or 'this home'}; give its path inside the collection"
        )
    return matching[0]
