"""The reader that all requests share: it moves to what is published soon after that changes."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, cast

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import published_build_id
from palimpsest.query.backends.empty_backend import EmptyBackend
from palimpsest.query.reader import Reader, open_backend, open_home
from palimpsest.query.request.types import Scope
from palimpsest.serve.guard import Identity
from palimpsest.store.builds import published
from palimpsest.store.home import Home

WAIT_S = 20.0
"""How long a request waits for those that read the build before."""
PENDING_WAIT_S = 4.0
"""How long a search waits until what was sent before it is formed and labelled; then it answers with what is formed."""
REFRESH_S = 0.5
"""How long a change may go unnoticed."""
PublishedState: TypeAlias = tuple[str, int, int, str]
"""The build, inode and time of its index, and the load that a server shows of it; empty where there is none."""


class ServedStore(Protocol):
    """What a store in a server says besides the answers of a `Backend`."""

    load: str

    def shown_load(self) -> str:
        """Returns the load that the server shows now."""


@dataclass(frozen=True)
class CallerView:
    """What one request reads: the published build, as far as it is the caller's.

    Attributes:
        reader: of the build.
        identity: the caller.
        shared: collections that every caller may read, with the user of their memories without an owner.
        by_user: the scopes of the build by user: a request looks at those of its caller, not at all.
    """

    reader: Reader
    identity: Identity
    shared: Mapping[str, str]
    by_user: Mapping[str, Sequence[Scope]]

    def scopes(
        self, collection: str | None = None, project: str | None = None, include_pending: bool = False
    ) -> list[Scope]:
        """Returns the scopes that the caller may read, narrowed by what the request names.

        A name that is not the caller's narrows to nothing, as one that does not exist.

        Args:
            collection: only this one.
            project: only this one and the general memory.
            include_pending: also those of which no build has anything yet.
        """
        users = {self.identity.user, *self.shared.values()}
        known = sorted(s for user in users for s in self.by_user.get(user, ()))
        if include_pending:
            known = sorted({*known, *self.reader.pending_scopes(self.identity.user)})
        return [
            s
            for s in self.identity.scopes(known, self.shared)
            if collection in (None, s.collection) and (project is None or s.project_id in ("", project))
        ]

    def formed_scopes(self, collection: str | None = None, project: str | None = None) -> list[Scope]:
        """Returns `scopes` with what is pending, once that is formed or after `PENDING_WAIT_S`."""
        found = self.scopes(collection, project, include_pending=True)
        self.wait_for_pending(found)
        return found

    def wait_for_pending(self, scopes: Sequence[Scope]) -> None:
        """Waits until what is pending in some scopes is formed, at most `PENDING_WAIT_S`."""
        self.reader.form_pending(scopes, PENDING_WAIT_S)

    def own_scopes(
        self, collection: str | None = None, project: str | None = None, *, include_pending: bool = False
    ) -> list[Scope]:
        """Returns the scopes that are the caller's own; see `scopes`."""
        found = self.scopes(collection, project, include_pending=include_pending)
        return [s for s in found if s.user_id == self.identity.user]


class SharedReader:
    """Opens the published build at the first request that needs it, and looks for a change every `REFRESH_S`.

    Before the first build every answer is empty. A delete writes the index of a build again, under its name. DuckDB
    gives an open file to whoever opens its path, so that the reader before is closed first: requests that come wait for
    those in progress.
    """

    def __init__(self, home: Path, backend: str, shared_collections: frozenset[str] = frozenset()):
        self._home, self._backend, self._shared_collections = home, backend, shared_collections
        self._changed, self._views, self._looked_at = threading.Condition(), 0, 0.0
        self._reader: Reader | None = None
        self._state: PublishedState = ("", 0, 0, "")
        self._shared: Mapping[str, str] = {}
        self._by_user: Mapping[str, Sequence[Scope]] = {}

    @contextmanager
    def view(self, identity: Identity) -> Iterator[CallerView]:
        """Opens what a caller reads, for as long as the block.

        Yields:
            What the caller reads.

        Raises:
            PalimpsestError: the store cannot be opened.
        """
        with self.borrowed() as reader:
            yield CallerView(reader, identity, self._shared, self._by_user)

    @contextmanager
    def borrowed(self) -> Iterator[Reader]:
        """Opens the published build for as long as the block.

        Yields:
            The reader that all share.

        Raises:
            PalimpsestError: the store cannot be opened.
        """
        with self._changed:
            reader = self._current()
            self._views += 1
        try:
            yield reader
        finally:
            with self._changed:
                self._views -= 1
                self._changed.notify_all()

    def form_pending(self, scope: Scope) -> None:
        """Begins to form what was sent for a user, so that the next search need not wait for it."""
        with suppress(PalimpsestError), self.borrowed() as reader:  # without a build there is nothing to search
            reader.form_pending([scope])

    def hide_pending(self, user: str, memory_ids: Sequence[str], hidden: bool = True) -> None:
        """Leaves pending memories of a user out while they are being deleted, or takes them in again."""
        with suppress(PalimpsestError), self.borrowed() as reader:
            reader.hide_pending(user, memory_ids, hidden)

    def answering_build(self) -> str:
        """Returns the build that answers, after the store has answered; empty before the first build.

        Raises:
            PalimpsestError: the store cannot be opened.
            ComponentFailed: the server of the store does not answer.
        """
        with self._changed:
            build_id = self._current().build_id
        if build_id and self._backend == "neo4j":  # of an open file nothing can be lost; of a server everything
            open_backend(self._home, self._backend).close()
        return build_id

    def close(self) -> None:
        """Closes the reader once nobody reads, or after `WAIT_S`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._views, WAIT_S)
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _current(self) -> Reader:
        while self._reader is not None and time.monotonic() - self._looked_at > REFRESH_S:
            if (state := self.published_state()) == self._state:
                self._looked_at = time.monotonic()
            elif self._views:
                if not self._changed.wait(WAIT_S):
                    raise ComponentFailed("requests that read the build before do not end")
            else:
                self._reader.close()
                self._reader, self._state = None, state
        if self._reader is None:
            on_disk = self._state_on_disk()
            self._reader = self._open()
            self._state = (*on_disk, self._store.load if self._store else "")
            self._shared, self._by_user = self._find_shared(), scopes_by_user(self._reader.scopes())
            self._looked_at = time.monotonic()
        return self._reader

    def _open(self) -> Reader:
        if published_build_id(self._home) is None:
            return Reader(EmptyBackend(), self._home)
        return open_home(self._home, self._backend, pending_wait_s=0)

    def published_state(self) -> PublishedState:
        """Returns what changes with each publication and each delete.

        A server is loaded after that: what it shows is read too, once something was read.
        """
        store, shown = self._store, self._state[-1]
        if store is not None:
            with suppress(PalimpsestError):  # the server does not answer, or the reader was closed meanwhile
                shown = store.shown_load()
        return (*self._state_on_disk(), shown)

    @property
    def _store(self) -> ServedStore | None:
        """The open store, where it is in a server."""
        reader = self._reader
        is_server = self._backend == "neo4j" and reader is not None and not isinstance(reader.backend, EmptyBackend)
        return cast(ServedStore, reader.backend) if reader is not None and is_server else None

    def _state_on_disk(self) -> tuple[str, int, int]:
        build = published(Home(self._home))
        if build is None:
            return "", 0, 0
        try:
            index = build.index.stat()
        except OSError:
            return build.build_id, 0, 0
        return build.build_id, index.st_ino, index.st_mtime_ns

    def _find_shared(self) -> Mapping[str, str]:
        build = published(Home(self._home))
        names = [n for n in build.collections if n in self._shared_collections] if build else []
        return {n: build.manifest.default_user(n) for n in names} if build else {}


def scopes_by_user(scopes: Iterable[Scope]) -> Mapping[str, Sequence[Scope]]:
    """Returns scopes by their users."""
    found: dict[str, list[Scope]] = {}
    for scope in scopes:
        found.setdefault(scope.user_id, []).append(scope)
    return found
