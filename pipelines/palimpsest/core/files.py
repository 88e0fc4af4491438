"""Files that are whole or absent: written aside, synced, then renamed; readable by their owner only."""

import hashlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from palimpsest.core.errors import ComponentFailed, DamagedFile, DamagedPointer, PalimpsestError
from palimpsest.core.ids import JsonObject

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT_DATA = _PACKAGE.parents[1] / "data"
SHIPPED = next((p for p in (_PACKAGE / "data", CHECKOUT_DATA) if p.is_dir()), _PACKAGE / "data")
"""The data folder that comes with the package: models and lists."""
REBUILD = "remove it and run palimpsest build again"


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes `path` so that a reader or a crash sees the old content or the new, never a part.

    `mode` is that of the file from its first byte on, before the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")  # of two threads each has its own
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    aside.replace(path)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file whole, for its owner alone."""
    write_bytes(path, data, mode=0o600)


def remove_lines(path: Path, find: Callable[[list[str]], Iterable[int]]) -> int:
    """Removes lines from a file for its owner alone, where there is one; returns how many.

    Args:
        path: the file.
        find: returns the numbers of the lines to remove, from 0; empty ones are not counted.
    """
    if not path.exists():
        return 0
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]
    if gone := set(find(lines)):
        write_private(path, "".join(f"{line}\n" for i, line in enumerate(lines) if i not in gone).encode())
    return len(gone)


@contextmanager
def undamaged(path: Path, fix: str, *errors: type[Exception]) -> Iterator[None]:
    """Turns errors of reading a file into DamagedFile; what this user may not read is not damaged.

    Args:
        path: the file.
        fix: what to do about a damaged one.
        *errors: of what reads it, besides OSError.

    Yields:
        Nothing.

    Raises:
        DamagedFile: the file cannot be read.
        PermissionError: this user may not read it.
    """
    try:
        yield
    except PermissionError:
        raise
    except Exception as e:
        if isinstance(e, (OSError, *errors)):
            raise DamagedFile(path, fix) from None
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as sorted, indented JSON, atomically."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, fix: str = REBUILD) -> Any:
    """Returns the JSON value in `path`, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read or is not JSON; the message names it and the fix.
        PalimpsestError: a part of the path is a file.
        PermissionError: this user may not read it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise PalimpsestError(f"{path}: a part of this path is a file, not a folder; name another folder") from None
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, RecursionError):
        raise DamagedFile(path, fix) from None


def read_json_object(path: Path, fix: str = REBUILD) -> JsonObject | None:
    """Returns the JSON object in `path`, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read or is no JSON object; the message names it and the fix.
    """
    value = read_json(path, fix)
    if value is not None and not isinstance(value, dict):
        raise DamagedFile(path, fix)
    return value


def file_hash(path: Path) -> str:
    """Returns 32 hex digits of blake2b over the bytes of `path`, read in blocks."""
    h = hashlib.blake2b(digest_size=16)
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def hash_of_file(path: Path) -> str:
    """Returns `file_hash` of a file, computed once as long as the file stays as it is.

    Raises:
        OSError: it cannot be read.
    """
    state = path.stat()
    return _hash_of_state(path.resolve(), (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=16)
def _hash_of_state(path: Path, state: tuple[int, int, int]) -> str:
    return file_hash(path)


def file_hash_of(data: bytes) -> str:
    """Returns what `file_hash` returns of a file with these bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def link(source: Path, target: Path) -> None:
    """Makes `target` the same file as `source`: a hard link, or a copy where the disk has none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def remove_leftovers(folder: Path) -> None:
    """Removes files that an interrupted write left aside."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)


# A lock in a folder of this user: one process or thread at a time changes what is in it.


@contextmanager
def folder_lock(folder: Path, wait_s: float, busy: str, *, tighten: bool = True) -> Iterator[None]:
    """Makes a folder where it is not there, and keeps others out of it for as long as the block.

    Args:
        folder: the folder.
        wait_s: how long to wait.
        busy: the error, where another one does not let go of it.
        tighten: let only the owner into a folder that was there already, too.

    Yields:
        Nothing, once the lock is taken.

    Raises:
        ComponentFailed: another one does not let go of it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if tighten:
        folder.chmod(0o700)
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock", timeout=wait_s, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ComponentFailed(busy) from None
    try:
        yield
    finally:
        lock.release()


# JSON objects with the checksum of what they say, however it is written: a changed character is noticed.
#
# Files that an earlier version wrote have none.

_SUM = "checksum"


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes an object with its checksum, atomically."""
    write_json(path, {**value, _SUM: _checksum(value)})


def read_sealed_json(path: Path, fix: str = REBUILD) -> JsonObject | None:
    """Returns what the object in `path` says, or None where there is no such file.

    Raises:
        DamagedFile: the file cannot be read, is no JSON object or was changed; the message names it and the fix.
    """
    found = read_json_object(path, fix)
    try:
        return None if found is None else unsealed(found)
    except ValueError:
        raise DamagedFile(path, fix) from None


def unsealed(found: JsonObject) -> JsonObject:
    """Returns what an object says, without its checksum.

    Raises:
        ValueError: the checksum is another.
    """
    value = {k: v for k, v in found.items() if k != _SUM}
    if found.get(_SUM) not in (None, _checksum(value)):
        raise ValueError("another checksum")
    return value


def _checksum(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# The format of a home: of its index, and of what a version must know to read or write the rest.
#
# It is written with each published build. A home of an earlier format is upgraded; one of a later format is refused.

FORMAT = 13
FORMAT_FILE = "format.json"


def write_format(home: Path) -> None:
    """Records that this version published a build in the home; nothing where that is recorded already."""
    if read_format(home) != FORMAT:
        write_sealed_json(home / FORMAT_FILE, {"format": FORMAT})


def read_format(home: Path) -> int | None:
    """Returns the format that a home records; None where an earlier version wrote it, or the file is damaged.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        found = unsealed(json.loads((home / FORMAT_FILE).read_text(encoding="utf-8")))["format"]
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, int) else None


def check_format(home: Path) -> None:
    """Checks that this version may read and write a home.

    Raises:
        PalimpsestError: a newer version of Palimpsest wrote it.
    """
    if (found := read_format(home)) is not None and found > FORMAT:
        raise PalimpsestError(
            f"home {home}: written by a newer version of Palimpsest (format {found}, this version knows {FORMAT}); "
            "upgrade Palimpsest, or name another --home"
        )


# The pointer of a home to the build that readers see: `published.json`.

POINTER = "published.json"


def published_build_id(home: Path) -> str | None:
    """Returns the name of the published build's folder, or None where nothing was published.

    Raises:
        DamagedPointer: the pointer is damaged.
        PalimpsestError: a newer version of Palimpsest wrote the home, or it is no folder.
        PermissionError: this user may not read it.
    """
    check_format(home)
    damaged = f"home {home}: {POINTER} is damaged; run palimpsest build --home {home}, which repairs it"
    try:
        build_id = unsealed(json.loads((home / POINTER).read_text(encoding="utf-8")))["build"]
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise PalimpsestError(f"home {home}: not a folder; name another --home") from None
    except PermissionError:
        raise  # it is not damaged
    except (OSError, ValueError, RecursionError, AttributeError, KeyError):
        raise DamagedPointer(home / POINTER, damaged) from None
    if not isinstance(build_id, str) or not build_id.isascii() or not build_id.isdigit():
        raise DamagedPointer(home / POINTER, damaged)
    return build_id


def nothing_published(name: str) -> str:
    """Returns the message for a home without a published build; `name` is what `--home` names it by."""
    return f"home {name}: it has no published build; run palimpsest build --home {name}"


def write_pointer(home: Path, build_id: str) -> None:
    """Makes readers see another build, in one rename."""
    write_sealed_json(home / POINTER, {"build": build_id})


# Progress on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere.

_Item = TypeVar("_Item")

_LINE_EVERY_S = 9.0
_is_shown: ContextVar[bool] = ContextVar("_is_shown", default=False)
_Place = Callable[[float, float], str]
"""Returns where a build is, from the share of the work of a progress that is done, and its seconds."""
_place: ContextVar[_Place | None] = ContextVar("_place", default=None)
_is_quiet: ContextVar[bool] = ContextVar("_is_quiet", default=False)
_log: ContextVar[Callable[[str], None] | None] = ContextVar("_log", default=None)


def say(line: str) -> None:
    """Writes one line to stderr at once, and to the log of `logged_to`; nothing inside `quietly`."""
    if _is_quiet.get():
        return
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
    if log := _log.get():
        log(line)


@contextmanager
def logged_to(log: Callable[[str], None], what: str) -> Iterator[None]:
    """Writes what is said to a log too, and after ten seconds without a line how long it has been running.

    Args:
        log: gets each line, also from another thread.
        what: runs.
    """
    started = last = time.monotonic()
    ended = threading.Event()

    def write(line: str) -> None:
        nonlocal last
        last = time.monotonic()
        log(line)

    def look() -> None:
        while not ended.wait(max(0.1, last + _LINE_EVERY_S - time.monotonic())):
            if time.monotonic() - last >= _LINE_EVERY_S:
                write(f"{what}: {time.monotonic() - started:.0f} s so far")

    token, thread = _log.set(write), threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _log.reset(token)


@contextmanager
def quietly() -> Iterator[None]:
    """Keeps stages and progress from stderr while a dry run measures a sample."""
    quiet, shown = _is_quiet.set(True), _is_shown.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(quiet)
        _is_shown.reset(shown)


@contextmanager
def progress_of(place: _Place) -> Iterator[None]:
    """Shows the place of a build, with the time left of all of it, in place of the time left of each progress."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


@contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yields `advance(n)`. Shows done, rate and time left of `total` units; inside another progress, nothing."""
    if _is_shown.get():
        yield lambda n: None
        return
    _is_shown.set(True)
    try:
        with _bar(what, total, unit) if sys.stderr.isatty() else nullcontext(_lines(what, total, unit)) as advance:
            yield advance
    finally:
        _is_shown.set(False)


@contextmanager
def _bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    place = _place.get()

    class Place(ProgressColumn):
        """Where a build is, and the time left of it."""

        def render(self, task: Task) -> Text:
            return Text(place(task.completed / max(task.total or 1, 1), task.elapsed or 0.0) if place else "")

    class Rate(ProgressColumn):
        """Units a second; 0 until there are two times to compare."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:.0f}/s")

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        Rate(),
        Place() if place else TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n: bar.update(task, advance=n)


def _lines(what: str, total: int, unit: str) -> Callable[[int], None]:
    started = last = time.monotonic()
    done, place = 0, _place.get()

    def advance(n: int) -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if done and now - last >= _LINE_EVERY_S:
            last = now
            rate = done / (now - started)
            left = place(done / total, now - started) if place else f"{(total - done) / rate:.0f} s left"
            say(f"{what}: {done} of {total} {unit}, {rate:.0f}/s, {left}")

    return advance


# Numbers of things in a line for people.


_PLURAL = {"has": "have", "is": "are", "was": "were", "does": "do"}


def lines_of(text: str) -> list[str]:
    """Returns the lines of a file of JSON lines that are not empty.

    Not `splitlines`: a text in a line may have a line separator of Unicode.
    """
    return [line for line in text.split("\n") if line.strip()]


def counted(number: int, noun: str, verb: str = "") -> str:
    """Returns `1 memory` or `2 memories`; with the verb `has`, `1 memory has` or `2 memories have`."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
        verb = _PLURAL.get(verb, verb.removesuffix("s"))
    return f"{number:,} {noun} {verb}".rstrip()
