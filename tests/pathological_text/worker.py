"""The process in which patterns and functions are timed: it reads a task as a line of JSON and writes lines of seconds.

A regular expression cannot be interrupted, so the process that asks ends this one when a line does not come in time.
"""

import contextlib
import gc
import json
import re
import sys
import time
from collections.abc import Callable

from tests.pathological_text.texts import SlowText


def apply_re(pattern: str, flags: int, is_bytes: bool, method: str) -> Callable[[str], object]:
    """Returns a function that applies a pattern to a text by one method; `finditer` reads every match."""
    compiled = re.compile(pattern.encode("latin-1") if is_bytes else pattern, flags)
    apply: Callable[[str | bytes], object] = getattr(compiled, method)
    read = (lambda text: sum(1 for _ in compiled.finditer(text))) if method == "finditer" else apply
    return (lambda text: read(text.encode("utf-8", "replace"))) if is_bytes else read


def apply_polars(pattern: str, method: str) -> Callable[[str], object]:
    """Returns a function that applies a pattern to a text as an expression of polars does."""
    import polars as pl

    if method == "finditer":
        return lambda text: pl.Series([text]).str.extract_all(pattern)
    return lambda text: pl.Series([text]).str.contains(pattern)


def _callable(task: dict[str, object]) -> Callable[[str], object]:
    if task["engine"] == "function":
        from tests.pathological_text.functions import FUNCTIONS

        return FUNCTIONS[str(task["pattern"])]
    if task["engine"] == "polars":
        return apply_polars(str(task["pattern"]), str(task["method"]))
    return apply_re(str(task["pattern"]), int(str(task["flags"])), bool(task["is_bytes"]), str(task["method"]))


def _seconds(call: Callable[[str], object], text: str) -> float:
    """Returns the seconds of processor time of a call; to refuse the text, as readers do, takes time too."""
    start = time.process_time()
    with contextlib.suppress(Exception):
        call(text)
    return time.process_time() - start


def main() -> None:
    """Answers tasks until there are no more: that it is ready, then for each text the seconds of processor time."""
    gc.disable()
    for line in sys.stdin:
        task = json.loads(line)
        call = _callable(task)
        _seconds(call, "a")  # what is loaded or compiled once is no part of a text's time
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for parts in task["texts"]:
            sys.stdout.write(f"{_seconds(call, SlowText(*parts).at_size(task['size'])):.6f}\n")
            sys.stdout.flush()
        gc.collect()


if __name__ == "__main__":
    main()
