"""Deletes and runs of consolidation that callers requested: each leaves its outcome under the id of the operation."""

import datetime as dt
import hashlib
import logging
import multiprocessing
import re
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import NamedTuple

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json_object, write_json
from palimpsest.core.ids import JsonObject, ScopeKey
from palimpsest.pipeline.deletion.delete import DeleteResult, delete
from palimpsest.store.home import Home

_LOG = logging.getLogger("palimpsest.serve")
LOCK_WAIT_S = 600
"""How long an operation waits for a build to end."""
_ID = re.compile(r"[0-9a-f]{32}")
_STOPPED = "the service was stopped before it was finished; send it again"
_FAILED = "it was not finished; send it again"


class DocumentName(NamedTuple):
    """A document: its collection and uri."""

    collection: str
    uri: str


class Operations:
    """Runs what callers requested one after the other, and keeps what became of each in `<home>/deletions`."""

    def __init__(self, home: Home):
        self._home, self._folder = home, home.path / "deletions"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="operation")
        self._lock, self._running, self._consolidating = threading.Lock(), set[str](), dict[str, str]()

    def begin(
        self,
        user: str,
        memories: Sequence[str] = (),
        document: DocumentName | None = None,
        done: Callable[[], None] = lambda: None,
    ) -> str:
        """Begins a delete of memories or a document of a user, of all without either; returns the operation's id.

        At its end, whatever that is, `done` is called.
        """
        return self._begin(user, partial(_delete, self._home.path, user, tuple(memories), document), done)

    def begin_consolidation(self, user: str, scopes: frozenset[ScopeKey]) -> str:
        """Begins to look for proposals in scopes of a user; returns the operation's id, the same one while it runs."""
        with self._lock:
            if (running := self._consolidating.get(user)) in self._running:
                return str(running)
        begun = self._begin(user, partial(_consolidate, self._home.path, scopes))
        with self._lock:
            self._consolidating[user] = begun
        return begun

    def _begin(self, user: str, work: Callable[[], JsonObject], done: Callable[[], None] = lambda: None) -> str:
        operation_id = uuid.uuid4().hex
        self._write(operation_id, {"state": "received", "user": _hash(user)})
        with self._lock:
            self._running.add(operation_id)
        self._pool.submit(self._run, operation_id, user, work, done)
        return operation_id

    def status(self, operation_id: str, user: str) -> JsonObject | None:
        """Returns what became of an operation; None where the user requested none with this id."""
        if not _ID.fullmatch(operation_id):
            return None
        found = read_json_object(self._folder / f"{operation_id}.json", "send it again")
        if found is None or found["user"] != _hash(user):
            return None
        if found["state"] == "received":
            with self._lock:
                if operation_id not in self._running:
                    found = {**found, "state": "failed", "reason": _STOPPED}
        return {"operation_id": operation_id, **{n: v for n, v in found.items() if n != "user"}}

    def close(self) -> None:
        """Waits for the operation that is running; those that wait are not begun."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, operation_id: str, user: str, work: Callable[[], JsonObject], done: Callable[[], None]) -> None:
        outcome: JsonObject = {"state": "failed", "reason": _FAILED}
        try:
            # A process of its own: DuckDB gives the open index to whoever opens that path in this one.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                outcome = process.submit(work).result()
        except (PalimpsestError, BrokenProcessPool) as e:  # its text may name files and ids of others
            _LOG.warning("operation %s", operation_id, exc_info=e)
        except Exception as e:
            _LOG.error("operation %s", operation_id, exc_info=e)
        finally:
            at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            self._write(operation_id, {**outcome, "user": _hash(user), "at": at})
            with self._lock:
                self._running.discard(operation_id)
            done()

    def _write(self, operation_id: str, fields: JsonObject) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self._folder / f"{operation_id}.json", fields)


def _delete(home: Path, user: str, memories: tuple[str, ...], document: DocumentName | None) -> JsonObject:
    collection, uri = document or (None, None)
    with Home(home).lock(LOCK_WAIT_S):
        done = delete(Home(home), user=user, memories=memories, collection=collection, document=uri)
    return {"state": "deleted", "proof": _counts(done)}


def _consolidate(home: Path, scopes: frozenset[ScopeKey]) -> JsonObject:
    with Home(home).lock(LOCK_WAIT_S):
        done = consolidate(Home(home), scopes=scopes)
    return {"state": "consolidated", "open": len(done.proposals), "new": done.new, "expired": done.expired}


def _counts(done: DeleteResult) -> JsonObject:
    """Returns the numbers of a proof, without names and ids."""
    proof = done.fields.get("proof")
    numbers = {n: v for n, v in proof.items() if isinstance(v, int)} if isinstance(proof, dict) else {}
    return {"documents": done.documents, "memories": done.memories, "residue": [], **numbers}


def _hash(user: str) -> str:
    return hashlib.sha256(user.encode()).hexdigest()
