"""The log of the service: what happened and where, and never what anybody wrote.

Texts, questions, tokens and names reach a log through messages that are put together from them and through exceptions
that quote what they could not use. So only our own log calls are written with their words, and their arguments are
chosen; of every other call, and of every exception, the kind and the place in the code.
"""

import logging
import sys
import threading
import time
import traceback
from types import TracebackType

from palimpsest.core.errors import ComponentFailed, DamagedFile

_OWN = "palimpsest"
_SAFE = (ComponentFailed, DamagedFile)
"""Errors about the home and its servers: their messages name files and addresses of who runs the service."""
_FRAMES = 12


class _Formatter(logging.Formatter):
    """One line for a record, then one for each frame of an exception and what it was raised from."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        is_own = record.name.partition(".")[0] == _OWN
        what = record.getMessage() if is_own else f"{record.module}:{record.lineno}"
        error = record.exc_info[1] if record.exc_info else None
        return "\n".join([f"{stamp} {record.levelname} {record.name}: {what}", *(error_lines(error) if error else ())])


def error_lines(error: BaseException) -> list[str]:
    """Returns the kind and the place of an exception and of those that it was raised from, without their words."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        words = f": {current}" if isinstance(current, _SAFE) else ""
        lines.append(f"  {type(current).__module__}.{type(current).__qualname__}{words}")
        for frame in traceback.extract_tb(current.__traceback__)[-_FRAMES:]:
            lines.append(f"    {frame.filename}:{frame.lineno} {frame.name}")
        current = current.__cause__ or current.__context__
    return lines


def log_without_contents(level: int = logging.WARNING) -> None:
    """Writes every log record and every uncaught exception of this process to stderr as above."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # it would print the arguments of a record that cannot be formatted
    root = logging.getLogger()
    root.handlers, root.level = [handler], level
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers, logger.propagate = [], True
    sys.excepthook = _write_uncaught
    threading.excepthook = lambda args: _write_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _write_uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _write_uncaught(kind: type[BaseException], error: BaseException | None, _: TracebackType | None) -> None:
    lines = error_lines(error) if error is not None else [f"  {kind.__qualname__}"]
    sys.stderr.write("\n".join(["uncaught exception", *lines]) + "\n")
