"""Where a build is: which collection of how many, which stage, and the time left of all of it.

The time is that of the stages finished so far, by bytes of sources. A stage that none has finished yet is taken for its
usual share of a collection's time; the shares are relative, so that the speed of the machine and its load cancel out.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.files import progress_of
from palimpsest.pipeline.stages import collection_stages
from palimpsest.store.builds import staged
from palimpsest.store.home import Home

_SHARES = {"relations": 0.72, "embeddings": 0.16, "facts": 0.06, "documents": 0.02}
_OTHER_SHARE = 0.004
_MINUTE_S = 60


@dataclass(frozen=True)
class BuildClock:
    """The collections that a build makes, in order, with the bytes of their sources."""

    home: Home
    sizes: Mapping[str, int]

    def collection_line(self, collection: str) -> str:
        """Returns the line that announces a collection."""
        left = self._left(collection, "", 0.0, 0.0)
        return f"collection {collection} ({self._number(collection)} of {len(self.sizes)}){_about(left)}"

    def place(self, collection: str, stage: str, share: float, seconds: float) -> str:
        """Returns where a build is.

        Args:
            collection: that is built.
            stage: that runs.
            share: of the stage's work that is done, 0 to 1.
            seconds: since that work began.
        """
        stages = [s.name for s in collection_stages()]
        where = f"collection {self._number(collection)} of {len(self.sizes)}"
        at = f"stage {stages.index(stage) + 1} of {len(stages)}"
        return f"{where}, {at}{_about(self._left(collection, stage, share, seconds))}"

    def _number(self, collection: str) -> int:
        return list(self.sizes).index(collection) + 1

    def _left(self, collection: str, stage: str, share: float, seconds: float) -> float | None:
        """Returns the seconds that are left; None while nothing is known of the speed."""
        build, stages = staged(self.home), [s.name for s in collection_stages()]
        took = {(c, s): r.seconds for c in self.sizes for s in stages if (r := build.record(c, s))}
        if stage and share > 0:
            took[collection, stage] = seconds / share
        weight = sum(self._weight(*key) for key in took)
        if not any(s in _SHARES and s != "documents" for _, s in took) or not weight:
            return None
        speed = sum(took.values()) / weight
        started = list(self.sizes)[: self._number(collection)]
        left = 0.0 if not stage else took.get((collection, stage), 0.0) * (1 - share)
        for name in self.sizes:
            for s in stages:
                if (name, s) not in took:
                    same = [c for c in started if (c, s) in took]
                    known = sum(took[c, s] for c in same) / max(sum(self._size(c) for c in same), 1)
                    left += known * self._size(name) if same else speed * self._weight(name, s)
        return left

    def _weight(self, collection: str, stage: str) -> float:
        return self._size(collection) * _SHARES.get(stage, _OTHER_SHARE)

    def _size(self, collection: str) -> int:
        return max(self.sizes[collection], 1)


def _about(seconds: float | None) -> str:
    """Returns a time as people say it: to 5 s below two minutes, to a minute above."""
    if seconds is None:
        return ""
    if seconds < 2 * _MINUTE_S:
        return f", about {max(5, 5 * round(seconds / 5))} s left"
    return f", about {round(seconds / _MINUTE_S)} min left"


_clock: ContextVar[BuildClock | None] = ContextVar("_clock", default=None)


@contextmanager
def timed_build(home: Home, collections: Mapping[str, Path]) -> Iterator[BuildClock]:
    """Shows the place of a build in the progress of its stages.

    Args:
        home: that is built.
        collections: folders of the collections that change, in the order in which they are built.

    Yields:
        The clock.
    """
    clock = BuildClock(home, {name: folder_size(folder) for name, folder in collections.items()})
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


def timed_stage(collection: str, stage: str) -> AbstractContextManager[None]:
    """Returns a context in which progress shows the place of a build, where one is timed and makes the collection."""
    clock = _clock.get()
    if clock is None or collection not in clock.sizes:
        return nullcontext()
    return progress_of(lambda share, seconds: clock.place(collection, stage, share, seconds))


def folder_size(folder: Path) -> int:
    """Returns the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
