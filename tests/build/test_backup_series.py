"""Dated backups: the newest stay, and nothing but backups of the same home goes."""

import datetime as dt

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.backup import backup_dated, restore_home, series_from_environment
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.command import last_json, run
from tests.small_corpus import write_chats

NIGHT = dt.datetime(2026, 3, 1, 3, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def homes(tmp_path_factory, shared_vectors) -> tuple[Home, Home]:
    """Two homes of one name in two folders."""
    base = tmp_path_factory.mktemp("series")
    first, second = Home(base / "a" / "home", shared_vectors), Home(base / "b" / "home", shared_vectors)
    for home in (first, second):
        run_without_dagster(home, make_plan(home, [write_chats(base / "corpus")]))
    return first, second


def test_the_newest_backups_of_a_home_stay_and_other_files_are_not_touched(homes, tmp_path):
    first, second = homes
    others = backup_dated(second, tmp_path, 1, now=NIGHT).backup.file
    names = [backup_dated(first, tmp_path, 2, now=NIGHT + dt.timedelta(days=d)).backup.file for d in range(2)]
    notes, planted = tmp_path / "notes.txt", tmp_path / names[0].rpartition("/")[2].replace("20260301", "20200101")
    notes.write_text("keep me")
    planted.write_text("no backup, though it is named like one")
    done = backup_dated(first, tmp_path, 2, now=NIGHT + dt.timedelta(days=2))
    assert done.removed == (names[0],)
    left = {str(p) for p in tmp_path.iterdir()}
    assert left == {others, names[1], done.backup.file, str(notes), str(planted)}
    restored = restore_home(tmp_path / done.backup.file, Home(tmp_path / "restored"))
    assert restored.digest == published(first).manifest.digest


def test_homes_at_one_path_of_two_machines_remove_no_backups_of_each_other(homes, tmp_path):
    home, _ = homes
    here = backup_dated(home, tmp_path, 1, now=NIGHT).backup.file
    series = home.path / "backup-series.json"
    stored = series.read_bytes()
    series.unlink()  # another machine has another home at this path
    there = backup_dated(home, tmp_path, 1, now=NIGHT + dt.timedelta(days=1))
    assert there.removed == () and here != there.backup.file
    series.write_bytes(stored)
    again = backup_dated(home, tmp_path, 1, now=NIGHT + dt.timedelta(days=2))
    assert again.removed == (here,)
    assert {str(p) for p in tmp_path.iterdir()} == {there.backup.file, again.backup.file}


def test_nothing_is_removed_when_the_new_backup_cannot_be_made(homes, tmp_path):
    first, _ = homes
    kept = backup_dated(first, tmp_path / "backups", 1, now=NIGHT).backup.file
    with pytest.raises(PalimpsestError, match="there is none"):
        backup_dated(Home(tmp_path / "gone"), tmp_path / "backups", 1)
    assert [str(p) for p in (tmp_path / "backups").iterdir()] == [kept]
    with pytest.raises(PalimpsestError, match="inside the home"):
        backup_dated(first, first.path / "backups", 1)
    with pytest.raises(PalimpsestError, match="not a folder"):
        backup_dated(first, tmp_path / "backups" / kept.rpartition("/")[2], 1)


def test_the_command_keeps_what_it_is_given_and_lists_what_it_removed(homes, tmp_path):
    first, _ = homes
    one = last_json(run("backup", tmp_path, "--keep", "1", "--home", first.path, "--json"))
    two = last_json(run("backup", tmp_path, "--keep", "1", "--home", first.path, "--json"))
    assert (
        one["removed"] == []
        and two["removed"] == [one["file"]]
        and [str(p) for p in tmp_path.iterdir()] == [two["file"]]
    )
    assert run("backup", tmp_path, "--keep", "0", "--home", first.path).returncode == 2


def test_nightly_backups_are_made_where_a_folder_is_set(monkeypatch, tmp_path):
    assert series_from_environment() is None
    monkeypatch.setenv("PALIMPSEST_BACKUP_FOLDER", str(tmp_path))
    assert series_from_environment() == (tmp_path, 7)
    monkeypatch.setenv("PALIMPSEST_BACKUPS_KEPT", "none")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_BACKUPS_KEPT"):
        series_from_environment()
