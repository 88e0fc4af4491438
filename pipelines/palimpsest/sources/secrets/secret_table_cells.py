"""Secrets in the cells of a table, known by the head of their column: `| user | password |`."""

from collections.abc import Iterator
from itertools import pairwise

from palimpsest.sources.secrets.secret_assignments import find_assignments

Span = tuple[int, int]
_ALSO_COUNTS = frozenset({"pass", "pw"})  # as in `| Pass | Fail |`
_SAMPLE = "Zq7-kR2vXw94Lm1TbE"


def find_table_secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields (start, end, kind) of cells that would be secrets after `head: `; rows are lines that begin with a bar."""
    if "|" not in text:
        return
    heads: list[str] = []
    at = 0
    for line in text.splitlines(keepends=True):
        cells = _cells(line, at)
        words = [text[a:b] for a, b in cells]
        if not cells:
            heads = []
        elif not heads:
            heads = words if any(_names_a_secret(w) for w in words) else [""] * len(words)
        else:
            for head, (start, _), word in zip(heads, cells, words, strict=False):
                lead = f"{head}: "
                found = find_assignments(lead + word) if _names_a_secret(head) else ()
                yield from ((start + s - len(lead), start + e - len(lead), k) for s, e, k in found if s >= len(lead))
        at += len(line)


def _names_a_secret(head: str) -> bool:
    """Returns whether a cell below this head is a secret where it looks like one."""
    if not 0 < len(head) < 60 or head.lower() in _ALSO_COUNTS:
        return False
    return any(True for _ in find_assignments(f"{head}: {_SAMPLE}"))


def _cells(line: str, at: int) -> list[Span]:
    """Returns the spans of the cells of a row, without the spaces around them; none where the line is no row."""
    row = line.strip()
    if len(row) < 3 or row[0] != "|" or row[-1] != "|":
        return []
    bars = [i for i, c in enumerate(line) if c == "|" and line[i - 1 : i] != "\\"]
    spans = []
    for a, b in pairwise(bars):
        cell = line[a + 1 : b]
        start = at + a + 1 + len(cell) - len(cell.lstrip())
        spans.append((start, max(start, at + a + 1 + len(cell.rstrip()))))
    return spans
