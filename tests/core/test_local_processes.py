"""Chunks are computed by several processes where there are many, with the results of one."""

import os
import signal
import time

import polars as pl
import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.parallel import MIN_CHUNKS, FrameRows, map_chunks

MANY = range(10 * MIN_CHUNKS)


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")


def test_results_are_in_order_whichever_process_computed_them():
    found = list(map_chunks(lambda chunk: (os.getpid(), [n * n for n in chunk]), MANY, 10, "squares"))
    assert [n for _, squares in found for n in squares] == [n * n for n in MANY]
    assert os.getpid() not in {pid for pid, _ in found}


def test_few_items_and_one_processor_need_no_process(monkeypatch):
    assert set(map_chunks(lambda _: os.getpid(), MANY[: MIN_CHUNKS * 10 - 1], 10, "squares")) == {os.getpid()}
    assert list(map_chunks(len, [], 10, "squares")) == []
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert set(map_chunks(lambda _: os.getpid(), MANY, 10, "squares")) == {os.getpid()}


def test_a_process_that_the_system_ends_is_one_clear_line():
    def end(chunk):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ComponentFailed, match="squares: a process of this build was ended from outside"):
        list(map_chunks(end, MANY, 10, "squares"))


def test_an_error_of_the_work_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        list(map_chunks(lambda chunk: 1 // chunk[0], MANY, 10, "squares"))


def test_processes_begin_before_the_first_result_is_read_and_serve_two_callers(tmp_path):
    def touch(chunk):
        (tmp_path / str(chunk[0])).touch()
        return chunk[0]

    first, second = (map_chunks(touch, range(start, start + 80), 10, "touch") for start in (0, 100))
    deadline = time.monotonic() + 60
    while not (tmp_path / "100").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (next(second), list(first), list(second)) == (100, [*range(0, 80, 10)], [*range(110, 180, 10)])


def test_rows_of_a_frame_are_chunks_of_tuples():
    rows = FrameRows(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}))
    assert list(map_chunks(list, rows, 2, "list")) == [[(1, "x"), (2, "y")], [(3, None)]]
    assert (rows[2], len(rows), next(iter(rows))) == ((3, None), 3, (1, "x"))
