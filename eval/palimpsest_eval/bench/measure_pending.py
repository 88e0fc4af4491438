"""Searches beside pending memories: how long they take, and how soon what was sent is found."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palimpsest.core.ids import JsonRecord
from palimpsest.query import Reader, Scope, open_home
from palimpsest.sources.inbox import ingest_session
from palimpsest.store.home import Home

_LONGEST_S = 60
_OWN = ("inbox", "logs", "usage", "deletions")
_PLACES = ("drawer", "shelf", "garage", "attic", "cellar", "van", "office", "kitchen", "shed", "hall")
_THINGS = ("key", "tent", "drill", "passport", "charger", "ladder", "recipe", "camera", "invoice", "map")


@dataclass(frozen=True)
class PendingFigures(JsonRecord):
    """Figures of searches of one scope; of each pair of times the searches took turns.

    Attributes:
        pending: how many memories are pending.
        p95_ms: of searches beside them.
        p95_without_ms: of the same searches without `include_pending`.
        found_s: from the end of sending one more text to the end of a search that waits for it.
    """

    pending: int
    p95_ms: float
    p95_without_ms: float
    found_s: float

    def text(self) -> str:
        """Returns the figures as lines for people."""
        beside, without = f"{self.p95_ms:.1f} ms", f"{self.p95_without_ms:.1f} ms"
        return (
            f"p95 of a search beside {self.pending:,} pending memories {beside}, without them {without}\n"
            f"a text that is sent beside them is found after {self.found_s:.2f} s"
        )


def pending_texts(count: int) -> list[str]:
    """Returns distinct texts about where things are."""
    rows = (divmod(n, 10) for n in range(count))
    return [f"The {_THINGS[b]} number {a} lies in the {_PLACES[(a + b) % 10]} behind box {a * 7 + b}." for a, b in rows]


def measure_pending(home: Home, count: int) -> PendingFigures:
    """Measures searches of the largest scope of a home beside so many pending memories, which the home does not keep.

    It takes two minutes: what is not labelled after one is not waited for.

    Raises:
        PalimpsestError: the home has no published build.
    """
    questions = [f"Where is the {thing} from the {place}?" for thing in _THINGS for place in _PLACES]
    with _linked(home) as beside, open_home(beside.path, count_reads=False) as reader:
        sizes = {s: n or 0 for s, n in reader.scope_sizes().items() if not s.project_id}
        scope = max(sorted(sizes), key=lambda s: sizes[s])
        turns = [{"role": "user", "content": text} for text in pending_texts(count)]
        ingest_session(beside, turns, user=scope.user_id, collection=scope.collection)
        _until_labelled(reader, scope)
        for text in questions[:5]:
            _search_ms(reader, scope, text, True)
        times = np.array(
            [[_search_ms(reader, scope, text, pending) for pending in (False, True)] for text in questions]
        )
        without, with_pending = np.percentile(times, 95, axis=0)
        turn = {"role": "user", "content": "The sailing licence hangs in the boat house."}
        ingest_session(beside, [turn], user=scope.user_id, collection=scope.collection)
        started = time.perf_counter()
        reader.search("Where is the permit for the yacht?", scope, k=5, include_pending=True)
        took = time.perf_counter() - started
    return PendingFigures(count, float(with_pending), float(without), took)


@contextmanager
def _linked(home: Home) -> Iterator[Home]:
    """Makes a home that has all of another by links, but an inbox of its own, for as long as the block.

    Yields:
        The home.
    """
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as folder:
        for path in home.path.iterdir():
            if path.name not in _OWN:
                Path(folder, path.name).symlink_to(path.resolve())
        yield Home(Path(folder))


def _until_labelled(reader: Reader, scope: Scope) -> None:
    """Searches until nothing is formed in the background any more, for `_LONGEST_S` at most."""
    known, same, end = -1.0, 0, time.monotonic() + _LONGEST_S
    while same < 3 and time.monotonic() < end:
        reader.search("Where is the drill?", scope, include_pending=True)
        time.sleep(1.0)
        spent = time.process_time()
        same, known = (same + 1, spent) if spent - known < 0.1 else (0, spent)


def _search_ms(reader: Reader, scope: Scope, text: str, include_pending: bool) -> float:
    started = time.perf_counter()
    reader.search(text, scope, include_pending=include_pending)
    return (time.perf_counter() - started) * 1000
