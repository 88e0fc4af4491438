"""`python -m tests.pathological_text [WORD...]`: prints which patterns and functions are slow.

Each regular expression of the package, and each function that applies some, is timed on texts made to be slow for it,
at 10,000 characters, and on the slowest of these at 100,000 too. A line is printed where that takes more than a second
(formation, which parses sentences: 30 seconds), or grows by more than 15 times. With words only what has one of them in
its name is timed. The exit code is 1 where any is slow. All of it takes hours on one core.
"""

import sys
import time
from collections.abc import Iterator, Sequence

from tests.pathological_text.patterns import collect_patterns
from tests.pathological_text.slow import find_slow_functions, find_slow_patterns
from tests.pathological_text.timings import Timing


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the slow ones as they are found, then how much was timed and what took longest."""
    words = sys.argv[1:] if argv is None else list(argv)
    start = time.monotonic()
    patterns = [p for p in collect_patterns() if _is_named(p.where, words)]
    failed = _print_slow("pattern", find_slow_patterns(patterns))
    failed += _print_slow("function", find_slow_functions(lambda name: _is_named(name, words)))
    sys.stdout.write(f"{len(patterns)} patterns, {failed} slow, {time.monotonic() - start:.0f} s\n")
    return int(failed > 0)


def _is_named(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def _print_slow(kind: str, timings: Iterator[Timing]) -> int:
    """Prints the slow ones of timings, then the longest of all; returns how many were slow."""
    slow, longest = 0, None
    for timing in timings:
        longest = timing if longest is None or timing.large_s > longest.large_s else longest
        if timing.is_slow:
            slow += 1
            sys.stdout.write(f"slow {kind}: {_line(timing)}\n")
            sys.stdout.flush()
    if longest is not None:
        sys.stdout.write(f"longest {kind}: {_line(longest)}\n")
    return slow


def _line(timing: Timing) -> str:
    text = f"{timing.text.head[:40]!r} + {timing.text.unit[:40]!r} ... + {timing.text.end!r}"
    return f"{timing.where} {timing.method}: {timing.small_s:.3f} s, {timing.large_s:.3f} s on {text}"


if __name__ == "__main__":
    raise SystemExit(main())
