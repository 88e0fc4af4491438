"""Provable delete: removes all that a target names, then searches for every id, line and name of it.

The order makes a crash safe. Tombstones, which exclude the target from later builds, are written first; then hashes of
all that is searched for, which stay until nothing of it is found, so that a rerun finishes and proves the delete.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.core.files import say
from palimpsest.pipeline.deletion.collect import check_found, collect, collection_of, sources_in_home
from palimpsest.pipeline.deletion.delete_result import (
    MAX_SHOWN,
    DeleteResult,
    count_deleted,
    dry_run_result,
    proved_result,
)
from palimpsest.pipeline.deletion.erase_home import check_server, erase, write_tombstones
from palimpsest.pipeline.deletion.proof import read_pending, search_home, split_probes
from palimpsest.pipeline.deletion.run_history import search_collection
from palimpsest.pipeline.deletion.run_storage import check_run_storage, search_runs
from palimpsest.pipeline.deletion.target import Target, former_hash, pending_path, with_former_names
from palimpsest.query.pending.change import stated_first
from palimpsest.store.backup_archive import exclude_snapshots
from palimpsest.store.builds import kept_builds, remove_build, staged, sweep
from palimpsest.store.event_log import observed, run_scope
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.remote_home import StoreProof, erase_from_store
from palimpsest.store.web_pages import sweep_pages

__all__ = ["DeleteResult", "Target", "delete", "delete_target"]


def delete(
    home: Home,
    *,
    document: str | None = None,
    user: str | None = None,
    collection: str | None = None,
    session: str | None = None,
    project: str | None = None,
    tag: str | None = None,
    before: dt.datetime | None = None,
    memories: Iterable[str] = (),
    dry_run: bool = False,
) -> DeleteResult:
    """Deletes what matches all selectors, and proves that none of it can be found.

    Args:
        home: the home.
        document: uri of a source, or `uri#session`.
        user: user id.
        collection: name of a collection.
        session: session id.
        project: project id.
        tag: a tag of memories.
        before: memories observed before this time.
        memories: memory ids.
        dry_run: report what would be deleted, and do nothing.

    Raises:
        PalimpsestError: nothing is named, or nothing matches.
        Refused: some of it was found afterwards; the message names the files.
    """
    target = Target(collection, document, user, session, project, tag, before, frozenset(memories))
    target.check()
    with home.lock():
        target = replace(target, memories=stated_first(home, target.memories, user))
        if target == Target(collection=collection, document=document):
            target = Target(collection_of(home, str(document), collection) if document else collection, document)
        return delete_target(home, target, dry_run)


def delete_target(home: Home, target: Target, dry_run: bool = False) -> DeleteResult:
    """Deletes a target from a home whose lock this process has, and writes an event without its names; see `delete`."""
    if dry_run:
        return _delete(home, target, dry_run)
    with run_scope(), observed(home.path, "delete", selectors=" ".join(target.selectors)) as event:
        done = _delete(home, target, dry_run)
        event |= {"documents": done.documents, "memories": done.memories}
    return done


def _delete(home: Home, target: Target, dry_run: bool) -> DeleteResult:
    """Deletes a target.

    Raises:
        PalimpsestError: the target names nothing in this home, or a backup of it does not end.
        ComponentFailed: the home is in Neo4j too, and its server does not answer.
        Refused: the search for what was deleted still finds some of it.
    """
    with exclude_snapshots(home):
        return _delete_target(home, target, dry_run)


def _delete_target(home: Home, target: Target, dry_run: bool) -> DeleteResult:
    sweep(home)
    if not dry_run:
        _check_undamaged(home)
    if staged(home).path.is_dir() and not staged(home).is_finished and not dry_run:
        remove_build(staged(home))  # left by a run that was stopped; the next build makes it again
    for name in home.sources if not dry_run else ():
        sweep_pages(home.web, name)  # bytes of earlier versions of pages would be found
    builds = kept_builds(home)
    earlier, pending, former = read_pending(pending_path(home, target))
    target = with_former_names(home, builds, target, former)
    found = collect(home, builds, target)
    check_found(home, target, found, builds)
    if dry_run:
        return dry_run_result(found)
    check_server(home)
    check_run_storage(home)
    counts = {
        "documents": max(pending.get("documents", 0), len(found.documents)),
        "memories": max(pending.get("memories", 0), len(found.memories)),
    }
    probes = found.probes(earlier)
    write_tombstones(home, target, found)
    former |= {former_hash(c, name) for (c, _), names in target.former.items() for name in names}
    probes.write_pending(pending_path(home, target), counts, former)
    say(f"delete: {count_deleted(counts)}")
    skipped = sources_in_home(home)
    anywhere, in_columns = split_probes(probes)
    texts = replace(anywhere, strings=anywhere.strings | in_columns.strings - in_columns.names)
    erased = erase(home, target, found, texts)  # a name such as `index` is in lines about other things
    proof = search_home(home, anywhere, in_columns, {*home.path.glob("pending-delete-*.json"), *skipped})
    proof = search_runs(home, anywhere, proof)
    if target.whole_collection:
        left = search_collection(home, str(target.collection))
        proof = replace(proof, residue=(*proof.residue, *left))
    if proof.residue:
        shown = ", ".join(proof.residue[:MAX_SHOWN])
        raise Refused(f"delete: still found in {shown}; run the same delete again")
    first = _erase_from_store(home)
    pending_path(home, target).unlink(missing_ok=True)
    stored = _erase_from_store(home)  # once more: the store had the pending file
    if first is not None and stored is not None:
        stored = replace(stored, versions=first.versions + stored.versions)
    return proved_result(counts, erased, probes, len(in_columns), proof, stored)


def _erase_from_store(home: Home) -> StoreProof | None:
    """Removes what was deleted from the store of a home on object storage.

    Raises:
        Refused: the store still has some of it.
    """
    stored = erase_from_store(home.path)
    if stored is not None and stored.residue:
        shown = ", ".join(stored.residue[:MAX_SHOWN])
        raise Refused(f"delete: the store of the home still has {shown}; run the same delete again")
    return stored


def _check_undamaged(home: Home) -> None:
    """Checks that every kept build has its tables and every log its texts: what is deleted is looked up in them.

    Raises:
        PalimpsestError: a table or a text is damaged or missing.
    """
    for build in kept_builds(home):
        damaged = [name for name in build.damaged_files() if name.endswith(".parquet")]
        if build.is_finished and damaged:
            raise PalimpsestError(
                f"build {build.build_id}: {damaged[0]} is damaged; run palimpsest build, which repairs it, then delete "
                f"again ({home.path})"
            )
    for log in (IngestLog(folder) for folder in sorted(home.log.glob("*")) if folder.is_dir()):
        if log.damaged_lists() or log.damaged_texts():
            raise PalimpsestError(
                f"log of {log.folder.name}: damaged; run palimpsest build --repair, which names what it repairs, then "
                f"delete again ({log.folder})"
            )
