"""Processes of this machine, told apart from others that got the same number later."""

import os
from pathlib import Path


def process_started(pid: int) -> str | None:
    """Returns when a process began, as the system counts it; None where there is no such process."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return "running"
