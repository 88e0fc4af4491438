"""Progress on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

_Item = TypeVar("_Item")

_LINE_EVERY_S = 10.0
_is_shown: ContextVar[bool] = ContextVar("_is_shown", default=False)


def say(line: str) -> None:
    """Writes one line to stderr at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


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
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda n: bar.update(task, advance=n)


def tracked(items: Sequence[_Item], what: str, unit: str) -> Iterator[_Item]:
    """Yields the items and shows progress through them."""
    with progress(what, len(items), unit) as advance:
        for item in items:
            yield item
            advance(1)


def _lines(what: str, total: int, unit: str) -> Callable[[int], None]:
    started = last = time.monotonic()
    done = 0

    def advance(n: int) -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if now - last >= _LINE_EVERY_S:
            last = now
            rate = done / (now - started)
            say(f"{what}: {done} of {total} {unit}, {rate:.0f}/s, {(total - done) / rate:.0f} s left")

    return advance


# Numbers of things in a line for people.


def counted(number: int, noun: str) -> str:
    """Returns `1 memory` or `2 memories`."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun}"
