"""Work on a home in a process of its own that is killed at its n-th durable step, or runs under another clock."""

import datetime as dt
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.decide import confirm, needs_person
from palimpsest.memories import embed
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.pipeline.deletion.target import delete_due
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources import ingest
from palimpsest.store.home import Home
from palimpsest.store.proposals import read_proposals
from palimpsest_eval.runs.apply_proposals import apply_proposals
from tests.word_embedder import WordEmbedder

NEVER = 10**9


def use_words() -> None:
    """Lets this process embed by words alone, and remove as many sources as it likes."""
    embed.load_embedder = WordEmbedder
    ingest.check_removals = lambda *_: None


def build(home: Path, corpus: Path, data: Path | None = None) -> None:
    """Builds and publishes, without the gate; waits for another process that writes the home.

    Args:
        home: the home.
        corpus: folder of collections.
        data: folder with golden questions; None means the default.
    """
    use_words()
    if data is not None:
        os.environ["PALIMPSEST_DATA"] = str(data)
    target = Home(home)
    target.create()
    with target.lock(60):
        delete_due(target)
        plan = make_plan(target, [corpus])
        if not plan.nothing_to_do:
            run_without_dagster(target, plan)


def build_until(step: int, home: Path, corpus: Path, counted: Path) -> None:
    """Builds until the n-th durable step: at each boundary of a stage and between all tables of each; see `until`."""
    until(step, counted, build, home, corpus)


def until(step: int, counted: Path, work: Callable[..., object], *arguments: object) -> None:
    """Works until the n-th rename, link, removal or sync of a file, before which the process is killed.

    Args:
        step: n, from 0.
        counted: gets the number of steps of work that reaches its end.
        work: a function of this module.
        *arguments: of the work.
    """
    steps = [0]

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted_call(*arguments: Any, **options: Any) -> Any:
            if steps[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            steps[0] += 1
            return call(*arguments, **options)

        return counted_call

    # A build writes each file aside and renames it; decisions are appended and synced.
    names = ("rename", "replace", "link", "unlink", "rmdir", *(() if work is build else ("fsync",)))
    for name in names:
        setattr(os, name, counting(getattr(os, name)))
    work(*arguments)
    counted.write_text(str(steps[0]))


def find_proposals(home: Path) -> None:
    """Consolidates a home, every memory of it."""
    consolidate(Home(home), everything=True)


def decide(home: Path) -> None:
    """Confirms every open proposal that needs no person to say which side stays."""
    target = Home(home)
    due = [i for i, p in sorted(read_proposals(home).items()) if p.state == "open" and not needs_person(p)]
    confirm(target, due)


def apply_due(home: Path, data: Path) -> None:
    """Confirms what settings name, with trial builds, as five days later."""
    os.environ["PALIMPSEST_DATA"] = str(data)
    use_words()
    apply_proposals(Home(home), dt.datetime.now(dt.UTC) + dt.timedelta(days=5))


def build_in_the_past(home: Path, corpus: Path) -> None:
    """Builds under a clock that shows a day ten years ago."""
    at(-3650, build, home, corpus)


def remove(home: Path, user: str) -> None:
    """Deletes a user."""
    delete(Home(home), user=user)


def at(days: float, work: Callable[..., object], *arguments: object) -> None:
    """Works under a clock that is so many days ahead, or behind where the number is negative."""

    class Anything(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, dt.datetime)

    class Shifted(dt.datetime, metaclass=Anything):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime.now(tz) + dt.timedelta(days=days)

    shifted = SimpleNamespace(**{**vars(dt), "datetime": Shifted})
    for name, module in sorted(sys.modules.items()):
        if name.startswith("palimpsest.") and getattr(module, "dt", None) is dt:
            setattr(module, "dt", shifted)  # noqa: B010 - a module has no such attribute for the type checker
    work(*arguments)
