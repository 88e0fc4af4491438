"""Identity of processes on this machine: a process id alone may have been given to another process since."""

import os

import psutil


def process_started(pid: int) -> str | None:
    """Returns when a process began, in clock ticks since the machine booted; None where it does not run.

    Ticks since boot, as Linux counts them in /proc, do not change when the machine's clock is set.
    """
    created_s = process_created_s(pid)
    if not created_s:
        return None if created_s is None else "running"
    return str(round((created_s - psutil.boot_time()) * os.sysconf("SC_CLK_TCK")))


def process_created_s(pid: int) -> float | None:
    """Returns when a process began, in seconds since 1970; None where it does not run, 0 where nobody may know.

    Another user's process runs, and cannot be distinguished from one that had its id before.
    """
    try:
        process = psutil.Process(pid)
        is_over = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return None if is_over else process.create_time()
    except psutil.NoSuchProcess:
        return None
    except psutil.AccessDenied:
        return 0.0
