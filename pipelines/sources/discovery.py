"""Lists the files of a collection that are sources, with a hash of the content of each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.sources.readers.common.clean_text import path_to_uri
from palimpsest.sources.readers.common.sidecar import SIDECAR_SUFFIX, find_sidecar
from palimpsest.sources.readers.conversations.slack import find_users_file
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.inbox import PREFIX, inbox_files, is_inbox_uri
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.standing_questions import QUESTIONS_FILE

UNREADABLE = "unreadable"
"""Content hash of a link out of the collection or in a circle, a pipe, or a file without permission."""


class SourceFile(NamedTuple):
    """A source on disk; its content hash covers its sidecar too."""

    path: Path
    content_hash: str


def source_files(folder: Path, config: CollectionConfig) -> Iterator[tuple[str, Path]]:
    """Yields (uri, path) of every source below `folder`, sorted by uri; hidden files and settings are not sources.

    A sidecar is not a source either; one without a source is yielded, to be rejected by name.
    A uri is the path relative to the collection, with forward slashes and invisible characters escaped.

    Raises:
        PalimpsestError: a folder cannot be listed; its files must not count as removed.
    """

    def raise_unlisted(error: OSError) -> None:
        raise PalimpsestError(f"{error.filename}: this folder of {config.name} cannot be listed; make it readable")

    settings = {"collection.yaml", QUESTIONS_FILE, config.document_relations}
    found = []
    for root, folders, names in os.walk(folder, onerror=raise_unlisted):
        linked = [f for f in folders if not f.startswith(".") and Path(root, f).is_symlink()]
        folders[:] = [f for f in folders if not f.startswith(".") and f not in linked]
        siblings = {*names, *linked}
        for name in siblings:
            path = Path(root, name)
            uri = path_to_uri(path.relative_to(folder).as_posix())
            is_sidecar = name.endswith(SIDECAR_SUFFIX) and name.removesuffix(SIDECAR_SUFFIX) in siblings
            if not name.startswith(".") and uri not in settings and not is_sidecar:
                found.append((uri, path))
    yield from sorted(found)


def scan_sources(
    folder: Path,
    config: CollectionConfig,
    decisions: Decisions,
    inbox: Path | None = None,
    log: IngestLog | None = None,
) -> dict[str, SourceFile]:
    """Returns every source by uri, without those that were deleted by decision.

    Args:
        folder: of the collection.
        config: its settings.
        decisions: what was deleted.
        inbox: of the home, whose files for the collection are sources too.
        log: of the collection. A source of the inbox that it has needs no file: only a delete removes one.
    """
    found = {uri: SourceFile(path, _hash_source(path, folder)) for uri, path in source_files(folder, config)}
    if inbox is not None:
        logged = [] if log is None else [row for row in log.on_disk().iter_rows() if is_inbox_uri(row[0])]
        found |= {uri: SourceFile(inbox / config.name / uri.removeprefix(PREFIX), key) for uri, key in logged}
        files = inbox_files(inbox, config.name)
        found |= {f.uri: SourceFile(f.path, _hash_source(f.path, inbox)) for f in files}
    return {uri: s for uri, s in found.items() if not decisions.hides_source(config.name, uri, s.content_hash)}


def deleted_sources(folder: Path, config: CollectionConfig, decisions: Decisions) -> list[str]:
    """Returns the uris of sources that were deleted and are still on disk: skipped and reported (decision 14)."""
    if not decisions.tombstones:
        return []
    files = source_files(folder, config)
    return [uri for uri, path in files if decisions.hides_source(config.name, uri, _hash_source(path, folder))]


def _hash_source(path: Path, folder: Path) -> str:
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
