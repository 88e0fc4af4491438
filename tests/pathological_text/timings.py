"""Times patterns and functions on slow texts, in a worker process that is ended where one takes too long."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

import psutil

from tests.pathological_text.patterns import FoundPattern
from tests.pathological_text.texts import SlowText

_WORKER = "tests.pathological_text.worker"
_ENDED = float("inf")
_MOST_ENDED = 3
_MOST_SECONDS = 1.0
_LARGEST_GROWTH = 15.0  # from the small to the large size, which is ten times as long
_LEAST_SECONDS = 0.004  # of the small size: below it the clock decides


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one method of a pattern, or one function, takes on one text.

    Attributes:
        where: of the pattern; or the function's name.
        method: of the pattern; empty for a function.
        text: what it was applied to.
        small_s: seconds of processor time at the small size.
        large_s: the same at the large size; infinite where it was ended at the limit.
        most_s: what the large size may take.
    """

    where: str
    method: str
    text: SlowText
    small_s: float
    large_s: float
    most_s: float = _MOST_SECONDS

    @property
    def is_slow(self) -> bool:
        """Whether the large size takes longer than it may, or many times as long as the small one."""
        return self.large_s > self.most_s or self.large_s > _LARGEST_GROWTH * max(self.small_s, _LEAST_SECONDS)


class Worker:
    """A worker process, started when it is needed and again after it was ended.

    Attributes:
        limit_s: seconds of processor time that one text may take.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def seconds(self, task: FoundPattern | str, method: str, texts: Sequence[SlowText], size: int) -> list[float]:
        """Returns the seconds of processor time for each text; infinite where the limit ended it.

        Texts after the third that was ended are not tried: the list is shorter then.

        Args:
            task: a pattern; or the name of a function.
            method: of the pattern.
            texts: what it is applied to.
            size: characters of each text.
        """
        found: list[float] = []
        while len(found) < len(texts) and found.count(_ENDED) < _MOST_ENDED:
            self._ask(task, method, texts[len(found) :], size)
            while len(found) < len(texts) and (seconds := self._next_seconds()) is not None:
                found.append(seconds)
            if len(found) < len(texts):
                found.append(_ENDED)
                self._end()
        return found

    def _next_seconds(self) -> float | None:
        """Returns the seconds of the next text, or none where it has had the limit, counted in its own time."""
        assert self._process
        used = psutil.Process(self._process.pid)
        start = used.cpu_times().user
        while used.cpu_times().user - start < self.limit_s:
            try:
                return float(self._lines.get(timeout=self.limit_s))
            except queue.Empty:
                continue
        return None

    def _ask(self, task: FoundPattern | str, method: str, texts: Iterable[SlowText], size: int) -> None:
        """Sends a task and waits until what it needs is imported.

        Raises:
            RuntimeError: the worker process ended by itself.
        """
        if self._process is None:
            self._start()
        if isinstance(task, str):
            what: dict[str, object] = {"engine": "function", "pattern": task}
        else:
            what = {"engine": task.engine, "pattern": task.pattern, "flags": task.flags, "is_bytes": task.is_bytes}
        parts = [(t.head, t.unit, t.end) for t in texts]
        assert self._process and self._process.stdin
        most_chars = None if isinstance(task, str) else task.most_chars
        size = min(size, most_chars or size)
        self._process.stdin.write(json.dumps({**what, "method": method, "size": size, "texts": parts}) + "\n")
        self._process.stdin.flush()
        if not self._lines.get():
            raise RuntimeError(f"the worker process ended: {task}")

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()

    @staticmethod
    def _read(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
        assert process.stdout
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
