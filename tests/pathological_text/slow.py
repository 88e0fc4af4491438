"""Which patterns and functions are slow on texts made to be slow for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.pathological_text.patterns import FoundPattern
from tests.pathological_text.texts import SIZES, SlowText, common_texts, texts_of_pattern
from tests.pathological_text.timings import Timing, Worker

_LIMIT_S = 30.0  # of one text, in seconds of processor time
_SLOWEST = 3  # of the texts at the small size, that are tried at the large one


def find_slow_patterns(patterns: Sequence[FoundPattern]) -> Iterator[Timing]:
    """Yields the timings of the slowest texts of each pattern, by each method by which it is applied."""
    with Worker(_LIMIT_S) as worker:
        for pattern in patterns:
            for method in pattern.methods:
                yield from _time(worker, pattern, method, texts_for(pattern))


def find_slow_functions(is_meant: Callable[[str], bool]) -> Iterator[Timing]:
    """Yields the timings of the slowest texts of each function.

    Args:
        is_meant: by its name, whether a function is to be timed.
    """
    from tests.pathological_text.functions import FUNCTIONS, MOST_SECONDS

    with Worker(_LIMIT_S) as worker:
        for name in filter(is_meant, FUNCTIONS):
            for timing in _time(worker, name, "", common_texts()):
                yield replace(timing, most_s=MOST_SECONDS.get(name, timing.most_s))


def texts_for(pattern: FoundPattern) -> list[SlowText]:
    """Returns the texts that a pattern is timed on: those that all are, and those made from it where `re` reads it."""
    own = texts_of_pattern(pattern.pattern, pattern.flags) if pattern.engine == "re" else ()
    return sorted({*common_texts(), *own})


def _time(worker: Worker, task: FoundPattern | str, method: str, texts: Sequence[SlowText]) -> Iterator[Timing]:
    small, large = SIZES
    seconds = worker.seconds(task, method, texts, small)
    slowest = sorted(zip(seconds, texts, strict=False), key=lambda s: (-s[0], s[1]))[:_SLOWEST]
    again = worker.seconds(task, method, [text for _, text in slowest], large)
    where = task if isinstance(task, str) else task.where
    for (small_s, text), large_s in zip(slowest, again, strict=False):
        yield Timing(where, method, text, small_s, large_s)
