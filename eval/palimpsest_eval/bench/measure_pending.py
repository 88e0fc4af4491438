"""Searches beside pending memories: how long they take, and how soon what was sent is found."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palimpsest.core.ids import JsonRecord
from palimpsest.query import Reader, Scope, open_home
from palimpsest.sources.inbox import ingest_session
from palimpsest.store.home import Home

PENDING = 1000
"""Memories that are pending in one scope."""
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


def pending_texts(count: int) -> list[str]:
    """Returns distinct texts about where things are."""
    rows = (divmod(n, 10) for n in range(count))
    return [f"The {_THINGS[b]} number {a} lies in the {_PLACES[(a + b) % 10]} behind box {a * 7 + b}." for a, b in rows]


def measure_pending(home: Home, scope: Scope, questions: Sequence[str], count: int = PENDING) -> PendingFigures:
    """Sends texts to the inbox of a home and measures searches beside them. The home keeps them: give it a copy.

    Args:
        home: a home with a published build that has the scope, and the folder of its collection.
        scope: without a project.
        questions: at least 20, so that a p95 is one of several.
        count: how many texts are pending.
    """
    turns = [{"role": "user", "content": text} for text in pending_texts(count)]
    ingest_session(home, turns, user=scope.user_id, collection=scope.collection)
    with open_home(home.path, count_reads=False) as reader:
        _until_labelled(reader, scope)
        for text in questions[:5]:
            _search_ms(reader, scope, text, True)
        times = np.array(
            [[_search_ms(reader, scope, text, pending) for pending in (False, True)] for text in questions]
        )
        without, beside = np.percentile(times, 95, axis=0)
        turn = {"role": "user", "content": "The sailing licence hangs in the boat house."}
        ingest_session(home, [turn], user=scope.user_id, collection=scope.collection)
        started = time.perf_counter()
        found = reader.search("Where is the permit for the yacht?", scope, k=5, include_pending=True)
        took = time.perf_counter() - started
        assert found.pending
    return PendingFigures(count, float(beside), float(without), took)


def _until_labelled(reader: Reader, scope: Scope) -> None:
    """Searches until nothing is formed in the background any more."""
    known, same = -1.0, 0
    while same < 5:
        reader.search("Where is the drill?", scope, include_pending=True)
        time.sleep(1.0)
        spent = time.process_time()
        same, known = (same + 1, spent) if spent - known < 0.1 else (0, spent)


def _search_ms(reader: Reader, scope: Scope, text: str, include_pending: bool) -> float:
    started = time.perf_counter()
    reader.search(text, scope, include_pending=include_pending)
    return (time.perf_counter() - started) * 1000


def main() -> None:
    """Measures a copy of a home and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path, help="a copy of a home: what is sent stays in it")
    parser.add_argument("collection")
    parser.add_argument("user")
    parser.add_argument("--pending", type=int, default=PENDING)
    options = parser.parse_args()
    scope = Scope(options.collection, options.user)
    questions = [f"Where is the {thing} from the {place}?" for thing in _THINGS for place in _PLACES]
    figures = measure_pending(Home(options.home), scope, questions, options.pending)
    print(json.dumps(figures.to_json()))  # noqa: T201


if __name__ == "__main__":
    main()
