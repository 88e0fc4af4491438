"""A build in a process of its own that is killed at its n-th durable step, or runs under a clock that is set back."""

import datetime as dt
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.memories import embed
from palimpsest.sources import ingest
from palimpsest.store.home import Home
from tests.word_embedder import WordEmbedder

NEVER = 10**9


def use_words() -> None:
    """Lets this process embed by words alone, and remove as many sources as it likes."""
    embed.load_embedder = WordEmbedder
    ingest.check_removals = lambda *_: None


def build(home: Path, corpus: Path) -> None:
    """Builds and publishes, without the gate; waits for another process that writes the home."""
    use_words()
    target = Home(home)
    target.create()
    with target.lock(60):
        plan = make_plan(target, [corpus])
        if not plan.nothing_to_do:
            run_without_dagster(target, plan)


def build_until(step: int, home: Path, corpus: Path, counted: Path) -> None:
    """Builds until the n-th rename, link or removal of a file, before which the process is killed.

    Every file of a home is written aside and renamed, so that this stops at each boundary of a stage and between all
    tables of each.

    Args:
        step: n, from 0.
        home: the home.
        corpus: folder of collections.
        counted: gets the number of steps of a build that reaches its end.
    """
    steps = [0]

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted_call(*arguments: Any, **options: Any) -> Any:
            if steps[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            steps[0] += 1
            return call(*arguments, **options)

        return counted_call

    for name in ("rename", "replace", "link", "unlink", "rmdir"):
        setattr(os, name, counting(getattr(os, name)))
    build(home, corpus)
    counted.write_text(str(steps[0]))


def build_in_the_past(home: Path, corpus: Path) -> None:
    """Builds under a clock that shows a day ten years ago."""

    class Anything(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, dt.datetime)

    class Past(dt.datetime, metaclass=Anything):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime.now(tz).replace(year=dt.datetime.now().year - 10, day=1)

    past = SimpleNamespace(**{**vars(dt), "datetime": Past})
    for name, module in sorted(sys.modules.items()):
        if name.startswith("palimpsest.") and getattr(module, "dt", None) is dt:
            setattr(module, "dt", past)  # noqa: B010 - a module has no such attribute for the type checker
    build(home, corpus)
