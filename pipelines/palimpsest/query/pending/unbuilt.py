"""Which files of the inbox a published build does not have."""

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import DamagedFile
from palimpsest.query.request.types import Scope
from palimpsest.store.inbox import PREFIX, TEXT_SUFFIXES, InboxFile, inbox_files, user_part, user_part_of

_URIS = "SELECT DISTINCT uri FROM read_parquet(?) WHERE starts_with(uri, ?)"
_TABLES = ("documents", "rejects")


@dataclass(frozen=True)
class UnbuiltFiles:
    """The files of one user in one collection that a build has not read.

    Attributes:
        files: by name.
        key: differs where a file was added, removed or replaced.
    """

    files: tuple[InboxFile, ...] = ()
    key: tuple[tuple[str, int], ...] = ()


_NONE = UnbuiltFiles()


class UnbuiltInbox:
    """Finds those files. Safe to share between threads.

    A folder is listed again when it changed: a search costs one look at its time. Names of files say whose they are,
    and files of other users are not opened.
    """

    def __init__(self, home: Path):
        self._home, self._lock = home, threading.Lock()
        self._build_id = ""  # whose uris and lists these are
        self._built: dict[str, set[str]] = {}
        self._listed: dict[str, tuple[int, Mapping[str, UnbuiltFiles]]] = {}
        self._scopes: dict[tuple[str, str], tuple[UnbuiltFiles, frozenset[Scope]]] = {}

    def collections(self) -> list[str]:
        """Returns the names of the collections that have an inbox, sorted."""
        inbox = self._home / "inbox"
        return sorted(entry.name for entry in os.scandir(inbox) if entry.is_dir()) if inbox.is_dir() else []

    def of_user(self, build_id: str, collection: str, user: str) -> UnbuiltFiles:
        """Returns the files of a user that a build has not read: turns and texts; other files wait for the build."""
        try:
            changed = (self._home / "inbox" / collection).stat().st_mtime_ns
        except OSError:
            return _NONE
        with self._lock:
            if build_id != self._build_id:
                self._build_id, self._built, self._listed, self._scopes = build_id, {}, {}, {}
            known = self._listed.get(collection)
            if known is None or known[0] != changed:
                known = self._listed[collection] = (changed, self._list(collection))
        return known[1].get(user_part_of(user), _NONE)

    def scopes(self, build_id: str, user: str) -> set[Scope]:
        """Returns the scopes of a user that have a text that a build lacks."""
        found = set[Scope]()
        for collection in self.collections():
            if (unbuilt := self.of_user(build_id, collection, user)).files:
                known = self._scopes.get((collection, user))
                if known is None or known[0] != unbuilt:
                    known = unbuilt, _scopes_of(unbuilt.files, user)
                    self._scopes[collection, user] = known
                found |= known[1]
        return found

    def _list(self, collection: str) -> Mapping[str, UnbuiltFiles]:
        if collection not in self._built:
            self._built[collection] = _uris(self._home / "builds" / self._build_id / collection)
        built = self._built[collection]
        found: dict[str, list[tuple[InboxFile, int]]] = {}
        for file in inbox_files(self._home / "inbox", collection):
            is_text = file.is_turns or file.path.suffix.lower() in TEXT_SUFFIXES
            if is_text and file.uri not in built and (at := _time_of(file.path)):
                found.setdefault(user_part(file.uri), []).append((file, at))
        return {
            user: UnbuiltFiles(tuple(f for f, _ in files), tuple((f.uri, at) for f, at in files))
            for user, files in found.items()
        }


def _scopes_of(files: Iterable[InboxFile], user: str) -> frozenset[Scope]:
    found = set[Scope]()
    for file in files:
        try:
            found |= {Scope(file.collection, user, t.project_id) for t in file.texts() if t.user_id in ("", user)}
        except (DamagedFile, OSError):
            continue  # the build says what is wrong with it
    return frozenset(found)


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # removed since it was listed
        return 0


def _uris(folder: Path) -> set[str]:
    """Returns the uris of the sources of the inbox that a build has a document of, or rejected."""
    import duckdb

    paths = [p for t in _TABLES if (p := folder / f"{t}.parquet").is_file()]
    with duckdb.connect() as db:
        rows = [row for path in paths for row in db.execute(_URIS, [str(path), PREFIX]).fetchall()]
    return {str(uri).partition("#")[0] for (uri,) in rows}
