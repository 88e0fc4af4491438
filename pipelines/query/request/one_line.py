"""Stored texts on one line of an answer, with their day and citations; nothing in them passes for a citation."""

import datetime as dt
from collections.abc import Iterable


def one_line(text: str) -> str:
    """Returns a stored text on one line, in which nothing passes for a citation."""
    return " ".join(text.replace("[memory:", "(memory:").split())


def cited_line(text: str, memory_ids: Iterable[str], time: dt.datetime | None, speaker: str | None = None) -> str:
    """Returns a text after its day and speaker, where these are known, and before its citations.

    Args:
        text: on one line already, such as from `one_line`.
        memory_ids: the memories that state it.
        time: when it was observed.
        speaker: who says it.
    """
    day = f"{time.date().isoformat()}  " if time else ""
    return f"{day}{f'{one_line(speaker)}: ' if speaker else ''}{text} {' '.join(f'[memory:{i}]' for i in memory_ids)}"
