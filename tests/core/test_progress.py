"""What is shown while something takes long."""

import os
import pty
import sys
import time

from palimpsest.core.files import logged_to, progress, say


def test_a_bar_is_drawn_at_a_terminal_before_there_is_a_rate():
    code = """
import time
from palimpsest.core.files import progress
with progress("embedding", 3, "texts") as advance:
    time.sleep(0.3)
    advance(1)
"""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # Linux: the other end is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown.decode()
    assert b"embedding" in shown and b"0/s" in shown


def test_a_line_is_written_once_something_is_done(monkeypatch, capsys):
    monkeypatch.setattr("palimpsest.core.files._LINE_EVERY_S", 0.0)
    with progress("fetching", 2, "MB") as advance:
        advance(0)
        assert capsys.readouterr().err == ""
        advance(1)
    assert capsys.readouterr().err.startswith("fetching: 1 of 2 MB, ")


def test_a_log_has_what_is_said_and_a_line_where_nothing_was_said_for_long(monkeypatch):
    monkeypatch.setattr("palimpsest.core.files._LINE_EVERY_S", 0.05)
    lines: list[str] = []
    with logged_to(lines.append, "index"):
        say("stage index")
        time.sleep(0.5)
    assert {"stage index", "index: 0 s so far"} <= set(lines)
    number = len(lines)
    say("stage published")
    time.sleep(0.2)
    assert len(lines) == number
