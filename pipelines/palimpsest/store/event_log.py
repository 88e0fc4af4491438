"""The event log of a home: what builds, deletes, the gate and the inbox did, one line of JSON an event.

`<home>/logs/events.jsonl` has time, level, run, build, event and fields. A field is a number or one of a few words
(`WORDS`): no id of a memory, no name of a user, no text and no message of an error is written. A file is closed at
8 MiB and at the end of a day (UTC); closed files are kept for $PALIMPSEST_LOG_DAYS and up to $PALIMPSEST_LOG_MIB.
A home that cannot be written gets no log, and nothing fails for it.
"""

import atexit
import datetime as dt
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from filelock import FileLock, Timeout

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import remove_lines, say
from palimpsest.core.ids import JsonObject

# OpenTelemetry spans, where OTEL_EXPORTER_OTLP_ENDPOINT names a collector; else they cost nothing.
#
# The SDK reads its other settings itself: OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES. A
# collector that does not answer delays no build: spans are sent by a thread of their own, and lost after its time
# limit.

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_FLUSH_MS = 5_000


@contextmanager
def span(name: str, fields: Mapping[str, int | float | str]) -> Iterator[None]:
    """Makes a span of the block, a child of the span around it; an error is recorded by its type and goes on.

    Args:
        name: of the span.
        fields: become its attributes at the end; the block may add to them.
    """
    tracer = _tracer() if os.environ.get(ENDPOINT, "").strip() else None
    if tracer is None:
        yield
        return
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        try:
            yield
        except BaseException as e:
            current.set_status(StatusCode.ERROR, type(e).__name__)  # its words may quote sources
            raise
        finally:
            current.set_attributes({f"palimpsest.{key}": value for key, value in fields.items()})


@cache
def _tracer() -> Any:
    """Returns the tracer of this process; None, with a warning, where the extra is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        say(f"warning: {ENDPOINT} is set, and no span is sent: pip install 'palimpsest-memory[telemetry]'")
        return None
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # a collector that is down is no news
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "palimpsest"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_FLUSH_MS / 1000)))
    atexit.register(provider.shutdown)
    return provider.get_tracer("palimpsest")


MAX_FILE_BYTES = 8 * 2**20
LEVELS = ("info", "warning", "error")
WORDS = ("cache", "collection", "error", "kind", "selectors", "stage", "status")
"""Fields that are words; all others are numbers."""
_MAX_WORD_CHARS = 200
_LOCK_WAIT_S = 2.0

Level: TypeAlias = Literal["info", "warning", "error"]
FieldValue: TypeAlias = int | float | str
Fields: TypeAlias = dict[str, FieldValue]


@dataclass(frozen=True)
class Event:
    """A line of the log; `run_id` is the same for all events of one command or one batch of Dagster runs."""

    time: dt.datetime
    level: Level
    run_id: str
    build_id: str
    event: str
    fields: Mapping[str, FieldValue]

    def to_json(self) -> JsonObject:
        """Returns the event as JSON values."""
        return {
            "time": self.time.isoformat(timespec="milliseconds"),
            "level": self.level,
            "run_id": self.run_id,
            "build_id": self.build_id,
            "event": self.event,
            "fields": dict(self.fields),
        }


@dataclass(frozen=True)
class LogPolicy:
    """How long closed files are kept, and how many bytes of them."""

    days: int
    max_bytes: int


def log_policy() -> LogPolicy:
    """Returns what the environment says of closed files, else 30 days and 64 MiB.

    Raises:
        PalimpsestError: a variable is no whole number in its range.
    """
    return LogPolicy(whole_number("PALIMPSEST_LOG_DAYS"), whole_number("PALIMPSEST_LOG_MIB") * 2**20)


_run: ContextVar[str] = ContextVar("palimpsest_run", default="")
_PROCESS_RUN = uuid.uuid4().hex[:12]


@contextmanager
def run_scope(run_id: str = "") -> Iterator[str]:
    """Yields the id of the run of all events inside: an outer scope's, else the given one, else a new one."""
    token = _run.set(_run.get() or run_id or uuid.uuid4().hex[:12])
    try:
        yield _run.get()
    finally:
        _run.reset(token)


def write_event(home: Path, event: str, *, level: Level = "info", build_id: str = "", **fields: FieldValue) -> None:
    """Appends an event.

    Args:
        home: the home's folder; nothing is written where it does not exist.
        event: what happened.
        level: `info`, `warning` or `error`.
        build_id: the build that it is about.
        **fields: numbers, and words by the names of `WORDS`.

    Raises:
        ValueError: a field is neither.
    """
    for name, value in fields.items():
        if isinstance(value, str) and name not in WORDS:
            raise ValueError(f"event {event}: field {name} is no number and none of {', '.join(WORDS)}")
    now = dt.datetime.now(dt.UTC)
    cut = {name: value[:_MAX_WORD_CHARS] if isinstance(value, str) else value for name, value in fields.items()}
    made = Event(now, level, _run.get() or _PROCESS_RUN, build_id, event, cut)
    line = json.dumps(made.to_json(), sort_keys=True).encode() + b"\n"
    if home.is_dir():
        with suppress(OSError, Timeout), _lock(home):
            _append(logs_folder(home), line, now)


@contextmanager
def observed(home: Path, what: str, build_id: str = "", **fields: FieldValue) -> Iterator[Fields]:
    """Writes `<what>_finished` with its seconds, or `<what>_failed` with the type of the error, which goes on.

    Where OpenTelemetry is configured, the block is a span with the same fields.

    Args:
        home: the home's folder.
        what: what is observed: `build`, `stage`, `gate`, `delete`.
        build_id: the build that it is about.
        **fields: of the event.

    Yields:
        The fields, to which the block may add; `build_id` where it is known later, `status: failed` for a warning.
    """
    found: Fields = dict(fields)
    started = time.perf_counter()
    try:
        with span(f"{what} {fields.get('stage', '')}".rstrip(), found):
            yield found
    except BaseException as e:
        found |= {"seconds": round(time.perf_counter() - started, 3), "error": type(e).__name__}
        _write_observed(home, f"{what}_failed", "error", build_id, found)
        raise
    found = {"seconds": round(time.perf_counter() - started, 3), **found}
    level: Level = "warning" if found.get("status") == "failed" else "info"
    _write_observed(home, f"{what}_finished", level, build_id, found)


def _write_observed(home: Path, event: str, level: Level, build_id: str, fields: Fields) -> None:
    known = str(fields.pop("build_id", build_id))
    write_event(home, event, level=level, build_id=known, **fields)


def read_events(
    home: Path, since: dt.datetime | None = None, level: Level = "info", run_id: str | None = None
) -> list[Event]:
    """Returns events, oldest first; lines that a crash left half written are skipped.

    Args:
        home: the home's folder.
        since: events at or after this time.
        level: events of this level or a more serious one.
        run_id: events of this run.
    """
    least = LEVELS.index(level)
    wanted = LEVELS[least:]
    return [
        e
        for path in log_files(home)
        if since is None or dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC) >= since
        for e in _read(path)
        if e.level in wanted and (since is None or e.time >= since) and run_id in (None, e.run_id)
    ]


def erase_events(home: Path, is_erased: Callable[[list[str]], list[int]]) -> int:
    """Removes events; returns how many.

    Args:
        home: the home's folder.
        is_erased: returns the indexes of the lines to remove.
    """
    if not log_files(home):
        return 0
    with _lock(home, -1):
        return sum(remove_lines(path, is_erased) for path in log_files(home))


def logs_folder(home: Path) -> Path:
    """Returns where the files of the log lie."""
    return home / "logs"


def log_files(home: Path) -> list[Path]:
    """Returns the files of the log, oldest first; the open one is last."""
    folder = logs_folder(home)
    closed = sorted(folder.glob("events-*.jsonl"))
    return [*closed, *([folder / "events.jsonl"] if (folder / "events.jsonl").is_file() else [])]


def files_to_remove(home: Path, policy: LogPolicy, today: dt.date) -> list[Path]:
    """Returns the closed files that a policy does not keep: too old ones, then the oldest beyond its bytes."""
    closed = [p for p in log_files(home) if p.name != "events.jsonl"]
    first = (today - dt.timedelta(days=policy.days)).isoformat()
    old = [p for p in closed if p.name.removeprefix("events-")[:10] < first]
    left = [p for p in closed if p not in old]
    while left and sum(p.stat().st_size for p in left) > policy.max_bytes:
        old.append(left.pop(0))
    return old


def _append(folder: Path, line: bytes, now: dt.datetime) -> None:
    path = folder / "events.jsonl"
    if path.is_file() and path.stat().st_size:
        last = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
        if last.date() != now.date() or path.stat().st_size + len(line) > MAX_FILE_BYTES:
            _close(path, last.date())
            with suppress(PalimpsestError):  # a bad policy is reported by the commands that show it
                for old in files_to_remove(folder.parent, log_policy(), now.date()):
                    old.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def _close(path: Path, day: dt.date) -> None:
    number = 1
    while (closed := path.with_name(f"events-{day.isoformat()}-{number:03d}.jsonl")).exists():
        number += 1
    path.rename(closed)


def _read(path: Path) -> Iterator[Event]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            yield Event(
                dt.datetime.fromisoformat(row["time"]),
                cast(Level, row["level"]),
                str(row["run_id"]),
                str(row["build_id"]),
                str(row["event"]),
                dict(row["fields"]),
            )
        except (ValueError, TypeError, KeyError):
            continue


def _lock(home: Path, wait_s: float = _LOCK_WAIT_S) -> FileLock:
    logs_folder(home).mkdir(mode=0o700, exist_ok=True)
    return FileLock(logs_folder(home) / ".lock", timeout=wait_s, mode=0o600)
