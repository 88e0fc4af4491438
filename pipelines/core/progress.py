"""Progress on stderr: a bar with rate and time left on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

_Item = TypeVar("_Item")

_LINE_EVERY_S = 10.0


def say(line: str) -> None:
    """Writes one line to stderr at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Yields `advance(n)`. Shows done, rate and time left of `total` units."""
    if not sys.stderr.isatty():
        yield _lines(what, total, unit)
        return
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
