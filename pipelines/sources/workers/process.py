"""The worker process: reads sources for `pool`, one line of JSON on stdin and one on stdout for each source."""

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.records.scope import Scope
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_OUT_OF_MEMORY = "too large: reading it needs more memory than a reader may use; split it"
_WALL_TIME_FACTOR = 4  # of the processor time that a source may use: a busy machine must not reject it
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Reads sources until stdin ends; the kernel ends it when a source takes too long or the build dies."""
    requests, responses = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what a library prints must not mix with the responses
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build ends its workers itself
    limits = Limits.model_validate_json(sys.argv[1])
    dates = cast(DateOrder, sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else None
    defaults = Scope(*json.loads(sys.argv[3])) if len(sys.argv) > 3 else Scope()
    with suppress(AttributeError, OSError):  # Linux only; elsewhere an orphan ends with its source
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.max_memory_bytes, limits.max_memory_bytes))
    print("ready", file=responses, flush=True)
    for request in requests:
        _set_alarm(limits.max_seconds)
        path, uri = json.loads(request)
        print(_read(Path(path), uri, limits, dates, defaults), file=responses, flush=True)
        _set_alarm(0)


def _set_alarm(seconds: float) -> None:
    """Makes the kernel end this process after so much processor time; a hanging library would run no handler."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * _WALL_TIME_FACTOR)


def _read(path: Path, uri: str, limits: Limits, dates: DateOrder | None, defaults: Scope) -> str:
    """Returns a line of JSON: the documents and problems of a source, or the reason of its rejection.

    `again` says that a source may fail because of the memory that sources before it took.
    """
    response: JsonObject
    try:
        extraction = read_source(path, uri, limits, dates, defaults)
        response = {
            "documents": [d.to_json() for d in extraction.documents],
            "problems": extraction.problems,
            "left_out": dict(extraction.left_out),
        }
        return json.dumps(response)
    except Rejected as e:
        response = {"reason": str(e), "again": isinstance(e.__cause__, MemoryError)}
    except MemoryError:
        response = {"reason": _OUT_OF_MEMORY, "again": True}
    return json.dumps(response)


if __name__ == "__main__":
    main()
