"""Identity of processes on this machine: a process id alone may have been given to another process since."""

import os

import psutil


def process_started(pid: int) -> str | None:
    """Returns when a process began, in clock ticks since the machine booted; None where it does not run.

    Ticks since boot, as Linux counts them in /proc, do not change when the machine's clock is set.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return str(round((process.create_time() - psutil.boot_time()) * os.sysconf("SC_CLK_TCK")))
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:  # another user's: it runs, and cannot be distinguished from one that had its id before
        return "running"
