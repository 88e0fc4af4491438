"""A reader that looks at the store while a writer of the same process takes or gives back the lock."""

import threading

import pytest

from palimpsest.store.home import Home
from palimpsest.store.lease import LEASE, read_head
from palimpsest.store.remote_home import local_home, refresh, writing_copy
from palimpsest.store.table_store import open_store
from palimpsest.store.working_copy import WorkingCopy, working_copy


@pytest.fixture
def url(bucket):
    return f"s3://{bucket}/home"


@pytest.fixture
def paused_pull(url, tmp_path, monkeypatch):
    """A thread that is in the middle of a pull of the copy; returns the home, and what lets the pull go on."""
    home = Home(local_home(url))
    with home.lock():
        (home.path / "decisions.jsonl").write_text("1\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    with (other := Home(local_home(url))).lock():
        (other.path / "decisions.jsonl").write_text("2, of another machine\n")
    inside, go_on, pull = threading.Event(), threading.Event(), WorkingCopy.pull

    def slow(copy):
        if threading.current_thread() is reader:
            inside.set()
            go_on.wait(30)
        return pull(copy)

    reader = threading.Thread(target=lambda: refresh(working_copy(home.path)))
    monkeypatch.setattr(WorkingCopy, "pull", slow)
    reader.start()
    assert inside.wait(30)
    yield home, go_on
    go_on.set()
    reader.join()


def test_a_writer_takes_the_lease_when_a_thread_was_reading_the_store(paused_pull, url):
    home, go_on = paused_pull
    threading.Timer(0.5, go_on.set).start()
    with home.lock():
        assert writing_copy(home.path) is not None
        (home.path / "decisions.jsonl").write_text("3\n")
    store = open_store(url)
    assert b'"expires": 0' in store.read(LEASE).data
    assert any(store.read(key).data == b"3\n" for key in store.list("objects"))
    assert read_head(store).fence == 3


def test_a_look_that_finds_nothing_new_takes_no_lock(url, monkeypatch):
    home = Home(local_home(url))
    with home.lock():
        (home.path / "decisions.jsonl").write_text("1\n")
    monkeypatch.setattr(WorkingCopy, "pull", lambda _: pytest.fail("nothing is behind"))
    assert refresh(working_copy(home.path)) is False
