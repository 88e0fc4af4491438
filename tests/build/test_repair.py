"""A damaged file of a home is noticed, repaired from what is left, in one line each; what is lost is named."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from palimpsest.pipeline.repair_home import find_damage
from palimpsest.query.reader import open_home
from palimpsest.store.builds import kept_builds, published
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest_eval.runs.judge_build import verify_home
from tests.command import last_json, process, run
from tests.small_corpus import build_twice, copy_built, write_notes


@pytest.fixture(scope="module")
def made(tmp_path_factory, shared_vectors) -> Path:
    return build_twice(tmp_path_factory.mktemp("made"), shared_vectors)


@pytest.fixture
def home(made, tmp_path) -> Home:
    return copy_built(made, tmp_path)[0]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def _flip_silently(path: Path) -> None:
    """As a disk does: neither size nor time say so."""
    stat = path.stat()
    _flip(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _remove(path: Path) -> None:
    path.unlink()


def _build(home: Home, *more: str):
    return run("build", "--home", home.path, "--corpus", home.path.parent / "corpus", "--json", *more)


def _check_repaired(home: Home, digest: str, *words: str) -> None:
    done = _build(home)
    assert done.returncode == 0, done.stderr
    built = last_json(done)
    assert built["digest"] == digest and built["published"]
    assert any(all(w in line for w in words) for line in built["repaired"]), built["repaired"]
    lines = [line for line in done.stderr.splitlines() if "repaired: " in line]
    assert len(lines) == len(built["repaired"])
    assert not verify_home(home).violations
    again = last_json(_build(home))
    assert again["repaired"] == [] and again["changed"] == [] and again["digest"] == digest
    with open_home(home.path) as reader:
        assert "20 April" in reader.search("deadline of Heron", reader.resolve_scopes("chats", "ann")).context


_DAMAGES = [
    *(pytest.param(_truncate, table, marks=pytest.mark.slow) for table in ("memories", "documents", "relations")),
    (_flip, "versions"),
    pytest.param(_remove, "chunks", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("damage", "table"), _DAMAGES)
def test_a_damaged_table_is_made_again_with_the_same_digest(home, damage: Callable[[Path], None], table: str) -> None:
    digest = published(home).manifest.digest
    for build in kept_builds(home):  # hard links share their damage
        damage(build.table_path("chats", table))
    assert f"chats/{table}.parquet" in verify_home(home).lines[0]
    _check_repaired(home, digest, f"chats/{table}.parquet was damaged", "made again from the record")
    assert not any(build.damaged_files(read_all=True) for build in kept_builds(home))


def test_a_table_that_another_build_has_is_taken_from_it_and_no_build_is_made(home) -> None:
    build = published(home)
    _truncate(build.table_path("chats", "memories"))  # the copy of the home has no hard links
    _check_repaired(home, build.manifest.digest, "chats/memories.parquet was damaged", "another build has it")
    assert published(home).build_id == build.build_id


def test_every_file_of_a_build_is_listed_and_a_silent_flip_in_any_is_found(home) -> None:
    build = published(home)
    files = {p.relative_to(build.path).as_posix() for p in build.path.rglob("*") if p.is_file()}
    assert files - {"manifest.json"} == set(build.manifest.files)
    logs, vectors = home.log.rglob("*.[pe]*"), home.embeddings.rglob("*.parquet")
    of_build = [build.path / name for name in sorted(files) if name.count("/") == 0 or name.startswith("notes/m")]
    for path in [*of_build, *(p for p in logs if p.name != "versions.copy.parquet"), *vectors]:
        before, stat = path.read_bytes(), path.stat()
        _flip_silently(path)
        assert find_damage(home) == [str(path.relative_to(home.path))]
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not verify_home(home).violations


@pytest.mark.parametrize("damage", [pytest.param(_truncate, marks=pytest.mark.slow), _flip])
def test_a_damaged_text_is_read_again_where_the_source_did_not_change(home, damage: Callable[[Path], None]) -> None:
    log = IngestLog(home.log / "notes")
    (row,) = log.current().filter(uri="b.md").to_dicts()
    damage(log.text_path(row["text_key"]))
    assert row["text_key"] in verify_home(home).lines[0]
    write_notes(home.path.parent / "corpus", {"c.md": "The harbour has two cranes.\n"})
    done = _build(home)
    assert done.returncode == 0, done.stderr
    assert last_json(done)["repaired"] == ["log of notes: the text of b.md was damaged; it is read again"]
    assert not verify_home(home).violations


def test_a_missing_text_is_noticed_although_nothing_changed(home) -> None:
    log = IngestLog(home.log / "notes")
    log.text_path(log.current().filter(uri="b.md")["text_key"][0]).unlink()
    _check_repaired(home, published(home).manifest.digest, "the text of b.md was damaged", "read again")


@pytest.mark.slow
def test_a_lost_version_is_named_and_forgotten_only_with_allow_lost(home) -> None:
    log = IngestLog(home.log / "notes")
    (row,) = log.versions().filter(uri="a.md", ordinal=1).to_dicts()
    log.text_path(row["text_key"]).unlink()
    before = published(home).build_id
    done = _build(home)
    assert done.returncode == 2 and published(home).build_id == before
    assert "the text of a.md (version 1) is damaged, and the source has changed since" in done.stderr
    assert "restore a backup" in done.stderr
    write_notes(home.path.parent / "corpus", {"b.md": "Coffee.\n"})
    done = _build(home, "--allow-lost")
    assert done.returncode == 0, done.stderr
    assert any("a.md (version 1) is lost" in line for line in last_json(done)["repaired"])
    assert not verify_home(home).violations


@pytest.mark.parametrize("is_missing", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_lost_log_is_named_and_read_again_only_with_allow_lost(home, is_missing: bool) -> None:
    folder = home.log / "notes"
    if is_missing:
        shutil.rmtree(folder)
    else:
        for name in ("versions.parquet", "versions.copy.parquet"):
            _truncate(folder / name)
    assert "log/notes/versions.parquet" in verify_home(home).lines[0]
    done = _build(home)
    assert done.returncode == 2 and "log of notes: versions.parquet" in done.stderr and "--allow-lost" in done.stderr
    done = _build(home, "--allow-lost")
    assert done.returncode == 0, done.stderr
    assert IngestLog(folder).versions()["uri"].to_list() == ["a.md", "b.md"]
    assert not verify_home(home).violations


def test_damaged_vectors_are_computed_again(home) -> None:
    digest = published(home).manifest.digest
    for part in home.embeddings.rglob("*.parquet"):
        _truncate(part)
    published(home).index.unlink()
    done = _build(home)
    built = last_json(done)
    assert done.returncode == 0 and built["digest"] == digest and built["work"]["embeddings"], done.stderr
    assert any("their texts are embedded again" in line for line in built["repaired"])
    assert not verify_home(home).violations


def test_the_tables_of_a_collection_whose_folder_is_gone_are_made_again_from_the_record(home) -> None:
    digest, corpus = published(home).manifest.digest, home.path.parent / "corpus"
    for build in kept_builds(home):
        _truncate(build.table_path("chats", "memories"))
    shutil.rmtree(corpus / "chats")
    done = _build(home)
    assert done.returncode == 0 and last_json(done)["digest"] == digest, done.stderr
    assert not verify_home(home).violations


@pytest.mark.slow
def test_an_older_build_that_cannot_be_repaired_is_removed_and_a_delete_asks_for_the_repair_first(home) -> None:
    older, current = kept_builds(home)
    _truncate(older.index)
    done = _build(home)
    assert last_json(done)["repaired"] == ["build 000001: removed, for index.duckdb is damaged; no reader sees it"]
    assert [b.build_id for b in kept_builds(home)] == [current.build_id]
    _truncate(current.table_path("chats", "memories"))
    done = run("delete", "--user", "bob", "--home", home.path)
    assert done.returncode == 2 and "chats/memories.parquet is damaged; run palimpsest build" in done.stderr
    assert _build(home).returncode == 0
    assert run("delete", "--user", "bob", "--home", home.path).returncode == 0
    assert not verify_home(home).violations


@pytest.mark.parametrize(
    "name",
    ["index.duckdb", *(pytest.param(n, marks=pytest.mark.slow) for n in ("manifest.json", "../../published.json"))],
)
def test_a_build_repairs_what_derives_from_the_tables(home, name: str) -> None:
    build = published(home)
    digest = build.manifest.digest
    _truncate(build.path / name)
    _check_repaired(home, digest, name.rpartition("../")[2], "was damaged")


def test_damage_that_only_verify_sees_is_repaired_by_build_with_repair(home) -> None:
    log = IngestLog(home.log / "notes")
    _flip_silently(log.text_path(log.current().filter(uri="b.md")["text_key"][0]))
    assert last_json(_build(home))["repaired"] == []  # nothing changed, and nothing is read
    (found,) = verify_home(home).lines
    assert "1 file is damaged or missing; run palimpsest build --repair" in found
    done = _build(home, "--repair")
    assert last_json(done)["repaired"] == ["log of notes: the text of b.md was damaged; it is read again"]
    assert last_json(done)["digest"] == published(home).manifest.digest and not verify_home(home).violations


def test_a_delete_does_not_begin_while_the_log_is_damaged(home) -> None:
    log = IngestLog(home.log / "chats")
    _truncate(log.text_path(log.current()["text_key"][0]))
    done = run("delete", "--user", "bob", "--home", home.path)
    assert done.returncode == 2 and "log of chats: damaged; run palimpsest build --repair" in done.stderr
    assert not home.decisions.exists()


@pytest.mark.parametrize("is_missing", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_was_deleted_does_not_come_back_with_the_decisions_lost(home, is_missing: bool) -> None:
    assert run("delete", "--user", "bob", "--home", home.path).returncode == 0
    deleted = last_json(_build(home))
    if is_missing:
        home.decisions.unlink()
    else:
        row = json.loads((text := home.decisions.read_text()).splitlines()[0])
        home.decisions.write_text(text.replace(row["target"], row["target"][:-1] + "x"))
    assert "decisions.jsonl" in verify_home(home).lines[0] if is_missing else find_damage(home) == ["decisions.jsonl"]
    done = _build(home)
    assert done.returncode == 2 and "or deleted by it would come back; restore a backup" in done.stderr
    assert published(home).build_id == deleted["build_id"]
    done = _build(home, "--allow-lost")
    assert done.returncode == 0 and "what was decided by it is lost" in last_json(done)["repaired"][0]
    assert last_json(_build(home))["repaired"] == []


@pytest.mark.slow
def test_damaged_databases_of_dagster_are_put_aside_in_the_same_build(home) -> None:
    corpus = home.path.parent / "corpus"
    write_notes(corpus, {"b.md": "The bridge is 40 metres long.\n"})
    assert process("build", "--home", home.path, "--corpus", corpus).returncode == 0
    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        path = home.dagster / name
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path.write_bytes(b"" if name.startswith("sch") else path.read_bytes()[: path.stat().st_size // 2])
    write_notes(corpus, {"b.md": "The bridge is 41 metres long.\n"})
    done = process("build", "--home", home.path, "--corpus", corpus, "--json")
    assert done.returncode == 0, done.stderr
    assert len([line for line in last_json(done)["repaired"] if "Dagster's" in line]) == 3
    assert len(list(home.dagster.rglob("*.damaged-1"))) == 3
