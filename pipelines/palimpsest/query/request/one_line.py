"""Stored texts on one line of an answer, with their day and citations; nothing in them passes for a citation."""

import datetime as dt
import re
from collections.abc import Iterable

from palimpsest.query.request.types import NewerText

_MAX_QUOTED = 400  # characters of a newer memory
_HIDDEN = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Returns a text without what a reader or a terminal does not show: control characters, marks of direction."""
    return _HIDDEN.sub("", text)


def one_line(text: str) -> str:
    """Returns a stored text on one line, in which nothing passes for a citation and nothing is hidden."""
    return " ".join(visible(text).replace("[memory:", "(memory:").split())


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


def shorten_text(text: str, max_chars: int) -> str:
    """Returns a text on one line, shortened where it is longer than `max_chars` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "\u2026"


def changed_line(text: str, disputed_by: NewerText | None, later: Iterable[NewerText] = ()) -> str:
    """Returns a text with what disputes it and what was said later about the same, each with its citation.

    Args:
        text: on one line already.
        disputed_by: the newest memory that disputes it.
        later: others.
    """
    newer = [("disputed by", disputed_by), *(("later", n) for n in later)]
    return " ".join([text, *(f"({word} {_newer_text(by)})" for word, by in newer if by is not None)])


def _newer_text(by: NewerText) -> str:
    day = by.observed_at.date().isoformat() if by.observed_at else "undated"
    return f"[memory:{by.memory_id}], {day}: “{one_line(shorten_text(by.text, _MAX_QUOTED))}”"
