"""A home of each earlier format is upgraded in place from its log; one of a newer version is refused.

`tests/homes/format-N.tar.xz` was written by a late commit with that format, from two builds of two small collections:
chats of two users, and notes of which one was edited between the builds. The folders of the collections are gone;
Dagster's run history and the copy of the tokenizer are left out.
"""

import json
import tarfile
from pathlib import Path

import pytest

from palimpsest.core.files import FORMAT, read_format
from palimpsest.query.reader import open_home
from palimpsest.store.builds import kept_builds, published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest_eval.runs.judge_build import verify_home
from tests.command import last_json, run

HOMES = Path(__file__).resolve().parents[1] / "homes"


def _unpack(number: int, folder: Path) -> Home:
    with tarfile.open(HOMES / f"format-{number}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Home(folder / "home")


def test_there_is_a_home_of_each_earlier_format() -> None:
    assert {p.name for p in HOMES.glob("*.tar.xz")} == {f"format-{n}.tar.xz" for n in range(1, FORMAT)}
    for path in HOMES.glob("*.tar.xz"):
        with tarfile.open(path) as archive:
            data = b"".join(f.read() for m in archive if m.isreg() and (f := archive.extractfile(m)))
        assert b"/tmp/" not in data and b"/work/" not in data and b"/root" not in data


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=() if n in (1, FORMAT - 1) else pytest.mark.slow) for n in range(1, FORMAT)]
)
def test_a_home_of_an_earlier_format_is_upgraded_in_place(tmp_path, number: int) -> None:
    home = _unpack(number, tmp_path)
    versions = {name: IngestLog(home.log / name).versions().height for name in ("chats", "notes")}
    assert versions == {"chats": 1, "notes": 3}
    done = run("query", "deadline of Heron", "--home", home.path)
    assert done.returncode == 2
    done = run("home", "upgrade", "--home", home.path, "--json")
    assert done.returncode == 0, done.stderr
    upgraded = last_json(done)
    assert (upgraded["before"], upgraded["format"], upgraded["memories"]) == (number, FORMAT, 7)
    assert not verify_home(home).violations
    assert [b.build_id for b in kept_builds(home)] == [published(home).build_id] and read_format(home.path) == FORMAT
    assert {name: IngestLog(home.log / name).versions().height for name in versions} == versions
    with open_home(home.path) as reader:
        found = reader.search("deadline of Heron", reader.resolve_scopes("chats", "ann"))
        assert "20 April" in found.memories[0].text and "20 April" in found.context
        history = reader.search("length of the bridge", reader.resolve_scopes("notes"), history=True)
        assert "41 metres" in history.context and "40 metres" in history.context
    again = last_json(run("home", "upgrade", "--home", home.path, "--json"))
    assert again["before"] == FORMAT and again["build_id"] == upgraded["build_id"]


@pytest.mark.slow
def test_upgraded_homes_of_all_formats_are_the_same(tmp_path) -> None:
    digests = set()
    for number in (1, FORMAT - 1):
        home = _unpack(number, tmp_path / str(number))
        digests.add(last_json(run("home", "upgrade", "--home", home.path, "--json"))["digest"])
    assert len(digests) == 1


def test_a_backup_of_an_earlier_format_restores_and_asks_for_the_upgrade(tmp_path) -> None:
    home = _unpack(FORMAT - 1, tmp_path)
    assert run("backup", tmp_path / "copy", "--home", home.path).returncode == 0
    done = run("restore", tmp_path / "copy", "--home", tmp_path / "other", "--json")
    assert done.returncode == 0 and last_json(done)["needs_upgrade"] and "home upgrade" in done.stderr
    assert run("home", "upgrade", "--home", tmp_path / "other").returncode == 0


def test_an_upgrade_of_a_newer_or_unbuilt_home_is_refused(tmp_path) -> None:
    home = _unpack(1, tmp_path)
    (home.path / "format.json").write_text(json.dumps({"format": FORMAT + 1}))
    done = run("home", "upgrade", "--home", home.path)
    assert done.returncode == 2 and "written by a newer version of Palimpsest" in done.stderr
    done = run("home", "upgrade", "--home", tmp_path / "none")
    assert done.returncode == 2 and "has no published build" in done.stderr
