"""A failing machine is one line with an exit code: full disk, read-only home, Ctrl-C, however a library wraps it."""

import errno
import signal
import sqlite3
import sys

import pytest

from palimpsest.cli import main as cli
from palimpsest.cli import review
from palimpsest.core.errors import fault_of
from palimpsest.store.home import Home


class DagsterExecutionInterruptedError(BaseException):
    """As Dagster's: no Exception."""


@pytest.fixture(autouse=True)
def _interrupts():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "h/x"), 3, "the disk is full; free space and run again"),
        (OSError(errno.EFBIG, "File too large"), 3, "the disk is full"),
        (sqlite3.OperationalError("database or disk is full"), 3, "the disk is full"),
        (sqlite3.OperationalError("disk I/O error"), 3, "the disk is full or fails"),
        (RuntimeError("parquet: File out of specification: Invalid thrift: transport error"), 3, "is full or fails"),
        (OSError(errno.EROFS, "Read-only file system", "h"), 2, "read-only; name a writable --home"),
        (PermissionError(errno.EACCES, "Permission denied", "h/x"), 2, "not readable or writable for this user"),
        (PermissionError(errno.EPERM, "Operation not permitted", "h/x"), 2, "run it as the user who owns the home"),
        (sqlite3.OperationalError("attempt to write a readonly database"), 2, "read-only"),
        (KeyboardInterrupt(), 3, "stopped; what was finished is kept"),
        (DagsterExecutionInterruptedError(), 3, "stopped"),
        (ZeroDivisionError("division by zero"), 3, "ZeroDivisionError: division by zero"),
    ],
)
def test_every_failure_is_one_line_with_its_exit_code(monkeypatch, capsys, error, code, message):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(review, "_decide", fails)
    monkeypatch.setattr(sys, "argv", ["palimpsest", "undo", "r1"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    stderr = capsys.readouterr().err.lstrip()
    assert ended.value.code == code
    assert stderr.startswith("palimpsest: ") and message in stderr and len(stderr.splitlines()) == 1
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN, "a second Ctrl-C adds no traceback"


def test_another_failure_is_no_fault_of_the_machine():
    assert fault_of(ValueError("vectors of shape (1, 2)")) is None


def test_a_limit_on_file_size_is_reported_as_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    home = Home(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError) as real:
            home.remember_sources({"notes": tmp_path / "a" / "long" / "name"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fault = fault_of(real.value)
    assert fault is not None and fault.exit_code == 3
