"""Backups of homes on object storage, and restores into them; a copy that goes away while it is written."""

import shutil
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.pipeline.backup import backup_home, restore_home
from palimpsest.sources.inbox import ingest_text
from palimpsest.store import remote_home
from palimpsest.store.home import Home, send_unwritten
from palimpsest.store.remote_home import local_home
from palimpsest.store.table_store import open_store
from tests.store.remote.conftest import Killed, kill


@pytest.fixture
def home(url):
    """A home with one text in its inbox."""
    home = Home(local_home(url))
    ingest_text(home, "The spare key hangs behind the clock.", user="ann")
    send_unwritten(home.path)
    return home


def texts_elsewhere(url, tmp_path, monkeypatch, name):
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return "".join(p.read_text() for p in local_home(url).glob("inbox/inbox/*.turns.jsonl"))


@pytest.fixture
def backup(home, tmp_path):
    backup_home(home, tmp_path / "backup")
    return tmp_path / "backup"


def test_a_restore_over_a_home_replaces_it_in_the_bucket_and_keeps_what_was_there(
    home, url, backup, tmp_path, monkeypatch
):
    ingest_text(home, "The blue bike is in the shed.", user="ann")
    send_unwritten(home.path)
    with pytest.raises(PalimpsestError, match="not empty"):
        restore_home(backup, home)
    assert "blue bike" in texts_elsewhere(url, tmp_path, monkeypatch, "a")
    done = restore_home(backup, home, force=True)
    found = texts_elsewhere(url, tmp_path, monkeypatch, "b")
    assert "spare key" in found and "blue bike" not in found
    assert "blue bike" in "".join(p.read_text() for p in Path(done.moved_aside).glob("inbox/inbox/*.turns.jsonl"))


def test_a_restore_into_an_empty_prefix_is_what_other_machines_read(backup, bucket, tmp_path, monkeypatch):
    url = f"s3://{bucket}/new"
    restore_home(backup, Home(local_home(url)))
    assert "spare key" in texts_elsewhere(url, tmp_path, monkeypatch, "a")
    assert local_home(url) and Home(local_home(url)).folder_of("inbox")


def test_a_restore_that_is_stopped_leaves_the_home_in_the_bucket(home, url, backup, tmp_path, monkeypatch):
    ingest_text(home, "The blue bike is in the shed.", user="ann")
    send_unwritten(home.path)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(remote_home, "shared_files", lambda folder: [folder])
        patch.setattr(type(home.path), "rename", kill)
        patch.setattr("palimpsest.store.working_copy.WorkingCopy.push", kill)
        restore_home(backup, home, force=True)
    shutil.rmtree(home.path / "inbox")
    with home.lock():
        pass
    assert "blue bike" in texts_elsewhere(url, tmp_path, monkeypatch, "a")


def test_a_copy_that_is_removed_while_it_is_written_removes_nothing_from_the_bucket(home, url, tmp_path, monkeypatch):
    before = set(open_store(url).list("objects"))
    with pytest.raises(ComponentFailed, match=r"its copy .* was removed meanwhile; run again"), home.lock():
        shutil.rmtree(home.path)
    assert set(open_store(url).list("objects")) == before
    assert "spare key" in texts_elsewhere(url, tmp_path, monkeypatch, "a")
