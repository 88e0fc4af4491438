"""Two builders of one home on object storage, one of them killed: one at a time wins, and nothing is lost."""

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.lease import HEAD, LEASE, LEASE_VARIABLE, Lease, LeaseLost, read_head, take_lease
from palimpsest.store.remote_home import local_home, refresh, writing_copy
from palimpsest.store.table_store import open_store
from palimpsest.store.working_copy import WorkingCopy, working_copy
from palimpsest_eval.runs.judge_build import find_violations
from tests.small_corpus import write_chats

_LEASE_S = 1.0
_MAX_S = 90
TREE = f"trees/00000001/{'1' * 32}"


def pause(lease: Lease) -> None:
    """It renews nothing from now on, as where its process is stopped."""
    lease._ended.set()
    lease._renewing.join()


def start(url: str, vectors: Path, corpus: Path, cache: Path, text: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.remote.builder", url, str(vectors), str(corpus), text]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_of_two_builders_one_wins_and_what_was_sent_is_built_once(rounds, url, tmp_path, shared_vectors, monkeypatch):
    monkeypatch.setenv(LEASE_VARIABLE, str(_LEASE_S))
    corpus, draw, sent = write_chats(tmp_path / "corpus"), random.Random(7), []
    caches = (tmp_path / "a", tmp_path / "b")
    start(url, shared_vectors, corpus, caches[0], "").communicate(timeout=_MAX_S)
    fences = [read_head(open_store(url)).fence]
    for number in range(rounds):
        texts = [f"Note {number} of builder {name} is about heron-{number}{name}." for name in "ab"]
        builders = [start(url, shared_vectors, corpus, *pair) for pair in zip(caches, texts, strict=True)]
        killed = draw.randrange(2)
        time.sleep(draw.uniform(0.5, 4.0))
        builders[killed].kill()
        for i, builder in enumerate(builders):
            out, err = builder.communicate(timeout=_MAX_S)
            assert i == killed or out.endswith("built\n"), err
            sent += [texts[i]] if "sent" in out else []
        fences.append(read_head(open_store(url)).fence)
    for cache in caches:
        out, err = start(url, shared_vectors, corpus, cache, "").communicate(timeout=_MAX_S)
        assert out.endswith("built\n"), err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "reader"))
    home = Home(local_home(url), shared_vectors)
    memories = published(home).table("chats", "memories")["text"].to_list()
    assert len(sent) >= rounds and all(memories.count(text) == 1 for text in sent)
    assert find_violations(home, published(home)) == []
    assert fences == sorted(set(fences)), "each writer has a higher fence than the one before"


def test_a_builder_that_was_paused_cannot_move_the_pointer_of_its_successor(url, monkeypatch):
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    store = open_store(url)
    paused = take_lease(store)
    pause(paused)
    paused.move_head(TREE)
    successor = take_lease(store, wait_s=10)
    assert (successor.fence, read_head(store).tree) == (2, TREE)
    with pytest.raises(ComponentFailed, match="another builder took its lease"):
        paused.move_head("trees/00000001/22222222222222222222222222222222")
    paused.release()
    successor.move_head("trees/00000002/33333333333333333333333333333333")
    assert (read_head(store).tree, read_head(store).fence) == ("trees/00000002/33333333333333333333333333333333", 2)
    successor.release()


def test_a_lost_lease_object_does_not_lower_the_fence_and_damage_is_named(url):
    store = open_store(url)
    for _ in range(3):
        take_lease(store).release()
    store.delete([LEASE])
    lease = take_lease(store)
    assert lease.fence == 4
    lease.release()
    version = store.read(HEAD).version
    store.replace(HEAD, b"[]", version)
    with pytest.raises(ComponentFailed, match=r"published\.json: not what Palimpsest wrote"):
        take_lease(store)


def test_what_a_builder_wrote_after_it_lost_the_lease_is_removed(url, tmp_path, monkeypatch):
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    first, store = Home(local_home(url)), open_store(url)
    with first.lock():
        (first.path / "decisions.jsonl").write_text("1\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    second, check = Home(local_home(url)), Lease.check

    def lose(lease: Lease) -> None:
        check(lease)  # and then another builder writes the home, while this one is paused
        monkeypatch.setattr(Lease, "check", check)
        pause(lease)
        with second.lock(wait_s=20):
            (second.path / "decisions.jsonl").write_text("2\n")

    monkeypatch.setattr(Lease, "check", lose)
    with pytest.raises(LeaseLost), first.lock():
        (first.path / "secret.txt").write_text("zqdeleted")
    assert not any(b"zqdeleted" in store.read(key).data for key in store.list())
    with second.lock():
        assert (second.path / "decisions.jsonl").read_text() == "2\n"
    with first.lock():
        assert (first.path / "decisions.jsonl").read_text() == "2\n"


def test_a_builder_that_lost_the_lease_uploads_nothing(url, monkeypatch):
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    home, store = Home(local_home(url)), open_store(url)
    uploads, create = [], type(store).create
    monkeypatch.setattr(type(store), "create", lambda self, key, data: uploads.append(key) or create(self, key, data))
    with pytest.raises(LeaseLost), home.lock():
        (home.path / "secret.txt").write_text("zqdeleted")
        _, lease = writing_copy(home.path)
        pause(lease)
        take_lease(store, wait_s=20).release()
        uploads.clear()
    assert uploads == []


def test_a_pointer_that_was_moved_before_the_lease_was_lost_is_no_failure(url, monkeypatch):
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    store = open_store(url)
    lease = take_lease(store)
    pause(lease)
    replace = type(store).replace

    def lose_the_answer(self, name, data, version):
        monkeypatch.setattr(type(store), "replace", replace)
        assert replace(self, name, data, version) is not None
        take_lease(store, wait_s=20).release()  # another builder, before the write is tried again

    monkeypatch.setattr(type(store), "replace", lose_the_answer)
    lease.move_head(TREE)
    assert read_head(store).tree == TREE


def test_a_builder_with_a_longer_lease_is_waited_for_as_long(url, monkeypatch):
    store = open_store(url)
    monkeypatch.setenv(LEASE_VARIABLE, "30")
    lease = take_lease(store)  # it renews every 10 seconds
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    with pytest.raises(PalimpsestError, match="another build is writing it"):
        take_lease(store, wait_s=1.6)
    lease.release()


@pytest.mark.parametrize(("seconds", "wait_s"), [(', "seconds": 1', 0), ("", 20)])
def test_a_lease_far_in_the_future_is_watched_without_waiting_for_its_clock(url, monkeypatch, seconds, wait_s):
    monkeypatch.setenv(LEASE_VARIABLE, "1")
    store = open_store(url)
    store.create(LEASE, f'{{"owner": "ahead", "fence": 5, "expires": 99999999999{seconds}}}'.encode())
    lease = take_lease(store, wait_s=wait_s)
    assert lease.fence == 6
    lease.release()


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
