"""What a published build does not have: files of the inbox, and sources whose words were edited since."""

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import DamagedFile
from palimpsest.query.request.types import Scope
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import PREFIX, TEXT_SUFFIXES, InboxFile, inbox_files, user_part, user_part_of

_URIS = "SELECT DISTINCT uri FROM read_parquet(?) WHERE starts_with(uri, ?)"
_EDITED = """SELECT DISTINCT memory.user_id, document.uri FROM read_parquet(?) memory
JOIN read_parquet(?) version USING (memory_id) JOIN read_parquet(?) document USING (document_id)
WHERE version.is_latest AND list_contains(?, memory.memory_id) ORDER BY ALL"""
_TABLES = ("documents", "rejects")


@dataclass(frozen=True)
class UnbuiltFiles:
    """What of one user in one collection a build has not read.

    Attributes:
        files: of the inbox, by name.
        edited: uris of documents of which a memory was edited.
        key: differs where a file was added, removed or replaced, or a memory edited.
    """

    files: tuple[InboxFile, ...] = ()
    edited: tuple[str, ...] = ()
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
        self._listed: dict[str, tuple[tuple[int, int], Mapping[str, UnbuiltFiles]]] = {}
        self._edited: dict[str, tuple[int, list[tuple[str, str]]]] = {}
        self._scopes: dict[tuple[str, str], tuple[UnbuiltFiles, frozenset[Scope]]] = {}

    def collections(self) -> list[str]:
        """Returns the names of the collections that have an inbox, sorted."""
        inbox = self._home / "inbox"
        return sorted(entry.name for entry in os.scandir(inbox) if entry.is_dir()) if inbox.is_dir() else []

    def of_user(self, build_id: str, collection: str, user: str) -> UnbuiltFiles:
        """Returns what of a user a build has not read: turns and texts; other files wait for the build."""
        return self.by_user(build_id, collection).get(user_part_of(user), _NONE)

    def by_user(self, build_id: str, collection: str) -> Mapping[str, UnbuiltFiles]:
        """Returns what a build has not read, by the hash of the user."""
        changed = (_time_of(self._home / "inbox" / collection), _time_of(Home(self._home).decisions))
        with self._lock:
            if build_id != self._build_id:
                self._build_id, self._built, self._listed, self._edited, self._scopes = build_id, {}, {}, {}, {}
            known = self._listed.get(collection)
            if known is None or known[0] != changed:
                known = self._listed[collection] = (changed, self._list(collection, changed[1]))
        return known[1]

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

    def _list(self, collection: str, decided: int) -> Mapping[str, UnbuiltFiles]:
        folder = self._home / "builds" / self._build_id / collection
        if collection not in self._built:
            self._built[collection] = _uris(folder)
        if collection not in self._edited or self._edited[collection][0] != decided:
            self._edited[collection] = (decided, _edited(self._home, folder))
        built = self._built[collection]
        found: dict[str, list[tuple[InboxFile, int]]] = {}
        for file in inbox_files(self._home / "inbox", collection):
            is_text = file.is_turns or file.path.suffix.lower() in TEXT_SUFFIXES
            if is_text and file.uri not in built and (at := _time_of(file.path)):
                found.setdefault(user_part(file.uri), []).append((file, at))
        edited: dict[str, list[str]] = {}
        for user, uri in self._edited[collection][1]:
            edited.setdefault(user_part_of(user), []).append(uri)
        return {
            user: UnbuiltFiles(
                tuple(f for f, _ in found.get(user, ())),
                tuple(edited.get(user, ())),
                (*((f.uri, at) for f, at in found.get(user, ())), *((uri, decided) for uri in edited.get(user, ()))),
            )
            for user in found.keys() | edited.keys()
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


def _edited(home: Path, folder: Path) -> list[tuple[str, str]]:
    """Returns (user, uri) of the documents that have a latest memory in a build which was edited."""
    import duckdb

    edited = sorted(read_decisions(Home(home).decisions).edited)
    paths = [str(folder / f"{table}.parquet") for table in ("memories", "versions", "documents")]
    if not edited or not all(map(os.path.isfile, paths)):
        return []
    with duckdb.connect() as db:
        return db.execute(_EDITED, [*paths, edited]).fetchall()


def _uris(folder: Path) -> set[str]:
    """Returns the uris of the sources of the inbox that a build has a document of, or rejected."""
    import duckdb

    paths = [p for t in _TABLES if (p := folder / f"{t}.parquet").is_file()]
    with duckdb.connect() as db:
        rows = [row for path in paths for row in db.execute(_URIS, [str(path), PREFIX]).fetchall()]
    return {str(uri).partition("#")[0] for (uri,) in rows}
