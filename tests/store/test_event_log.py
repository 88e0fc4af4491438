"""The event log: what a line is, when files are closed and removed, and what a delete leaves of it."""

import datetime as dt
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store import event_log
from palimpsest.store.event_log import (
    LogPolicy,
    erase_events,
    files_to_remove,
    log_files,
    log_policy,
    observed,
    read_events,
    run_scope,
    write_event,
)

TODAY = dt.datetime.now(dt.UTC).date()


def lines(home):
    return [json.loads(line) for path in log_files(home) for line in path.read_text().splitlines()]


def test_an_event_is_one_line_of_json_of_known_fields_that_its_owner_alone_reads(tmp_path):
    with pytest.raises(ValueError, match="field text is no number"):
        write_event(tmp_path, "inbox_received", text="The key hangs behind the clock.")
    assert lines(tmp_path) == []
    with run_scope("r1"):
        write_event(tmp_path, "stage_finished", build_id="000002", stage="chunks", seconds=1.5)
    (line,) = lines(tmp_path)
    assert dt.datetime.fromisoformat(line.pop("time")).tzinfo == dt.UTC
    fields = {"stage": "chunks", "seconds": 1.5}
    assert line == {"level": "info", "run_id": "r1", "build_id": "000002", "event": "stage_finished", "fields": fields}
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert log_files(tmp_path)[0].stat().st_mode & 0o777 == 0o600


def test_an_observed_block_writes_its_seconds_or_the_type_of_its_error_and_not_the_message(tmp_path):
    with observed(tmp_path, "gate", "000001") as event:
        event |= {"status": "failed", "build_id": "000002"}
    with pytest.raises(KeyError), observed(tmp_path, "stage", stage="facts"):
        raise KeyError("a secret")
    gate, stage = lines(tmp_path)
    assert (gate["event"], gate["level"], gate["build_id"]) == ("gate_finished", "warning", "000002")
    assert (stage["event"], stage["level"], stage["fields"]["error"]) == ("stage_failed", "error", "KeyError")
    assert "secret" not in json.dumps(stage) and gate["fields"]["seconds"] >= 0


def test_a_file_is_closed_when_it_is_full_and_when_its_day_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "MAX_FILE_BYTES", 400)
    for _ in range(4):
        write_event(tmp_path, "a", rows=1)
    names = [p.name for p in log_files(tmp_path)]
    assert names == [f"events-{TODAY}-001.jsonl", "events.jsonl"]
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    os.utime(log_files(tmp_path)[-1], (yesterday.timestamp(),) * 2)
    write_event(tmp_path, "b")
    assert [p.name for p in log_files(tmp_path)] == [f"events-{yesterday.date()}-001.jsonl", *names]
    assert sorted(e.event for e in read_events(tmp_path)) == ["a"] * 4 + ["b"]


def test_closed_files_go_by_age_and_then_the_oldest_by_size(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for days, number in ((40, 1), (3, 1), (2, 1), (2, 2)):
        (folder / f"events-{TODAY - dt.timedelta(days=days)}-{number:03d}.jsonl").write_text("x" * 100)
    (folder / "events.jsonl").write_text("x" * 1000)
    removed = files_to_remove(tmp_path, LogPolicy(30, 200), TODAY)
    assert [p.name[7:17] for p in removed] == [str(TODAY - dt.timedelta(days=d)) for d in (40, 3)]
    assert files_to_remove(tmp_path, LogPolicy(60, 400), TODAY) == []


def test_the_policy_is_read_from_the_environment(monkeypatch):
    assert log_policy() == LogPolicy(30, 64 * 2**20)
    monkeypatch.setenv("PALIMPSEST_LOG_DAYS", "7")
    monkeypatch.setenv("PALIMPSEST_LOG_MIB", "2")
    assert log_policy() == LogPolicy(7, 2 * 2**20)
    monkeypatch.setenv("PALIMPSEST_LOG_DAYS", "soon")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_LOG_DAYS: 'soon' must be a whole number, 1 to 3,650"):
        log_policy()


def test_events_are_selected_by_run_time_and_level_and_half_lines_are_skipped(tmp_path):
    with run_scope() as first, run_scope("other") as inner:
        write_event(tmp_path, "a")
    with run_scope() as second:
        write_event(tmp_path, "b", level="warning")
        write_event(tmp_path, "c", level="error")
    assert first == inner != second, "scopes inside a run keep its id"
    with log_files(tmp_path)[0].open("a") as f:
        f.write('{"time": "2026-')
    assert [e.event for e in read_events(tmp_path, level="warning")] == ["b", "c"]
    assert [e.event for e in read_events(tmp_path, run_id=second)] == ["b", "c"]
    assert read_events(tmp_path, since=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)) == []


def test_threads_write_whole_lines(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: write_event(tmp_path, "a", rows=n), range(200)))
    assert len(read_events(tmp_path)) == 200


def test_a_home_that_cannot_be_written_gets_no_log_and_nothing_fails(tmp_path):
    write_event(tmp_path / "none", "a")
    assert not (tmp_path / "none").exists()
    (tmp_path / "logs").write_text("a file")
    write_event(tmp_path, "a")
    assert read_events(tmp_path / "none") == []


def test_lines_are_erased_from_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "MAX_FILE_BYTES", 400)
    for name in ("chats", "notes", "chats", "notes"):
        write_event(tmp_path, "stage_finished", collection=name)
    assert erase_events(tmp_path, lambda found: [i for i, line in enumerate(found) if "chats" in line]) == 2
    assert [e.fields["collection"] for e in read_events(tmp_path)] == ["notes", "notes"]
    assert {p.stat().st_mode & 0o777 for p in log_files(tmp_path)} == {0o600}
