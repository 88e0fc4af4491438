"""The other side of `worker_process`: answers one line of JSON on stdin with one on stdout, within limits."""

import ctypes
import json
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.store.collection_config import Limits

_OUT_OF_MEMORY = "too large: reading it needs more memory than a reader may use; split it"
_WALL_TIME_FACTOR = 4  # of the processor time that a request may use: a busy machine must not reject it
_PR_SET_PDEATHSIG = 1


def serve_requests(limits: Limits, answer: Callable[[Any], JsonObject]) -> None:
    """Answers requests until stdin ends; the kernel ends the process when one takes too long or its parent dies.

    A line is the seconds that a request may take, and the request.

    Args:
        limits: memory of the process.
        answer: returns the response to a request; raises Rejected where there is none.
    """
    requests, responses = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # what a library prints must not mix with the responses
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    with suppress(AttributeError, OSError):  # Linux only; elsewhere an orphan ends with its request
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.max_memory_bytes, limits.max_memory_bytes))
    print("ready", file=responses, flush=True)
    for line in requests:
        seconds, request = json.loads(line)
        _set_alarm(seconds)
        print(_response(request, answer), file=responses, flush=True)
        _set_alarm(0)


def _set_alarm(seconds: float) -> None:
    """Makes the kernel end this process after so much processor time; a hanging library would run no handler."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * _WALL_TIME_FACTOR)


def _response(request: Any, answer: Callable[[Any], JsonObject]) -> str:
    """Returns a line of JSON: the response, or the `reason` why there is none.

    `again` says that a request may fail because of the memory that requests before it took.
    """
    response: JsonObject
    try:
        return json.dumps(answer(request))
    except Rejected as e:
        response = {"reason": str(e), "again": isinstance(e.__cause__, MemoryError)}
    except MemoryError:
        response = {"reason": _OUT_OF_MEMORY, "again": True}
    return json.dumps(response)
