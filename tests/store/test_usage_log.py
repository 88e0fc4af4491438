import datetime as dt
import json
import subprocess
import sys

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store import usage_log
from palimpsest.store.usage_log import UsageLog, keep_reads, usage_days

ANA, BEN = ("notes", "ana", ""), ("notes", "ben", "")
NOW = dt.datetime(2026, 5, 1, 12, 0, 30, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def log(home, *reads, when=NOW):
    """Returns the log of a home at a time, with reads that are not written yet."""
    made = UsageLog(home, 90, lambda: when)
    if reads:
        made.add(reads)
    return made


def in_file(home) -> bytes:
    path = home / "usage" / "reads.jsonl"
    return path.read_bytes() if path.exists() else b""


def rows(home):
    return [json.loads(line) for line in in_file(home).splitlines()]


def test_reads_are_found_by_scope_and_time_and_counted_in_their_scope(tmp_path):
    log(tmp_path, (ANA, "m1"), (ANA, "m1"), (BEN, "b1"), when=NOW - 3 * DAY).flush()
    now = log(tmp_path, (ANA, "m2"))
    assert now.accessed_since(ANA, NOW - 4 * DAY) == {"m1", "m2"}
    assert now.accessed_since(ANA, NOW - 3 * DAY) == {"m1", "m2"}, "a read of the same minute is not older"
    assert now.accessed_since(ANA, NOW - 2 * DAY) == {"m2"}
    assert now.accessed_since(BEN, NOW - 4 * DAY) == {"b1"}
    assert now.accessed_since(("notes", "x", ""), NOW) == frozenset()
    assert now.count_reads(ANA) == {"m1": 2, "m2": 1} and now.count_reads(BEN) == {"b1": 1}


def test_reads_are_written_in_batches_with_counts_and_without_names(tmp_path):
    log_ = log(tmp_path, *[(ANA, "m1"), (ANA, "m2")] * 3)
    assert not in_file(tmp_path)
    log_.flush()
    (row,) = rows(tmp_path)
    assert row["memories"] == {"m1": 3, "m2": 3} and row["time"] % 60 == 0 and b"ana" not in in_file(tmp_path)
    assert (tmp_path / "usage" / "reads.jsonl").stat().st_mode & 0o077 == 0
    log_.add((ANA, f"m{i}") for i in range(500))
    assert len(rows(tmp_path)) == 2, "a full batch is written at once"


def test_half_a_line_left_by_a_crash_is_skipped_and_hides_nothing(tmp_path):
    log(tmp_path, (ANA, "m1")).flush()
    with (tmp_path / "usage" / "reads.jsonl").open("ab") as file:
        file.write(b'{"time":1777,"scope":"abc","memo')
    assert log(tmp_path, (ANA, "m2")).accessed_since(ANA, NOW - DAY) == {"m1", "m2"}


def test_several_processes_append_without_loss(tmp_path):
    code = (
        "import sys, datetime as dt; from pathlib import Path; from palimpsest.store.usage_log import UsageLog\n"
        "log = UsageLog(Path(sys.argv[1]), 90, lambda: dt.datetime(2026, 5, 1, tzinfo=dt.UTC))\n"
        "for i in range(30): log.add([(('notes', 'ana', ''), f'{sys.argv[2]}-{i}')]); log.flush()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)]) for n in range(3)]
    assert [p.wait(120) for p in running] == [0, 0, 0]
    found = log(tmp_path).accessed_since(ANA, NOW - DAY)
    assert found == {f"{n}-{i}" for n in range(3) for i in range(30)}


def test_a_delete_keeps_the_reads_of_what_is_left_and_silences_readers_from_before(tmp_path):
    first = log(tmp_path)
    assert keep_reads(tmp_path, set()) == 0
    first.add([(ANA, "gone")])
    first.flush()
    assert not in_file(tmp_path), "before the first read, too"
    before = log(tmp_path, (ANA, "gone"), (ANA, "left"), (BEN, "b1"))
    before.flush()
    before.add([(ANA, "gone")])
    assert keep_reads(tmp_path, {"left", "b1"}) == 1
    before.flush()
    before.add([(ANA, "gone")])
    before.flush()
    assert b"gone" not in in_file(tmp_path)
    assert log(tmp_path, (ANA, "m3")).accessed_since(ANA, NOW - DAY) == {"left", "m3"}
    renewed = before.renewed()
    renewed.add([(ANA, "m4")])
    assert renewed.accessed_since(ANA, NOW - DAY) == {"left", "m3", "m4"}


def test_the_log_is_pruned_of_old_reads_and_merges_days(tmp_path, monkeypatch):
    for age in (100, 30, 30, 1):
        log(tmp_path, (ANA, f"m{age}"), when=NOW - age * DAY + dt.timedelta(minutes=age)).flush()
    monkeypatch.setattr(usage_log, "_MIN_COMPACT_BYTES", 0)
    log(tmp_path, (ANA, "m0")).flush()
    assert [row["memories"] for row in rows(tmp_path)] == [{"m30": 2}, {"m1": 1}, {"m0": 1}]


def test_a_home_that_cannot_be_written_counts_nothing_and_raises_nothing(tmp_path):
    (tmp_path / "usage").write_text("a file in place of the folder")
    log_ = log(tmp_path)
    log_.add([(ANA, "m1")])
    log_.flush()
    log_.add([(ANA, "m1")])
    assert log_.accessed_since(ANA, NOW - DAY) == frozenset()


def test_the_days_are_a_setting(monkeypatch):
    monkeypatch.delenv("PALIMPSEST_USAGE_DAYS", raising=False)
    assert usage_days() == 90
    monkeypatch.setenv("PALIMPSEST_USAGE_DAYS", "0")
    assert usage_days() == 0
    for wrong in ("-1", "x", "99999", "1.5"):
        monkeypatch.setenv("PALIMPSEST_USAGE_DAYS", wrong)
        with pytest.raises(PalimpsestError, match=r"PALIMPSEST_USAGE_DAYS: .* must be a whole number, 0 to 3,650"):
            usage_days()
