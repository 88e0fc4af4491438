"""A backup is consistent whatever runs, a restore gives the same home or nothing, and nobody's home is overwritten."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import FORMAT
from palimpsest.pipeline.backup import backup_home, restore_home
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_home
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.backup_archive import CheckedWriter, member_header, padding
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.runs.judge_build import find_violations, verify_home
from tests.command import last_json, process, run
from tests.small_corpus import copy_built, write_chats, write_notes


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors) -> Path:
    folder = tmp_path_factory.mktemp("made")
    corpus = write_notes(write_chats(folder / "corpus"), {"a.md": "The bridge is 40 metres long.\n"})
    home = Home(folder / "home", shared_vectors)
    home.create()
    run_without_dagster(home, make_plan(home, [corpus]))
    shutil.copytree(shared_vectors, folder / "home" / "embeddings", dirs_exist_ok=True)
    return folder


@pytest.fixture
def home(made, tmp_path) -> Home:
    return copy_built(made, tmp_path)[0]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_restored_home_answers_verifies_and_builds_the_same(made, home, tmp_path) -> None:
    digest = published(home).manifest.digest
    copy = tmp_path / "copy"
    done = last_json(run("backup", copy, "--home", home.path, "--json"))
    assert done["digest"] == digest and not done["encrypted"] and done["bytes"] == copy.stat().st_size
    assert copy.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(home.path)
    restored = process("restore", copy, "--home", home.path, "--json")
    assert restored.returncode == 0, restored.stderr
    assert last_json(restored)["digest"] == digest and not last_json(restored)["needs_upgrade"]
    with open_home(home.path) as reader:
        assert "20 April" in reader.search("deadline of Heron", reader.resolve_scopes("chats", "ann")).context
    assert not verify_home(home).violations
    built = last_json(run("build", "--home", home.path, "--corpus", tmp_path / "corpus", "--json"))
    assert built["digest"] == digest and built["changed"] == [] and not any(built["work"].values())
    assert not list(home.path.rglob(".backup/*")) and home.path.stat().st_mode & 0o777 == 0o700


def test_everything_but_old_builds_and_run_history_is_in_a_backup(home, tmp_path) -> None:
    ingest_text(home.path, "The spare key hangs behind the clock.", user="ann", collection="chats")
    home.decisions.write_text('{"kind": "undo", "target": "x"}\n{"kind": "und')  # half a line: a writer is at it
    with closing(sqlite3.connect(home.lm_ledger)) as ledger:
        ledger.execute("PRAGMA journal_mode = WAL")
        ledger.execute("CREATE TABLE answers (answer TEXT)")
        ledger.execute("INSERT INTO answers VALUES ('in the write-ahead log')")
        ledger.commit()
        before = _files(home.path)
        backup_home(home, tmp_path / "copy")
        assert {k: v for k, v in _files(home.path).items() if "ledger" not in k} == {
            k: v for k, v in before.items() if "ledger" not in k
        } | {".backup.lock": b""}
    other = Home(tmp_path / "other")
    restore_home(tmp_path / "copy", other)
    after = _files(other.path)
    with closing(sqlite3.connect(other.lm_ledger)) as ledger:
        assert ledger.execute("SELECT answer FROM answers").fetchall() == [("in the write-ahead log",)]
    assert after.pop("decisions.jsonl") == b'{"kind": "undo", "target": "x"}\n'
    same = {k: v for k, v in before.items() if "lock" not in k and "ledger" not in k and k != "decisions.jsonl"}
    assert {k: v for k, v in after.items() if "ledger" not in k} == same
    assert any(k.startswith("inbox/chats/") for k in same)


def test_tar_lists_a_backup_and_its_checksums(home, tmp_path) -> None:
    backup_home(home, tmp_path / "copy")
    with tarfile.open(tmp_path / "copy") as archive:
        names = archive.getnames()
        sums = json.load(archive.extractfile("palimpsest-checksums.json"))
    assert names[0] == "palimpsest-backup.json" and names[-1] == "palimpsest-digest"
    assert sorted(sums) == sorted(names[1:-2])
    assert {"home.json", "published.json", "builds/000001/index.duckdb"} <= sums.keys()


@pytest.mark.slow
def test_backups_made_while_builds_run_all_restore_to_homes_that_verify(home, tmp_path) -> None:
    corpus, texts = tmp_path / "corpus", iter(range(100))
    stop, failed = threading.Event(), []

    def build() -> None:
        try:
            while not stop.is_set():
                n = next(texts)
                # The same few texts again and again: no model is loaded, and the log still gets versions.
                write_notes(
                    corpus, {"a.md": f"The bridge is {40 + n % 2} metres long.\n", f"b{n}.md": "The harbour.\n"}
                )
                run_without_dagster(home, make_plan(home, [corpus]))
        except BaseException as e:
            failed.append(e)

    write_notes(corpus, {"a.md": "The bridge is 41 metres long.\n", "b.md": "The harbour.\n"})
    run_without_dagster(home, make_plan(home, [corpus]))
    before = published(home).build_id
    thread = threading.Thread(target=build)
    thread.start()
    copies = []
    while not failed and published(home).build_id < "000006":
        copies.append(tmp_path / f"copy{len(copies)}")
        backup_home(home, copies[-1])
    stop.set()
    thread.join()
    assert not failed and published(home).build_id > before, failed
    seen = set()
    for number, copy in enumerate(copies[:: max(1, len(copies) // 6)]):
        restored = Home(tmp_path / f"restored{number}")
        seen.add(restore_home(copy, restored).build_id)
        assert not find_violations(restored, published(restored))
    assert len(seen) > 1
    restored.remember_sources(make_plan(restored, [corpus]).collections)
    assert run_without_dagster(restored, make_plan(restored, [corpus])).manifest.digest
    scratch = Home(tmp_path / "scratch", home.embeddings)
    scratch.create()
    digest = run_without_dagster(scratch, make_plan(scratch, [corpus])).manifest
    assert published(restored).manifest.memories >= digest.memories


def test_a_backup_of_an_unfinished_delete_is_refused_and_a_stopped_backup_is_swept(home, tmp_path) -> None:
    (home.path / ".backup" / "log").mkdir(parents=True)
    (home.path / ".backup" / "log" / "left").write_text("My locker code is quixotic-77.")
    delete(home, user="bob")
    assert not (home.path / ".backup").exists()
    (home.path / "pending-delete-x.json").write_text("{}")
    done = run("backup", tmp_path / "copy", "--home", home.path)
    assert done.returncode == 2 and "run the same palimpsest delete again" in done.stderr
    assert not (tmp_path / "copy").exists()


def test_what_a_killed_restore_left_beside_a_home_goes_with_the_next_restore_or_delete(home, tmp_path) -> None:
    run("backup", tmp_path / "copy", "--home", home.path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for act in (("restore", tmp_path / "copy", "--force"), ("delete", "--user", "bob")):
        left, running = (home.path.with_name(f".{home.path.name}.restore-{p}") for p in (ended.pid, os.getpid()))
        for folder in (left, running):
            folder.mkdir(exist_ok=True)
        assert run(*act, "--home", home.path).returncode == 0
        assert not left.exists() and running.exists() is (act[0] == "delete")


@pytest.mark.parametrize("encrypted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_flipped_or_lost_byte_of_a_backup_goes_unnoticed(home, tmp_path, encrypted: bool) -> None:
    password = "correct horse" if encrypted else None
    copy, bad = tmp_path / "copy", tmp_path / "bad"
    backup_home(home, copy, password)
    data = copy.read_bytes()
    size = len(data)
    # Each try with a password takes half a second.
    flips = [0, 31, 45, 70, size // 2, size - 1]
    if not encrypted:
        flips += [*range(0, size, size // 40), size - 700, size - 1100, size - 2047, 130, 300, 520]
    for place in flips:
        bad.write_bytes(data[:place] + bytes((data[place] ^ 4,)) + data[place + 1 :])
        with pytest.raises(PalimpsestError, match=r"damaged|no backup|wrong password"):
            restore_home(bad, Home(tmp_path / "other"), password)
    for length in (0, 1, 512, size // 2, size - 2048, size - 1):
        bad.write_bytes(data[:length])
        with pytest.raises(PalimpsestError, match=r"damaged|no backup"):
            restore_home(bad, Home(tmp_path / "other"), password)
    bad.write_bytes(data + b"x")
    with pytest.raises(PalimpsestError, match="damaged"):
        restore_home(bad, Home(tmp_path / "other"), password)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad", "copy", "corpus", "home"]


def test_an_encrypted_backup_shows_nothing_and_needs_its_password(home, tmp_path) -> None:
    copy, secret = tmp_path / "copy", tmp_path / "secret"
    secret.write_text("correct horse\n")
    done = run("backup", copy, "--home", home.path, "--password-file", secret, "--json")
    assert last_json(done)["encrypted"]
    data = copy.read_bytes()
    assert b"quixotic" not in data and b"published.json" not in data
    for env, line in (
        ({}, "encrypted; give its password"),
        ({"PALIMPSEST_BACKUP_PASSWORD": "horse"}, "wrong password"),
    ):
        done = run("restore", copy, "--home", tmp_path / "other", **env)
        assert done.returncode == 2 and line in done.stderr and not (tmp_path / "other").exists()
    done = run("restore", copy, "--home", tmp_path / "other", PALIMPSEST_BACKUP_PASSWORD="correct horse")
    assert done.returncode == 0 and not verify_home(Home(tmp_path / "other")).violations
    done = run("backup", copy, "--home", home.path, "--encrypt")
    assert done.returncode == 2 and "set PALIMPSEST_BACKUP_PASSWORD" in done.stderr


def test_a_home_that_is_there_is_kept_aside_or_refused(home, tmp_path) -> None:
    copy = tmp_path / "copy"
    backup_home(home, copy)
    (home.path / "mine").write_text("kept")
    done = run("restore", copy, "--home", home.path)
    assert done.returncode == 2 and "not empty" in done.stderr and (home.path / "mine").exists()
    done = run("restore", copy, "--home", home.path, "--force")
    assert done.returncode == 0 and not (home.path / "mine").exists()
    assert (tmp_path / "home.before-restore-1" / "mine").read_text() == "kept"
    copy.write_bytes(copy.read_bytes()[:-1])
    assert run("restore", copy, "--home", home.path, "--force").returncode == 2
    assert not verify_home(home).violations


@pytest.mark.parametrize(
    "line",
    [
        "{home}/copy: inside the home",
        "{tmp}: is a folder; name a file in it, or add --keep N",
        "{tmp}/corpus/notes/a.md: exists and is no backup",
    ],
)
def test_a_backup_replaces_nothing_but_backups(home, tmp_path, line: str) -> None:
    line = line.format(home=home.path, tmp=tmp_path)
    done = run("backup", line.split(":")[0], "--home", home.path)
    assert done.returncode == 2 and line in done.stderr
    assert run("backup", tmp_path / "copy", "--home", home.path).returncode == 0
    assert run("backup", tmp_path / "copy", "--home", home.path).returncode == 0
    done = run("backup", tmp_path / "copy", "--home", tmp_path / "none")
    assert done.returncode == 2 and "there is none" in done.stderr


def _archive(path: Path, members: list[tuple[bytes, bytes]]) -> None:
    with path.open("wb") as file:
        out = CheckedWriter(file)
        for head, data in members:
            out.write(head + data + padding(len(data)))
        out.close()


def _link(name: str, target: str, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info.tobuf(tarfile.PAX_FORMAT)


def test_nothing_in_a_backup_is_written_outside_of_the_home(tmp_path) -> None:
    header = json.dumps(
        {
            "format": 1,
            "home_format": FORMAT,
            "version": "0",
            "created_at": "",
            "home": "/",
            "build_id": "",
            "digest": "",
        }
        | {"files": 1, "bytes": 1}
    ).encode()
    first = (member_header("palimpsest-backup.json", len(header)), header)
    evil = [(member_header(n, 1), b"x") for n in ("../out", "/tmp/out", "a/../../out", "a\\b", "./a", "a//b")]
    evil += [(_link("a", "/etc/passwd", k), b"") for k in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE)]
    evil += [(_link("a", "", tarfile.FIFOTYPE), b""), (_link("a", "", tarfile.DIRTYPE), b"")]
    for member in evil:
        _archive(tmp_path / "copy", [first, member])
        with pytest.raises(PalimpsestError, match="is no file of a home; nothing is restored"):
            restore_home(tmp_path / "copy", Home(tmp_path / "home"))
    _archive(tmp_path / "copy", [first, (member_header("a", 1), b"x"), (member_header("a", 1), b"x")])
    with pytest.raises(PalimpsestError, match="no file of a home"):
        restore_home(tmp_path / "copy", Home(tmp_path / "home"))
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]


def test_a_home_or_backup_of_a_newer_version_is_refused_in_one_line(home, tmp_path) -> None:
    (home.path / "format.json").write_text(json.dumps({"format": FORMAT + 1}))
    for command in (
        ("build", "--corpus", tmp_path / "corpus"),
        ("query", "deadline"),
        ("verify",),
        ("backup", tmp_path / "copy"),
    ):
        done = run(*command, "--home", home.path)
        assert (
            done.returncode == 2 and f"written by a newer version of Palimpsest (format {FORMAT + 1}" in done.stderr
        ), done.stderr
    assert not (tmp_path / "copy").exists()


def test_the_folder_of_the_home_s_own_inbox_moves_with_it(home, tmp_path) -> None:
    own = home.path / "collections" / "inbox"
    own.mkdir(parents=True)
    home.remember_sources({"inbox": own})
    backup_home(home, tmp_path / "copy")
    other = Home(tmp_path / "other")
    restore_home(tmp_path / "copy", other)
    assert other.sources["inbox"] == tmp_path / "other" / "collections" / "inbox"
    assert other.sources["notes"] == home.sources["notes"]
