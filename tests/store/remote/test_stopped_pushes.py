"""A push that is stopped before or after it moves the pointer: nothing is lost, and nothing deleted comes back."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.lease import HEAD, LEASE, Lease, read_head, take_lease
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import open_store
from palimpsest.store.working_copy import working_copy
from tests.small_corpus import build_home, write_chats
from tests.store.remote.conftest import Killed, kill

KEY = "The spare key zqkey hangs behind the clock."


@pytest.fixture
def homes(url, elsewhere, tmp_path, shared_vectors):
    """Two machines' copies of one built home."""
    first = Home(local_home(url), shared_vectors)
    with first.lock():
        first.create()
        build_home(first, write_chats(tmp_path / "corpus"))
    return first, elsewhere()


def inbox_text(home: Home) -> str:
    return "".join(p.read_text(errors="replace") for p in Path(home.inbox).rglob("*") if p.is_file())


def test_what_was_sent_by_a_push_that_was_then_stopped_does_not_come_back_after_a_delete(homes, monkeypatch):
    first, second = homes
    ingest_text(second, KEY, user="ann")
    move_head = Lease.move_head

    def move_then_stop(lease: Lease, tree: str) -> None:
        move_head(lease, tree)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Lease, "move_head", move_then_stop)
        send_unwritten(second.path)
    with first.lock():
        delete(first, user="ann")
    send_unwritten(second.path)
    assert "zqkey" not in inbox_text(second)
    with first.lock():
        assert "zqkey" not in inbox_text(first)


def test_what_a_push_that_was_stopped_had_not_sent_is_sent_later(homes, monkeypatch):
    first, second = homes
    ingest_text(second, KEY, user="ann")

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Lease, "move_head", kill)
        send_unwritten(second.path)
    with first.lock():
        delete(first, user="bob")
    send_unwritten(second.path)
    with first.lock():
        assert "zqkey" in inbox_text(first)


def open_store_url(home: Home) -> str:
    return working_copy(home.path).store.url


def test_the_ledger_is_written_with_what_its_log_has(homes):
    first, second = homes
    with first.lock(), closing(sqlite3.connect(first.lm_ledger)) as ledger:
        ledger.execute("PRAGMA journal_mode=WAL")
        ledger.execute("CREATE TABLE answers (text)")
        ledger.execute("INSERT INTO answers VALUES ('paid')")
        ledger.commit()
        assert first.lm_ledger.with_name("lm-ledger.sqlite-wal").stat().st_size > 0
    with second.lock(), closing(sqlite3.connect(second.lm_ledger)) as ledger:
        assert ledger.execute("SELECT text FROM answers").fetchall() == [("paid",)]


def test_a_large_file_that_changes_while_it_is_written_publishes_nothing(homes, monkeypatch):
    first, _ = homes
    before = read_head(open_store(open_store_url(first))).tree
    large = first.path / "log/large.bin"
    large.write_bytes(os.urandom(3 * 2**20))
    store = type(open_store(open_store_url(first)))
    upload = store.upload

    def change(self: object, key: str, file: object) -> None:
        upload(self, key, file)
        large.write_bytes(b"shorter")

    monkeypatch.setattr(store, "upload", change)
    with pytest.raises(ComponentFailed, match=r"log/large\.bin changed while it was written"), first.lock():
        pass
    assert read_head(open_store(open_store_url(first))).tree == before


def test_a_home_without_pointer_and_lease_goes_on_above_its_fences(homes):
    first, _ = homes
    store = open_store(open_store_url(first))
    fence = read_head(store).fence
    store.delete([HEAD, LEASE])
    lease = take_lease(store)
    assert lease.fence > fence - 1 >= 0
    lease.release()
