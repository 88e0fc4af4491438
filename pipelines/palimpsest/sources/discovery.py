"""Lists the files of a collection that are sources, with a hash of the content of each."""

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.sources.extracted import Scope
from palimpsest.sources.readers.chat_exports import find_users_file
from palimpsest.sources.readers.encodings import path_to_uri
from palimpsest.sources.readers.front_matter import find_sidecar, is_sidecar
from palimpsest.store.collection_config import CollectionConfig, find_collections, load_collection
from palimpsest.store.decisions import Decisions
from palimpsest.store.inbox import PREFIX, inbox_files, is_inbox_uri
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.standing_questions import QUESTIONS_FILE
from palimpsest.store.web_pages import SITES_FILE, web_pages

UNREADABLE = "unreadable"
"""Content hash of a link out of the collection or in a circle, a pipe, or a file without permission."""


class SourceFile(NamedTuple):
    """A source on disk; its content hash covers its sidecar too.

    `owner` is whose a page of the web is, whatever the page states; None for all other sources.
    """

    path: Path
    content_hash: str
    owner: Scope | None = None


def source_files(folder: Path, config: CollectionConfig) -> Iterator[tuple[str, Path]]:
    """Yields (uri, path) of every source below `folder`, sorted by uri; hidden files and settings are not sources.

    A sidecar is not a source either; one without a source is yielded, to be rejected by name.
    A uri is the path relative to the collection, with forward slashes and invisible characters escaped.

    Raises:
        PalimpsestError: a folder cannot be listed; its files must not count as removed.
    """

    def raise_unlisted(error: OSError) -> None:
        raise PalimpsestError(f"{error.filename}: this folder of {config.name} cannot be listed; make it readable")

    settings = {"collection.yaml", QUESTIONS_FILE, SITES_FILE, config.document_relations}
    found = []
    for root, folders, names in os.walk(folder, onerror=raise_unlisted):
        linked = [f for f in folders if not f.startswith(".") and Path(root, f).is_symlink()]
        folders[:] = [f for f in folders if not f.startswith(".") and f not in linked]
        siblings = {*names, *linked}
        for name in siblings:
            path = Path(root, name)
            uri = path_to_uri(path.relative_to(folder).as_posix())
            if not name.startswith(".") and uri not in settings and not is_sidecar(name, siblings):
                found.append((uri, path))
    yield from sorted(found)


def collection_files(folder: Path, config: CollectionConfig) -> list[tuple[str, Path, Path]]:
    """Returns (uri, path, folder) of every source of a collection: its own, and those that `include` names.

    The uri of a source that lies in the folder of another collection is `<its name>/<uri there>`.

    Raises:
        PalimpsestError: a folder cannot be listed, a collection that is named is not beside this one, or no source of
            it matches; or a source of both has one uri.
    """
    found = {uri: (uri, path, folder) for uri, path in source_files(folder, config)}
    place = folder / "collection.yaml"
    for name, patterns in sorted(config.include.items()):
        other, other_config = _beside(folder, config, name)
        included = [(uri, path) for uri, path in source_files(other, other_config) if _matches(uri, patterns)]
        if not included:
            raise PalimpsestError(
                f"collection.yaml: include: no source of {name} matches {', '.join(patterns)} ({place})"
            )
        for uri, path in included:
            if (own := f"{name}/{uri}") in found:
                raise PalimpsestError(f"collection.yaml: include: {own} is a source here already; rename it ({place})")
            found[own] = (own, path, other)
    return [found[uri] for uri in sorted(found)]


def _matches(uri: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(uri, pattern) for pattern in patterns)


def _beside(folder: Path, config: CollectionConfig, name: str) -> tuple[Path, CollectionConfig]:
    """Returns the folder and the settings of the collection of a name in the same corpus.

    Raises:
        PalimpsestError: there is none but this one.
    """
    beside = find_collections([folder.resolve().parent])
    if name not in beside or name == config.name:
        others = ", ".join(n for n in beside if n != config.name) or "none"
        raise PalimpsestError(
            f"collection.yaml: include: no collection {name!r} is beside this one, only {others} "
            f"({folder / 'collection.yaml'})"
        )
    return beside[name], load_collection(beside[name])


def scan_sources(
    folder: Path,
    config: CollectionConfig,
    decisions: Decisions,
    inbox: Path | None = None,
    log: IngestLog | None = None,
    web: Path | None = None,
) -> dict[str, SourceFile]:
    """Returns every source by uri, without those that were deleted by decision.

    Args:
        folder: of the collection.
        config: its settings.
        decisions: what was deleted.
        inbox: of the home, whose files for the collection are sources too.
        log: of the collection. A source of the inbox that it has needs no file, nor does an imported one: only a
            delete removes them.
        web: folder of the pages that the home read from the web, which are sources too.
    """
    files = collection_files(folder, config)
    found = {uri: SourceFile(path, hash_source(path, root)) for uri, path, root in files}
    if inbox is not None:
        logged = [] if log is None else [row for row in log.on_disk().iter_rows() if is_inbox_uri(row[0])]
        found |= {uri: SourceFile(inbox / config.name / uri.removeprefix(PREFIX), key) for uri, key in logged}
        sent = inbox_files(inbox, config.name)
        found |= {f.uri: SourceFile(f.path, hash_source(f.path, inbox)) for f in sent}
    if web is not None:
        found |= page_sources(web, config.name, log)
    if log is not None:
        found |= _imported_sources(folder, log, found)
    return {uri: s for uri, s in found.items() if not decisions.hides_source(config.name, uri, s.content_hash)}


def page_sources(web: Path, collection: str, log: IngestLog | None = None) -> dict[str, SourceFile]:
    """Returns the pages of a collection by uri; one without its file is what the log has of it."""
    logged = {} if log is None else dict(log.on_disk().iter_rows())
    found = {}
    for page in web_pages(web, collection):
        owner = Scope(page.record.user_id, page.record.project_id)
        key = hash_source(page.path, web) if page.path.is_file() else logged.get(page.record.uri)
        if key is not None:
            found[page.record.uri] = SourceFile(page.path, key, owner)
    return found


def _imported_sources(folder: Path, log: IngestLog, found: Mapping[str, SourceFile]) -> dict[str, SourceFile]:
    """Returns the sources of which the log has an imported version, in place of the file that it replaces.

    A file that changed since, or that is there where none was, is newer than what was imported.
    """
    rows = log.current().filter(pl.col("instead_of").is_not_null()).select("uri", "content_hash", "instead_of")
    imported = {}
    for uri, content_hash, instead_of in rows.iter_rows():
        file = found.get(uri)
        if (file.content_hash if file else "") in (instead_of, content_hash):
            imported[uri] = SourceFile(file.path if file else folder / uri, content_hash)
    return imported


def deleted_sources(folder: Path, config: CollectionConfig, decisions: Decisions) -> list[str]:
    """Returns the uris of sources that were deleted and are still on disk: skipped and reported (decision 14)."""
    if not decisions.tombstones:
        return []
    files = collection_files(folder, config)
    return [uri for uri, path, root in files if decisions.hides_source(config.name, uri, hash_source(path, root))]


def hash_source(path: Path, folder: Path) -> str:
    """Returns the content hash of a source below a folder; it covers its sidecar and the like."""
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
        if not is_inside:
            return UNREADABLE
        companions = {
            "sidecar": find_sidecar(path),
            "users": find_users_file(path, path.relative_to(folder).as_posix()),
        }
        parts = [part for name, file in companions.items() if file for part in (name, file_hash(file))]
        return content_id(file_hash(path), *parts) if parts else file_hash(path)
    except (OSError, RuntimeError):
        return UNREADABLE
