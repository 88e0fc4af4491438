"""Long tables in blocks of a chunk's size, each with the header; `text_builder` does it for the rows of workbooks."""

import re
from collections.abc import Sequence

_BLOCK_CHARS = 1_200  # about 400 tokens of a table
_DIGIT = re.compile(r"\d")


def table_blocks(rows: Sequence[str], *, has_header: bool) -> list[list[str]]:
    """Returns the rows of a table in blocks; the first row begins each of them where it is the header."""
    head = list(rows[:1]) if has_header and len(rows) > 1 else []
    blocks: list[list[str]] = []
    size = 0
    for row in rows:
        if not blocks or (size + len(row) > _BLOCK_CHARS and len(blocks[-1]) > len(head)):
            blocks.append(list(head) if blocks else [])
            size = sum(map(len, blocks[-1]))
        blocks[-1].append(row)
        size += len(row)
    return blocks


def looks_like_header(rows: Sequence[str]) -> bool:
    """Returns whether the first row has no number where most others have one."""
    others = rows[1:]
    return bool(others) and not _DIGIT.search(rows[0]) and 2 * sum(bool(_DIGIT.search(r)) for r in others) > len(others)
