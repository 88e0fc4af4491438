"""Who may write a home on object storage: a lease with a fence, and the pointer that only its holder moves.

A lease that is not renewed for `LEASE_S` may be taken by another builder, whose fence is one higher. It rewrites the
pointer with its own fence before it reads anything: from then on a conditional write of the builder before fails,
however long that one was paused. So clocks that differ cost time, never data.
"""

import json
import math
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.table_store import OTHER_CONTENT, Stored, TableStore, Version

LEASE, HEAD = "lease.json", "published.json"
LEASE_S = 60.0
LEASE_VARIABLE = "PALIMPSEST_LEASE_S"
TREES = "trees"
TREE_KEY = re.compile(TREES + r"/[0-9]{8,18}/[0-9a-f]{32}")
_POLL_S, _RECENT, _MAX_LEASE_S = 0.2, 50, 3600
_CLOCKS_S = 300.0
"""How far clocks of machines may be apart before a time in the future is no reason to wait."""


@dataclass(frozen=True)
class Head:
    """The pointer.

    Attributes:
        tree: key of the tree that readers see.
        fence: of its writer.
        recent: keys of the last trees, the newest last: a writer that was stopped learns whether its own was one.
        version: of the object.
    """

    tree: str | None
    fence: int
    recent: tuple[str, ...] = ()
    version: Version = field(default_factory=dict, compare=False)

    def moved(self, tree: str) -> "Head":
        """Returns the pointer to another tree."""
        return replace(self, tree=tree, recent=(*self.recent, tree)[-_RECENT:])

    def to_bytes(self) -> bytes:
        """Returns the content of its object."""
        return json.dumps({"tree": self.tree, "fence": self.fence, "recent": list(self.recent)}).encode()


def read_head(store: TableStore) -> Head | None:
    """Returns the pointer; None where nothing was written yet.

    Raises:
        ComponentFailed: it is damaged.
    """
    if (found := store.read(HEAD)) is None:
        return None
    raw = _fields(store, HEAD, found)
    return Head(_tree(store, raw), _fence(store, HEAD, raw), _recent(store, raw), found.version)


class LeaseLost(ComponentFailed):
    """Another builder took the lease; readers see nothing of what this one wrote last."""


class Lease:
    """The right to write a home, renewed in the background until it is released."""

    def __init__(self, store: TableStore, owner: str, fence: int, version: Version, lease_s: float):
        self._store, self._owner, self.fence, self._lease_s = store, owner, fence, lease_s
        self._version: Version | None = version
        self._ended, self._lock = threading.Event(), threading.Lock()
        self.head = self._fence_head()
        self._renewing = threading.Thread(target=self._renew, name="palimpsest-lease", daemon=True)
        self._renewing.start()

    def move_head(self, tree: str) -> None:
        """Makes readers see another tree.

        Raises:
            LeaseLost: another builder took the lease before; nothing changed.
            ComponentFailed: the store does not answer; it may have changed.
        """
        moved = self.head.moved(tree)
        version = self._store.replace(HEAD, moved.to_bytes(), self.head.version)
        if version is None:  # also where the answer to a write that took effect was lost
            now = read_head(self._store)
            if now is None or now.recent.count(tree) < moved.recent.count(tree):
                raise self._lost()
            version = now.version if now == moved else self.head.version
        self.head = replace(moved, version=version)

    def check(self) -> None:
        """Checks that no other builder took the lease, before anything is written.

        Raises:
            LeaseLost: one did.
        """
        now = read_head(self._store)
        if now is None or now.fence != self.fence:
            raise self._lost()

    def release(self) -> None:
        """Gives the lease back; one that another builder took is left alone."""
        self._ended.set()
        self._renewing.join()
        with self._lock:
            if self._version is not None:
                self._store.replace(LEASE, _lease_bytes(self._owner, self.fence, 0, self._lease_s), self._version)
                self._version = None

    def _fence_head(self) -> Head:
        while True:
            head = read_head(self._store)
            if head is not None and head.fence > self.fence:
                raise self._lost()
            fenced = replace(head, fence=self.fence) if head else Head(None, self.fence)
            if head is None:
                version = self._store.create(HEAD, fenced.to_bytes())
            else:
                version = self._store.replace(HEAD, fenced.to_bytes(), head.version)
            if version is not None:
                return replace(fenced, version=version)

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_s / 3):
            with self._lock:
                if self._version is None:
                    return
                try:
                    body = _lease_bytes(self._owner, self.fence, time.time() + self._lease_s, self._lease_s)
                    self._version = self._store.replace(LEASE, body, self._version) or self._own_version()
                except ComponentFailed:
                    continue  # the next try may reach the store; if none does, the lease runs out

    def _own_version(self) -> Version | None:
        """Returns the version of the lease where it is still this one: the answer to a write may have been lost."""
        found = self._store.read(LEASE)
        raw = _fields(self._store, LEASE, found) if found else {}
        is_own = (raw.get("owner"), raw.get("fence")) == (self._owner, self.fence)
        return found.version if found and is_own else None

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"home {self._store.url}: another builder took its lease meanwhile; run again")


def take_lease(store: TableStore, wait_s: float = 0) -> Lease:
    """Takes the lease of a home.

    Args:
        store: of the home.
        wait_s: how long to wait for another builder.

    Raises:
        PalimpsestError: another builder has it.
        ComponentFailed: the store does not answer.
    """
    lease_s = _lease_seconds()
    owner = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
    deadline, seen, since = time.monotonic() + wait_s, None, 0.0
    while True:
        found = store.read(LEASE)
        raw = {} if found is None else _fields(store, LEASE, found)
        head = read_head(store)
        fence = 1 + max(_fence(store, LEASE, raw) if found else 0, head.fence if head else _highest_fence(store))
        now, expires, theirs = time.time(), _expires(store, raw), _duration(store, raw, lease_s)
        if found and found.version != seen:
            # Its clock or this one is wrong: see whether it lives.
            if seen is None and expires > now + theirs + _CLOCKS_S:
                deadline = max(deadline, time.monotonic() + theirs + 2 * _POLL_S)
            seen, since = found.version, time.monotonic()
        # Not renewed while this builder watched: its writer's clock may be hours ahead.
        is_stale = time.monotonic() - since > theirs
        if not found or is_stale or raw.get("owner") == owner or expires <= now:
            body = _lease_bytes(owner, fence, now + lease_s, lease_s)
            version = store.replace(LEASE, body, found.version) if found else store.create(LEASE, body)
            if version is not None:
                return Lease(store, owner, fence, version, lease_s)
        elif time.monotonic() >= deadline:
            machine, process = [*str(raw.get("owner")).split(), "unknown", "unknown"][:2]
            builder = f"process {process[:40]} on {machine[:80]}"
            raise PalimpsestError(f"home {store.url}: another build is writing it ({builder}); wait for it")
        time.sleep(_POLL_S)


def _highest_fence(store: TableStore) -> int:
    """Returns the highest fence in the keys of a home without a pointer: it may have been removed by hand."""
    return max((fence_of(key) for key in store.list()), default=0)


def fence_of(key: str) -> int:
    """Returns the fence in a key; 0 where Palimpsest did not write it: nothing else belongs there."""
    fence = key.split("/")[1] if key.count("/") == 2 else ""
    return int(fence) if fence.isascii() and fence.isdigit() else 0


def _lease_seconds() -> float:
    try:
        seconds = float(os.environ.get(LEASE_VARIABLE) or LEASE_S)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= _MAX_LEASE_S:
        raise PalimpsestError(f"{LEASE_VARIABLE}: write seconds from 1 to 3600")
    return seconds


def _lease_bytes(owner: str, fence: int, expires: float, lease_s: float) -> bytes:
    return json.dumps({"owner": owner, "fence": fence, "expires": expires, "seconds": lease_s}).encode()


def _fields(store: TableStore, key: str, found: Stored) -> Mapping[str, Any]:
    try:
        raw = json.loads(found.data)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        raise _damaged(store, key)
    return raw


def _recent(store: TableStore, raw: Mapping[str, Any]) -> tuple[str, ...]:
    recent = raw.get("recent", [])
    if not isinstance(recent, list) or not all(isinstance(key, str) for key in recent):
        raise _damaged(store, HEAD)
    return tuple(recent)


def _tree(store: TableStore, raw: Mapping[str, Any]) -> str | None:
    tree = raw.get("tree")
    if tree is not None and not (isinstance(tree, str) and TREE_KEY.fullmatch(tree)):
        raise _damaged(store, HEAD)
    return tree


def _expires(store: TableStore, raw: Mapping[str, Any]) -> float:
    expires = raw.get("expires", 0)
    if not isinstance(expires, int | float) or not math.isfinite(expires):
        raise _damaged(store, LEASE)
    return expires


def _duration(store: TableStore, raw: Mapping[str, Any], lease_s: float) -> float:
    # How long a lease is valid without being renewed: as long as its builder said, or this one would say.
    seconds = raw.get("seconds", lease_s)
    if not isinstance(seconds, int | float) or not 0 <= seconds <= _MAX_LEASE_S:
        raise _damaged(store, LEASE)
    return max(seconds, lease_s)


def _damaged(store: TableStore, key: str) -> ComponentFailed:
    return ComponentFailed(f"{store.url}/{key}: {OTHER_CONTENT}")


def _fence(store: TableStore, key: str, raw: Mapping[str, Any]) -> int:
    fence = raw.get("fence")
    if not isinstance(fence, int) or fence < 0:
        raise _damaged(store, key)
    return fence
