"""The folder on this machine that a home on object storage is read and written in.

Builds, deletes and decisions work in it as in any home. A writer takes the lease, brings the copy up to what the bucket
has, works, writes what is new as objects and moves the pointer: `store.home.HomeLock` does both ends. A copy that was
stopped in between goes on where it was, unless another machine has written the home since: then the bucket wins, and
only what was sent to the inbox here and not written yet stays.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from palimpsest.core.errors import ComponentFailed, DamagedFile, PalimpsestError
from palimpsest.core.files import POINTER, file_hash, file_hash_of, link, read_json_object, write_json
from palimpsest.store.lease import HEAD, TREES, Lease, LeaseLost, fence_of, read_head
from palimpsest.store.table_store import (
    OBJECTS,
    OTHER_CONTENT,
    Entry,
    TableStore,
    Tree,
    open_store,
    parse_tree,
    shared_files,
    tree_bytes,
)

# What the working copy of a home on object storage knows of its last meeting with the bucket.

STATE = ".remote.json"
_WRITING = ".remote-writing"


@dataclass(frozen=True)
class CopyState:
    """What the copy was at its last meeting with the bucket.

    Attributes:
        url: of the home.
        tree: key of the tree that it was equal to; None before the first.
        files: entries of that tree.
        pulled: None, or while a tree is being read the paths that are not of the bucket.
        sending: key of the tree that a push was about to publish; None where none was stopped.
        sent: paths of the inbox that this tree has and the one before had not.
    """

    url: str
    tree: str | None = None
    files: Tree = field(default_factory=dict)
    pulled: tuple[str, ...] | None = None
    sending: str | None = None
    sent: tuple[str, ...] = ()


def read_state(folder: Path) -> CopyState | None:
    """Returns the state of a copy; None where the folder is a home of its own.

    Raises:
        DamagedFile: it cannot be read.
    """
    fix = f"remove the folder {folder}, which is read again from object storage"
    raw: Mapping[str, Any] | None = read_json_object(folder / STATE, fix)
    if raw is None:
        return None
    try:
        files = {path: Entry(*entry) for path, entry in raw.get("files", {}).items()}
        pulled, sent = raw.get("pulled"), tuple(raw.get("sent", ()))
        own = None if pulled is None else tuple(pulled)
        return CopyState(str(raw["url"]), raw.get("tree"), files, own, raw.get("sending"), sent)
    except (LookupError, TypeError, AttributeError):
        raise DamagedFile(folder / STATE, fix) from None


def write_state(folder: Path, state: CopyState) -> None:
    """Writes the state of a copy."""
    write_json(folder / STATE, {**state.__dict__, "files": {p: list(e) for p, e in state.files.items()}})


def begin_copy(folder: Path, url: str) -> None:
    """Makes the folder of a copy, private to its owner."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    if not (folder / STATE).exists():
        write_state(folder, CopyState(url))


def is_written(folder: Path) -> bool:
    """Returns whether a writer works in a copy, or was stopped in it: what differs from the bucket is its work."""
    return (folder / _WRITING).exists()


def set_written(folder: Path, written: bool) -> None:
    """Records that a writer begins to work in a copy, or that the bucket has all of its work."""
    if written:
        (folder / _WRITING).touch()
    else:
        (folder / _WRITING).unlink(missing_ok=True)


_ASIDE = ".remote"
_BUILDS, _LEDGER = "builds", "lm-ledger.sqlite"
_APART = ("inbox",)
"""Folders whose files have names of their own, so that those of several machines go together."""
_OWN = ("logs", "usage")
"""Folders that a search writes: alone they are no reason to write the home."""
_LOCKED = ("builds", "log", "embeddings", "web", POINTER, "home.json", "decisions.jsonl")
"""What is only written with the lock of the home: elsewhere readers write too, such as answers of a language model."""
_BLOCK_BYTES, _TRIES = 1 << 20, 5


class WorkingCopy:
    """The copy in a folder, and the store of its home. Callers have the lock of the folder."""

    def __init__(self, folder: Path, store: TableStore):
        self.folder, self.store = folder, store

    def pull(self) -> bool:
        """Brings the copy up to the tree that readers see; returns whether that was another one.

        Raises:
            PalimpsestError: the home is gone from its store.
            ComponentFailed: the store does not answer, or has not what Palimpsest wrote.
        """
        for _ in range(_TRIES):  # what a tree names may be removed while it is read: then there is a newer tree
            head, state = read_head(self.store), self._state()
            if head is None or head.tree is None:
                if state.tree is not None:
                    raise PalimpsestError(
                        f"home {self.store.url}: it is gone from its store; restore it, or remove {self.folder}"
                    )
                return False
            if head.tree == state.tree and state.pulled is None and not self.is_damaged():
                return False
            tree = self._read_tree(head.tree)
            if state.sending not in head.recent:
                state = replace(state, sent=())  # the push was stopped before it published anything
            if tree is not None and self._take(head.tree, tree, state):
                return True
        raise ComponentFailed(f"{self.store.url}: objects that {HEAD} needs are missing; restore them")

    def is_behind(self) -> bool:
        """Returns whether a pull has something to do: readers see another tree, or the pull before was stopped."""
        head, state = read_head(self.store), self._state()
        return state.pulled is not None or (head.tree if head else None) != state.tree

    def is_incomplete(self) -> bool:
        """Returns whether the copy cannot be read yet: no tree was taken, or one is being taken or was in part."""
        state = self._state()
        return state.tree is None or state.pulled is not None

    def is_damaged(self) -> bool:
        """Returns whether files of the last tree are missing or changed although no writer worked here.

        Who cleans a cache folder deletes nothing in the bucket.
        """
        if is_written(self.folder):
            return False
        files = ((path, entry) for path, entry in self._state().files.items() if _top(path) not in _OWN)
        return not all(self._has(p, e) if _top(p) in _LOCKED else (self.folder / p).exists() for p, e in files)

    def begin(self) -> None:
        """Brings the copy up to what readers see before a writer works in it; see `pull`."""
        self.pull()
        set_written(self.folder, True)

    def push(self, lease: Lease, is_delete: bool = False) -> bool:
        """Writes what is new here and makes it what readers see; returns whether anything was.

        Args:
            lease: of the home.
            is_delete: write it also where nothing but logs and reads changed.

        Raises:
            LeaseLost: another builder took the lease; readers see what they saw.
            ComponentFailed: the store does not answer.
        """
        if read_state(self.folder) is None:  # else what is no longer here would be removed from the bucket
            raise ComponentFailed(f"home {self.store.url}: its copy {self.folder} was removed meanwhile; run again")
        checkpoint(self.folder / _LEDGER)
        state, files = self._state(), dict(shared_files(self.folder))
        if state.tree == lease.head.tree and not _is_changed(files, state.files, () if is_delete else _OWN):
            set_written(self.folder, False)
            return False
        lease.check()
        known = {entry.blake2b: entry.key for entry in state.files.values()}
        tree: dict[str, Entry] = {}
        for path, found in files.items():
            before = state.files.get(path)
            if before is not None and before.has_stat(found):
                tree[path] = before
            elif (entry := self._upload(path, lease.fence, known)) is not None:
                tree[path] = entry
        data = tree_bytes(tree)
        key = f"{TREES}/{lease.fence:08d}/{file_hash_of(data)}"
        parse_tree(data, f"{self.store.url}/{key}")  # one that readers would refuse is not published
        self.store.create(key, data)
        sent = tuple(path for path in tree if _top(path) in _APART and path not in state.files)
        self._write_state(replace(state, sending=key, sent=sent))
        try:
            lease.move_head(key)
        except LeaseLost:
            self._remove_unpublished(key, state, tree)
            raise
        self._write_state(CopyState(state.url, key, tree))
        set_written(self.folder, False)
        self.store.delete(self.garbage(lease.fence))
        return True

    def _remove_unpublished(self, key: str, state: CopyState, tree: Tree) -> None:
        """Removes the objects of a tree that was not published: what another builder deleted may be among them."""
        head = read_head(self.store)
        if head is not None and key not in head.recent and (state.tree is None or state.tree in head.recent):
            before = {entry.key for entry in state.files.values()}
            self.store.delete([key, *({entry.key for entry in tree.values()} - before)])

    def garbage(self, fence: int) -> list[str]:
        """Returns the keys of objects that the last tree does not need, of builders up to a fence.

        What a later builder wrote is not touched: its tree may not be there yet.
        """
        state = self._state()
        needed = {state.tree, *(entry.key for entry in state.files.values())}
        keys = (key for folder in (OBJECTS, TREES) for key in self.store.list(folder))
        return sorted(key for key in keys if key not in needed and fence_of(key) <= fence)

    def has_unsent(self) -> bool:
        """Returns whether a text was sent to the inbox here that the bucket may not have."""
        state = self._state()
        return state.sending is not None or any(self._unwritten(state))

    def _state(self) -> CopyState:
        return replace(read_state(self.folder) or CopyState(""), url=self.store.url)

    def _write_state(self, state: CopyState) -> None:
        write_state(self.folder, state)

    def _read_tree(self, key: str) -> Tree | None:
        found = self.store.read(key)
        return None if found is None else parse_tree(found.data, f"{self.store.url}/{key}")

    def _take(self, key: str, tree: Tree, state: CopyState) -> bool:
        """Makes the files those of a tree, the pointer of readers last; returns False where an object is gone."""
        own = state.pulled if state.pulled is not None else tuple(self._unwritten(state))
        aside = self.folder / _ASIDE
        aside.mkdir(exist_ok=True, mode=0o700)
        wanted = {path: entry for path, entry in tree.items() if not self._has(path, entry)}
        for entry in wanted.values():
            if not self._download(entry, aside / entry.blake2b):
                return False
        self._write_state(replace(state, pulled=own))
        for path in sorted(wanted, key=lambda p: (p == POINTER, p)):
            self._place(aside / tree[path].blake2b, path, tree[path])
        self._remove_others({*tree, *own})
        self._write_state(CopyState(state.url, key, tree))
        set_written(self.folder, False)
        for file in aside.iterdir():
            file.unlink()
        return True

    def _remove_others(self, paths: set[str]) -> None:
        """Removes every other file, and the folders of builds that are gone: a folder there is a build."""
        for path, _ in list(shared_files(self.folder)):
            if path not in paths:
                (self.folder / path).unlink(missing_ok=True)
        builds = {"/".join(path.split("/")[:2]) for path in paths if _top(path) == _BUILDS}
        for folder in (self.folder / _BUILDS).glob("*"):
            if f"{_BUILDS}/{folder.name}" not in builds:
                shutil.rmtree(folder, ignore_errors=True)

    def _unwritten(self, state: CopyState) -> Iterator[str]:
        for path, _ in shared_files(self.folder):
            if _top(path) in _APART and path not in state.files and path not in state.sent:
                yield path

    def _has(self, path: str, entry: Entry) -> bool:
        target = self.folder / path
        try:
            found = target.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return entry.has_stat(found) or (found.st_size == entry.size and file_hash(target) == entry.blake2b)

    def _download(self, entry: Entry, to: Path) -> bool:
        if to.exists() and file_hash(to) == entry.blake2b:
            return True
        if not self.store.download(entry.key, to, entry.size):
            return False
        if file_hash(to) != entry.blake2b:
            to.unlink()
            raise ComponentFailed(f"{self.store.url}/{entry.key}: {OTHER_CONTENT}")
        return True

    def _place(self, source: Path, path: str, entry: Entry) -> None:
        """Puts a file in its place in one rename; builds share their tables, which nobody changes in place."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.tmp")
        if _top(path) == _BUILDS:
            link(source, aside)
        else:
            shutil.copyfile(source, aside)
        aside.chmod(entry.mode)
        os.utime(aside, ns=(entry.mtime_ns, entry.mtime_ns))
        if path == _LEDGER:  # what a stopped run left belongs to the file before
            for suffix in ("-wal", "-shm"):
                target.with_name(f"{target.name}{suffix}").unlink(missing_ok=True)
        aside.replace(target)

    def _upload(self, path: str, fence: int, known: dict[str, str]) -> Entry | None:
        """Writes a file as an object where no object has its content; returns None where the file is gone."""
        try:
            file = (self.folder / path).open("rb")
        except FileNotFoundError:
            return None
        with file:
            found = os.fstat(file.fileno())
            content = file.read() if found.st_size <= _BLOCK_BYTES else None  # small files may grow meanwhile
            blake2b = hashlib.file_digest(file, _blake2b).hexdigest() if content is None else file_hash_of(content)
            size = found.st_size if content is None else len(content)
            key = known.get(blake2b, f"{OBJECTS}/{fence:08d}/{blake2b}")
            if blake2b not in known:
                if content is None:
                    file.seek(0)
                    self.store.upload(key, file)
                    self._check_unchanged(path, key, found, os.fstat(file.fileno()))
                else:
                    self.store.create(key, content)
                known[blake2b] = key
            return Entry(key, blake2b, size, found.st_mtime_ns, found.st_mode & 0o777)

    def _check_unchanged(self, path: str, key: str, before: os.stat_result, after: os.stat_result) -> None:
        """Checks that a file was not changed while it was written, and removes the object where it was.

        Raises:
            ComponentFailed: it was.
        """
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            self.store.delete([key])
            raise ComponentFailed(f"home {self.store.url}: {path} changed while it was written; run again")


def checkpoint(database: Path) -> None:
    """Moves what SQLite has in its write-ahead log into the file, which then has all of it; a damaged one is left."""
    if database.exists():
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def working_copy(folder: Path) -> WorkingCopy | None:
    """Returns the copy in a folder; None where the folder is a home of its own."""
    state = read_state(folder)
    return None if state is None else WorkingCopy(folder, open_store(state.url))


def _is_changed(files: Mapping[str, os.stat_result], tree: Tree, ignored: tuple[str, ...]) -> bool:
    """Returns whether files differ from those of a tree, apart from those of some folders."""
    paths = (path for path in files.keys() | tree.keys() if _top(path) not in ignored)
    return any(p not in files or p not in tree or not tree[p].has_stat(files[p]) for p in paths)


def _blake2b() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _top(path: str) -> str:
    return path.partition("/")[0]
