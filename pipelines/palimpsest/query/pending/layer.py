"""The pending memories of a home in this process, and how long a search waits for those that came just now."""

import datetime as dt
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.backends.joined_backend import JoinedBackend, PendingScope
from palimpsest.query.pending.unbuilt import UnbuiltFiles, UnbuiltInbox
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.backend import Backend
from palimpsest.query.scope.joined_view import NO_CHANGES, JoinedScope
from palimpsest.query.scope.scope_arrays import ByteCache
from palimpsest.query.scope.view import CachedScopeView
from palimpsest.store.inbox import InboxText

if TYPE_CHECKING:
    from palimpsest.query.pending.form import BuiltMemories, PendingMemories, TextVectors

LABELLED_AT_ONCE = 20
"""Memories that are labelled before others have their turn, the newest first; all are found before that."""
MAX_USERS = 256
"""Users whose pending memories stay in memory; those of others are formed again."""
_MOST_WAITS = 4
_CACHE_BYTES = 256 * 2**20
_LOG = logging.getLogger(__name__)
_Key = tuple[str, tuple[tuple[str, int], ...]]


class _Owner(NamedTuple):
    """A user in a collection."""

    collection: str
    user: str


@dataclass
class _Formed:
    """What is formed of an owner: of which build and files, the memories, and the views of its scopes."""

    key: _Key
    built: "BuiltMemories"
    memories: "PendingMemories | None"
    views: dict[Scope, CachedScopeView] = field(default_factory=dict)


class PendingLayer:
    """Forms pending memories in a thread and joins them with a build. Safe to share between threads.

    Args:
        home: the home.
        clock: returns the real time, in UTC.
        wait_s: how long a search waits for what was sent before it; None means until it is formed.
    """

    def __init__(self, home: Path, clock: Callable[[], dt.datetime], wait_s: float | None = None):
        self._home, self._clock, self._wait_s = home, clock, wait_s
        self._inbox, self._lock = UnbuiltInbox(home), threading.Lock()
        self._formed: OrderedDict[_Owner, _Formed] = OrderedDict()
        self._hidden: dict[str, frozenset[str]] = {}
        self._forming: dict[tuple[_Owner, _Key], Future[None]] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._vectors: TextVectors | None = None

    def scopes(self, build_id: str, user: str) -> set[Scope]:
        """Returns the scopes of a user that have a text that a build lacks."""
        return self._inbox.scopes(build_id, user)

    def texts(self, build_id: str, scopes: Collection[Scope]) -> Iterator[InboxText]:
        """Yields the texts of some scopes that a build lacks, as they were sent."""
        for owner in sorted({_Owner(s.collection, s.user_id) for s in scopes}):
            for file in self._inbox.of_user(build_id, *owner).files:
                yield from (t for t in file.texts() if Scope(*owner, t.project_id) in scopes)

    def hide(self, user: str, memory_ids: Iterable[str], hidden: bool = True) -> None:
        """Leaves memories of a user out, or takes them in again: a delete of them takes its time."""
        with self._lock:
            known = self._hidden.get(user, frozenset())
            self._hidden[user] = known.union(memory_ids) if hidden else known.difference(memory_ids)

    def form(self, build_id: str, scopes: Iterable[Scope]) -> list[Future[None]]:
        """Begins to form what a build lacks in some scopes; returns what is not done yet."""
        begun = []
        for owner in sorted({_Owner(s.collection, s.user_id) for s in scopes}):
            unbuilt = self._inbox.of_user(build_id, *owner)
            key = self._key(build_id, owner, unbuilt)
            with self._lock:
                known = self._formed.get(owner)
                if (running := self._forming.get((owner, key))) is not None:
                    begun.append(running)
                elif known is not None and known.key == key:
                    self._formed.move_to_end(owner)
                elif not unbuilt.key:
                    self._formed.pop(owner, None)
                else:
                    begun.append(self._begin(owner, key))
        return begun

    def wait(self, build_id: str, scopes: Iterable[Scope], wait_s: float | None) -> bool:
        """Waits until what a build lacks in some scopes is formed and labelled, at most for so many seconds.

        Returns:
            Whether there was something to wait for.
        """
        begun = self.form(build_id, scopes)
        if not begun or wait_s == 0:
            return False
        wait_for(begun, wait_s)
        return True

    def joined(self, built: Backend, scopes: Iterable[Scope]) -> JoinedBackend | None:
        """Returns a build with what is pending in some scopes; None where nothing is.

        Args:
            built: the store of the build.
            scopes: of a search.
        """
        scopes = list(scopes)
        until = None if self._wait_s is None else time.monotonic() + self._wait_s
        pending = dict[Scope, PendingScope]()
        for _ in range(_MOST_WAITS):  # a file that comes or goes after a wait leaves nothing to show until the next
            left_s = None if until is None else max(0.0, until - time.monotonic())
            waited = self.wait(built.build_id, scopes, left_s)
            pending = {scope: at for scope in scopes if (at := self._pending(built, scope)) is not None}
            if not waited:
                break
        return JoinedBackend(built, pending) if pending else None

    def close(self) -> None:
        """Ends the thread and drops all that is formed."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(cancel_futures=True)
        self._formed.clear()

    def _begin(self, owner: _Owner, key: _Key) -> "Future[None]":
        """Begins to form the files of an owner."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="palimpsest-pending")
        begun = self._forming[owner, key] = self._thread.submit(self._form, owner, key)
        return begun

    def _key(self, build_id: str, owner: _Owner, unbuilt: UnbuiltFiles) -> _Key:
        hidden = self._hidden.get(owner.user)
        return build_id, (*unbuilt.key, *((i, 0) for i in sorted(hidden))) if hidden else unbuilt.key

    def _form(self, owner: _Owner, key: _Key, parts: Sequence[int] = (0, LABELLED_AT_ONCE)) -> None:
        """Forms and shows what is pending: as it is first, then with labels of so many more memories."""
        from palimpsest.query.pending.form import BuiltMemories, TextVectors, form_pending
        from palimpsest.store.builds import Build
        from palimpsest.store.home import Home

        begun = key
        try:
            unbuilt = self._inbox.of_user(key[0], *owner)  # what came meanwhile is formed with it
            key = self._key(key[0], owner, unbuilt)
            with self._lock:
                before = self._formed.get(owner)
            if before is not None and before.key[0] != key[0]:
                before = None
            home = Home(self._home)
            build = Build(home.builds / key[0]) if key[0] else None
            built = before.built if before else BuiltMemories(home, build, *owner)
            self._vectors = self._vectors or TextVectors()
            for most in parts:
                formed = _Formed(key, built, None)
                earlier, hidden = before.memories if before else None, self._hidden.get(owner.user, ())
                try:
                    formed.memories = form_pending(built, unbuilt, self._vectors, earlier, self._clock(), most, hidden)
                except PalimpsestError as e:  # the next build says what is wrong; until then it is not tried again
                    _LOG.warning("pending memories: %s", type(e).__name__)
                except Exception:  # a search must not fail for what a build may still form
                    _LOG.exception("pending memories")
                self._show(owner, formed)
                before = formed
                if formed.memories is None or formed.memories.is_labelled:
                    return
            with self._lock:
                if self._thread is not None:
                    self._thread.submit(self._form, owner, key, (LABELLED_AT_ONCE,))  # after those of other users
        finally:
            with self._lock:
                self._forming.pop((owner, begun), None)

    def _show(self, owner: _Owner, formed: _Formed) -> None:
        with self._lock:
            self._formed[owner] = formed
            self._formed.move_to_end(owner)
            while len(self._formed) > MAX_USERS:
                self._formed.popitem(last=False)

    def _pending(self, built: Backend, scope: Scope) -> PendingScope | None:
        owner, build_id = _Owner(scope.collection, scope.user_id), built.build_id
        key = self._key(build_id, owner, self._inbox.of_user(build_id, *owner))
        with self._lock:
            formed = self._formed.get(owner)
            if formed is None or formed.memories is None or formed.key[0] != build_id:
                return None
            memories, ids = formed.memories, formed.memories.ids.get(scope)
            gone = {name for name, _ in {*formed.key[1]} - {*key[1]}}
            if ids is None or ids & self._hidden.get(owner.user, frozenset()) or gone & memories.sources:
                return None  # something of it was changed or deleted meanwhile: none is shown until it is formed again
            if scope not in formed.views:
                alone, known = memories.store.view(scope), built.view(scope)
                assert alone is not None
                changes = memories.changes.get(scope, NO_CHANGES)
                formed.views[scope] = (
                    JoinedScope(known, alone, changes, ByteCache(_CACHE_BYTES))  # type: ignore[arg-type]
                    if known is not None
                    else alone
                )
            return PendingScope(memories.store, formed.views[scope], ids)
