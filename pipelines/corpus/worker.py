"""The process that reads sources for `isolate`: paths come in on stdin, JSON goes out on what was stdout."""

import json
import os
import resource
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.corpus.limits import Limits
from pipelines.corpus.read import read_source
from pipelines.errors import Rejected

LENGTH = struct.Struct(">Q")
OUT_OF_MEMORY = "too large: reading it needs more memory than a reader may use; split it"
_GRACE_SECONDS = 15


def send(pipe: BinaryIO, message: dict[str, Any]) -> None:
    """Writes one message; text with lone surrogates (file names) survives."""
    data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> dict[str, Any] | None:
    """Returns the next message, null at the end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    message: dict[str, Any] = json.loads(pipe.read(LENGTH.unpack(head)[0]).decode("utf-8", "surrogatepass"))
    return message


def main() -> None:
    """Reads sources until stdin ends. A source that takes all memory ends the process after its answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the build that started this one ends it
    orders = sys.stdin.buffer
    first = receive(orders)
    if first is None:
        return
    limits = Limits.model_validate(first)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.max_memory_bytes, limits.max_memory_bytes))
    send(answers, {"ready": True})
    while (order := receive(orders)) is not None:
        # Should the build die while a library hangs here, the alarm ends this process.
        signal.alarm(int(limits.max_seconds) + _GRACE_SECONDS)
        try:
            answer: dict[str, Any]
            extraction = read_source(Path(order["path"]), order["uri"], limits)
            answer = {"documents": [d.to_json() for d in extraction.documents], "problems": extraction.problems}
        except Rejected as e:
            answer = {"reason": str(e), "memory": isinstance(e.__cause__, MemoryError)}
        except MemoryError:
            answer = {"reason": OUT_OF_MEMORY, "memory": True}
        signal.alarm(0)  # writing waits for as long as the build does something else
        send(answers, answer)


if __name__ == "__main__":
    main()
