"""A service that could not answer does not start: what is checked, and what is said."""

import os
from pathlib import Path

import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.serve.run_server import check_start
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home


def build_of(home: Home) -> Build:
    build = published(home)
    assert build is not None
    return build


def flip(path: Path, keep_time: bool) -> None:
    """Changes one byte in the middle of a file."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.unlink()  # tables of two builds, or of two homes of a test, are one file
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_sound_home_starts(home):
    check_start(home, "duckdb")


def test_an_index_that_changed_without_a_trace_is_found(home):
    flip(build_of(home).index, keep_time=True)
    with pytest.raises(ComponentFailed, match=r"index\.duckdb of build 000001 is damaged; run palimpsest build"):
        check_start(home, "duckdb")


def test_a_table_that_changed_or_is_gone_is_named(home):
    table = build_of(home).table_path("chats", "memories")
    flip(table, keep_time=False)
    with pytest.raises(ComponentFailed, match=r"chats/memories.parquet of build 000001 is damaged"):
        check_start(home, "duckdb")
    table.unlink()
    with pytest.raises(ComponentFailed, match=r"chats/memories.parquet"):
        check_start(home, "duckdb")


def test_a_build_that_was_only_copied_starts(home):
    for path in build_of(home).path.rglob("*"):
        os.utime(path)
    check_start(home, "duckdb")


def test_a_home_without_a_build_does_not_start(tmp_path):
    with pytest.raises(PalimpsestError, match="no published build"):
        check_start(Home(tmp_path), "duckdb")


def test_a_neo4j_that_does_not_answer_is_a_component_that_failed(home, monkeypatch):
    write_json(home.path / "neo4j.json", {"home_id": "0" * 16, "folder": os.fsencode(home.path.resolve()).hex()})
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")
    monkeypatch.setenv("NEO4J_PASSWORD", "x")
    with pytest.raises(ComponentFailed, match=r"no answer from bolt://127\.0\.0\.1:1"):
        check_start(home, "neo4j")
