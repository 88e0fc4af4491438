"""A worker process: started when it is needed, sent one request at a time, and ended where one takes too much.

Process pools (multiprocessing, Pebble 5.2) were tried and not used: their workers inherit the environment, so that
`/proc/self/environ` shows a build's secrets to whatever the file makes a parser open; they import the caller's main
module; a daemon cannot have them; and they unpickle here what comes from a process that parsed a hostile file.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, cast

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.store.limits import Limits

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


class WorkerProcess:
    """A process that answers requests within limits; `serve_requests` is its other side."""

    def __init__(self, module: str, limits: Limits, arguments: Sequence[str] = ()) -> None:
        """Prepares it.

        Args:
            module: which is run.
            limits: of each request: time, and memory of the process.
            arguments: of the module, after the limits.
        """
        self._module, self._limits, self._arguments, self._is_stopped = module, limits, arguments, False
        self._process: subprocess.Popen[str] | None = None

    def request(self, request: JsonValue, seconds: float | None = None) -> JsonObject:
        """Returns the response to a request, or `reason`, why there is none.

        A request that ends the process, or takes all its memory, may do so because of requests before it: it is sent
        once more to a new process.

        Args:
            request: what the module takes.
            seconds: of processor time that it may use; None means the limit.

        Raises:
            ComponentFailed: the process cannot be started.
        """
        seconds = seconds or self._limits.max_seconds
        response = self._send(request, seconds)
        if response.get("again") and not self._is_stopped:
            self.end()
            response = self._send(request, seconds)
        return response

    def _send(self, request: JsonValue, seconds: float) -> JsonObject:
        process = self._process or self._start()
        requests, responses = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        with suppress(BrokenPipeError):  # it ended between two requests: there is no response
            requests.write(json.dumps([seconds, request]) + "\n")
            requests.flush()
        if (line := responses.readline()).endswith("\n"):
            response: JsonObject = json.loads(line)
            return response
        self.end()
        code = process.returncode
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            is_limit = seconds >= self._limits.max_seconds
            fix = f"split or simplify it{', or raise limits.max_seconds' if is_limit else ''}"
            return {"reason": f"timed out: reading took longer than {seconds:.3g} seconds; {fix}"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        reason = f"it ended the reader process ({name}): damaged, hostile or too large; export it again or split it"
        return {"reason": reason, "again": True}

    def _start(self) -> subprocess.Popen[str]:
        environment = {k: v for k in _ENVIRONMENT if (v := os.environ.get(k)) is not None}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # -P: a docx.py in the folder where the build was started is not the library.
        command = [sys.executable, "-P", "-m", self._module, self._limits.model_dump_json(), *self._arguments]
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603
                command,
                env=environment,
                encoding="ascii",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            if cast(IO[str], self._process.stdout).readline():
                return self._process
        raise ComponentFailed("a reader process does not start; free memory or processes, or run palimpsest doctor")

    def stop(self) -> None:
        """Ends the process, also while another thread waits for its response; it is not started again."""
        self._is_stopped = True
        if process := self._process:
            process.kill()

    def end(self) -> None:
        """Ends the process; the next request starts it again."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()
