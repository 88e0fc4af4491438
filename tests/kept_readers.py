"""Processes that read sources, kept between the builds of a test process: each takes a third of a second to start."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from palimpsest.core.ids import JsonValue
from palimpsest.sources.worker_pool import WorkerProcess
from palimpsest.store.collection_config import Limits

_Key = tuple[str, ...]
_idle: dict[_Key, list["subprocess.Popen[str]"]] = defaultdict(list)
# A worker dies with the thread that started it: this one lives as long as the tests.
_starter = ThreadPoolExecutor(1, thread_name_prefix="readers")


class KeptWorkerProcess(WorkerProcess):
    """A worker process whose end leaves it to the next with the same limits, unless a request failed or still runs."""

    def __init__(self, module: str, limits: Limits, arguments: Sequence[str] = ()) -> None:
        super().__init__(module, limits, arguments)
        paths = (sys.executable, str(Path.cwd()), os.environ.get("HOME", ""), os.environ.get("PATH", ""))
        self._key = (module, limits.model_dump_json(), json.dumps(arguments), *paths)
        self._is_idle = False

    def _start(self) -> "subprocess.Popen[str]":
        while kept := _idle[self._key]:
            self._process = kept.pop()
            if self._process.poll() is None:
                return self._process
        return _starter.submit(super()._start).result()

    def _send(self, request: JsonValue, seconds: float) -> dict[str, Any]:
        self._is_idle = False
        response = super()._send(request, seconds)
        self._is_idle = not response.get("again")
        return response

    def stop(self) -> None:
        if self._is_idle:
            self._is_stopped = True
        else:
            super().stop()

    def end(self) -> None:
        if self._is_idle and (process := self._process) and process.poll() is None:
            self._process, self._is_idle = None, False
            _idle[self._key].append(process)
        else:
            super().end()


def end_kept() -> None:
    """Ends the processes that are kept."""
    for process in (p for kept in _idle.values() for p in kept):
        process.kill()
        process.communicate()
    _idle.clear()
