"""Builds of a home by its service: every so often, where something was sent or changed since the last one."""

import asyncio
import datetime as dt
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TextIO

from anyio.to_thread import run_sync
from typing_extensions import TypedDict

from palimpsest.core.files import published_build_id
from palimpsest.core.ids import content_id
from palimpsest.core.setting_layers import FILES_VARIABLE
from palimpsest.serve.events import Event, Rooms
from palimpsest.serve.settings import is_loopback
from palimpsest.store.home import Home, make_service_folder
from palimpsest.store.working_copy import working_copy

DEFAULT_MINUTES = 10
LOOK_S = 2.0
_END_S = 20.0
_LOG = logging.getLogger(__name__)

Outcome = Literal["published", "unchanged", "refused", "failed"]
"""Of a build: `refused` by the gate; `unchanged`: there was nothing to build."""
_REFUSED = 1
"""The exit code of a build that the gate refused: the same sources would be refused again."""


class LastBuild(TypedDict):
    """A build that has ended, with times in ISO 8601."""

    outcome: Outcome
    exit_code: int
    started_at: str
    ended_at: str
    build_id: str


State = Literal["off", "waiting", "running"]


class BuildsStatus(TypedDict):
    """How often the service builds (`every_minutes`; 0 never), what it does now, and its last build."""

    every_minutes: float
    state: State
    last: LastBuild | None


def default_minutes(home: Home, host: str) -> float:
    """Returns how often a service builds where nobody says it: never where others build, or the extra is missing.

    Others build a home on object storage, and one that is served to other machines.
    """
    is_own = is_loopback(host) and working_copy(home.path) is None
    return DEFAULT_MINUTES if is_own and find_spec("dagster") else 0


@dataclass
class ScheduledBuilds:
    """Runs `palimpsest build`, one at a time, in a process of its own; what it prints is in `build.log`.

    The first build of a home begins as soon as something was sent to it.

    Attributes:
        home: the home.
        rooms: get a BUILD event when a build begins, and when it ends without a publication.
        every_minutes: from the end of a build to the next; 0 means never.
        max_cost: of each build; see `BuildTerms`.
        graph: load what is published into Neo4j, too.
    """

    home: Home
    rooms: Rooms
    every_minutes: float = 0
    max_cost: float | None = None
    graph: bool = False
    _last: LastBuild | None = None
    _is_running: bool = False
    _built: str = ""
    _next_s: float = field(default_factory=time.monotonic)

    def status(self) -> BuildsStatus:
        """Returns what it does."""
        state: State = "running" if self._is_running else "waiting" if self.every_minutes else "off"
        return {"every_minutes": self.every_minutes, "state": state, "last": self._last}

    async def run(self) -> None:
        """Builds again and again, until it is cancelled."""
        if not self.every_minutes:
            return
        if published_build_id(self.home.path) is not None:
            self._next_s += self.every_minutes * 60
        while True:
            await asyncio.sleep(LOOK_S)
            if time.monotonic() < self._next_s:
                continue
            try:
                await self._build_what_changed()
            except Exception as e:  # one failure must not end the schedule
                _LOG.error("build", exc_info=e)
                self._next_s = time.monotonic() + self.every_minutes * 60

    async def _build_what_changed(self) -> None:
        state = await run_sync(_state_of_inputs, self.home)
        if state == self._built or not state:
            return
        started, before = _now(), published_build_id(self.home.path)
        self._is_running = True
        self.rooms.send_all(Event("BUILD", {"state": "started", "build_id": before or ""}))
        try:
            code = await self._run_child()
        finally:
            self._is_running = False
            self._next_s = time.monotonic() + self.every_minutes * 60
        after = published_build_id(self.home.path) or ""
        outcome = _outcome(code, is_new=after != (before or ""))
        self._last = LastBuild(outcome=outcome, exit_code=code, started_at=started, ended_at=_now(), build_id=after)
        if outcome != "failed":
            self._built = state
        if outcome in ("failed", "refused"):
            _LOG.error("build %s, exit code %d; see %s", outcome, code, _log_path(self.home))
        if outcome != "published":  # the watch sends that, whoever publishes
            self.rooms.send_all(Event("BUILD", {"state": outcome, "build_id": after}))

    async def _run_child(self) -> int:
        """Builds in a process of its own and returns its exit code; cancelled, it ends the process first."""
        options = ["--home", str(self.home.path.resolve()), "--allow-rejects", *(["--graph"] if self.graph else [])]
        options += [] if self.max_cost is None else ["--max-cost", str(self.max_cost)]
        with _open_log(self.home) as log:
            child = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "palimpsest.cli.main", "build", *options],
                env=os.environ | {FILES_VARIABLE: "off"},  # the settings of this process, from whichever layer
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            while (code := child.poll()) is None:
                await asyncio.sleep(0.2)
        finally:
            if child.poll() is None:
                _end(child)
        return code


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _outcome(code: int, *, is_new: bool) -> Outcome:
    if code == _REFUSED:
        return "refused"
    if is_new:  # some collection may still have failed
        return "published"
    return "failed" if code else "unchanged"


def _log_path(home: Home) -> Path:
    return make_service_folder(home.path) / "build.log"


def _open_log(home: Home) -> TextIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    return os.fdopen(os.open(_log_path(home), flags, 0o600), "w")


def _state_of_inputs(home: Home) -> str:
    """Returns a hash that changes with the sources, the inbox and the decisions; empty where there is nothing to build.

    Files are not read: their names, sizes and times are what it is of.
    """
    folders = home.sources
    if not folders:
        return ""
    roots = [*folders.values(), home.inbox, home.web]
    lines = sorted(line for root in roots for line in _files(root))
    return content_id("inputs", *folders, *lines, *_files(home.decisions))


def _files(root: Path) -> Iterator[str]:
    paths = [root] if root.is_file() else (Path(at, name) for at, _, names in os.walk(root) for name in names)
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        yield f"{path}\0{found.st_size}\0{found.st_mtime_ns}"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
