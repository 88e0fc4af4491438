import datetime as dt

import polars as pl
import pytest

from palimpsest.core.errors import DamagedFile
from palimpsest.store.ingest_log import IngestLog, write_sealed

DAY = [dt.datetime(2026, 1, d, tzinfo=dt.UTC) for d in range(1, 9)]


@pytest.fixture
def log(tmp_path) -> IngestLog:
    return IngestLog(tmp_path)


def seen(**sources: str) -> dict[str, dict[str, object]]:
    fixed = {"reason": None, "problems": []}
    return {f"{u}.md": {"content_hash": h, "text_key": f"{u}-{h}", **fixed} for u, h in sources.items()}


def rows(log: IngestLog) -> list[tuple]:
    return [(r["uri"], r["ordinal"], r["content_hash"], r["gone_at"]) for r in log.versions().to_dicts()]


def test_each_edit_is_a_version_and_an_unchanged_source_is_not(log):
    first = log.record(seen(a="1", b="1"), DAY[0])
    assert log.record(seen(a="1", b="1"), DAY[5]).equals(first)
    log.record(seen(a="1", b="2"), DAY[1])
    assert rows(log) == [("a.md", 1, "1", None), ("b.md", 1, "1", None), ("b.md", 2, "2", None)]
    assert log.current()["content_hash"].to_list() == ["1", "2"]


def test_a_source_that_vanished_and_came_back_is_a_new_version(log, tmp_path):
    log.record(seen(a="1"), DAY[0])
    log.record({}, DAY[1])
    assert log.current().height == 0
    log.record(seen(a="1"), DAY[2])
    assert rows(log) == [("a.md", 1, "1", DAY[1]), ("a.md", 2, "1", None)]


def test_a_forgotten_source_leaves_no_version_and_no_text_and_a_stopped_delete_is_finished_by_the_next(log, tmp_path):
    for key in ("a-1", "b-1"):
        log.write_text(key, [{"text": f"secret of {key}"}])
    log.record(seen(a="1", b="1"), DAY[0])
    copy = tmp_path / "versions.copy.parquet"
    before = copy.read_bytes()
    assert log.forget({"a.md"}) == 1
    assert [p.stem for p in (tmp_path / "texts").iterdir()] == ["b-1"]
    assert log.versions()["uri"].to_list() == ["b.md"]
    copy.write_bytes(before)  # as where the first was stopped
    assert log.forget({"a.md"}) == 0
    (tmp_path / "versions.parquet").unlink()
    assert log.restore_versions() and log.versions()["uri"].to_list() == ["b.md"]


def test_what_no_published_build_has_leaves_no_history(log, tmp_path):
    log.record(seen(a="1", b="1"), DAY[0], published_at=None)
    log.record(seen(a="2", b="1", c="1"), DAY[2], DAY[1])
    log.record(seen(a="3"), DAY[3], DAY[1])
    assert rows(log) == [("a.md", 1, "1", None), ("a.md", 2, "3", None), ("b.md", 1, "1", DAY[3])]
    log.record(seen(), DAY[4], DAY[1])
    assert rows(log) == [("a.md", 1, "1", DAY[4]), ("b.md", 1, "1", DAY[3])], "its published version is gone, too"


def test_a_text_that_an_earlier_version_wrote_is_read_and_replaced(log, tmp_path):
    earlier = tmp_path / "texts" / "a-1.parquet"
    write_sealed(pl.DataFrame([{"text": "old", "source_time": DAY[0]}]), earlier)
    log.record(seen(a="1"), DAY[0])
    assert log.text_path("a-1") == earlier and not log.damaged_texts()
    assert [(row["text"], row["source_time"]) for row in log.rows("a-1")] == [("old", DAY[0])]
    log.write_text("a-1", [{"text": "new", "source_time": DAY[1]}])
    assert log.text("a-1")["source_time"].to_list() == [DAY[1]] and not earlier.exists()


def test_a_damaged_text_is_found_and_what_a_stopped_run_read_is_known(log):
    log.write_text("a-1", [{"text": "new"}], {"lines": 3})
    log.write_text("b-1", [{"text": "new"}], {"lines": 4})
    log.record(seen(a="1"), DAY[0])
    assert log.unrecorded() == {"b-1": {"lines": 4}}
    log.sweep()
    assert not log.unrecorded()
    path = log.text_path("a-1")
    path.write_bytes(path.read_bytes().replace(b"new", b"now"))
    assert log.damaged_texts() == ["a-1"]
    with pytest.raises(DamagedFile):
        log.text("a-1")
