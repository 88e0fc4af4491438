"""The process that reads sources for `isolate`: a line of JSON in on stdin and one out on stdout for each source."""

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

OUT_OF_MEMORY = "too large: reading it needs more memory than a reader may use; split it"
_WALL = 4  # times the processor time that a source may use: a busy machine must not reject it
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Reads sources until stdin ends. The kernel ends it when a source takes too long or the build dies."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what a library prints must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build that started this one ends it
    limits = Limits.model_validate_json(sys.argv[1])
    dates = cast(DateOrder, sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else None
    with suppress(AttributeError, OSError):  # Linux only; elsewhere an orphan ends with its source
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.max_memory_bytes, limits.max_memory_bytes))
    print("ready", file=answers, flush=True)
    for order in orders:
        _alarm(limits.max_seconds)
        path, uri = json.loads(order)
        print(_answer(Path(path), uri, limits, dates), file=answers, flush=True)
        _alarm(0)


def _alarm(seconds: float) -> None:
    """Lets the kernel end this process after so much processor time; no handler: a hanging library runs none."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * _WALL)


def _answer(path: Path, uri: str, limits: Limits, dates: DateOrder | None) -> str:
    answer: dict[str, Any]
    try:
        extraction = read_source(path, uri, limits, dates)
        answer = {"documents": [d.to_json() for d in extraction.documents], "problems": extraction.problems}
        return json.dumps(answer)
    except Rejected as e:
        answer = {"reason": str(e), "again": isinstance(e.__cause__, MemoryError)}
    except MemoryError:
        answer = {"reason": OUT_OF_MEMORY, "again": True}
    return json.dumps(answer)


if __name__ == "__main__":
    main()
