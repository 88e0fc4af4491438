"""Failures of the machine in one line: a full disk, a home that cannot be read or written, a run that was stopped."""

from palimpsest.core.errors import ComponentFailed, PalimpsestError

_FULL = ("No space left on device", "disk is full", "Disk quota exceeded", "File too large")
_IO_ERRORS = ("disk I/O error", "Invalid thrift: transport error")  # SQLite's, and of Parquet that cannot be ended
_READ_ONLY = ("Read-only file system", "readonly database")
_DENIED = ("Permission denied", "Operation not permitted")
_STOPPED = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")

STOPPED = "stopped; what was finished is kept, and what was published stays; run again to finish"


def fault_of(error: BaseException) -> PalimpsestError | None:
    """Returns a failure of the machine as an error with its fix; None where the failure is another.

    Libraries wrap such failures in other errors, so they are recognized by the operating system's words in the message.
    """
    return fault_in(f"{type(error).__name__}: {error}")


def fault_in(message: str) -> PalimpsestError | None:
    """Returns the same for the message of a failure: exit code 2 for what this user may not do, 3 for the others."""
    detail = " ".join(message.split())[:160]
    if any(words in message for words in _FULL):
        return ComponentFailed(f"the disk is full; free space and run again, what was published stays ({detail})")
    if any(words in message for words in _IO_ERRORS):
        return ComponentFailed(
            f"the disk is full or fails; free space and run again, what was published stays ({detail})"
        )
    if any(words in message for words in _READ_ONLY):
        return PalimpsestError(f"the home cannot be written: read-only; name a writable --home ({detail})")
    if any(words in message for words in _DENIED):
        return PalimpsestError(
            "not readable or writable for this user; run it as the user who owns the home, or name another --home "
            f"({detail})"
        )
    if any(words in message for words in _STOPPED):
        return ComponentFailed(STOPPED)
    return None
