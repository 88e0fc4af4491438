"""The order in which a context is read: topics by their best result, and within a topic in order of time.

All turns of a user are one topic: what was said first comes first. So is each document: its passages come in its order.
A question about the present has the newest turns first.
"""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from palimpsest.query.request.types import Memory

_PRESENT = re.compile(
    r"\b(?:now|currently|current|still|today|these days|at the moment|latest|newest|most recent(?:ly)?|any ?more)\b",
    re.I,
)
_NO_TIME = dt.datetime.min.replace(tzinfo=dt.UTC)

T = TypeVar("T")


@dataclass(frozen=True)
class Block(Generic[T]):
    """A result with what stands under it."""

    memory: Memory
    entries: tuple[T, ...]


def asks_present(question: str) -> bool:
    """Returns whether a question asks what holds now."""
    return _PRESENT.search(question) is not None


def in_reading_order(blocks: Iterable[Block[T]], newest_first: bool) -> list[T]:
    """Returns the entries of blocks, which are given best first.

    Args:
        blocks: each with the newest version of a result.
        newest_first: of turns.
    """
    topics: dict[tuple[str, ...], list[Block[T]]] = {}
    for block in blocks:
        topics.setdefault(_topic(block.memory), []).append(block)
    ordered: list[T] = []
    for found in topics.values():
        reverse = newest_first and found[0].memory.unit == "turn"
        for block in sorted(found, key=lambda b: _place(b.memory), reverse=reverse):
            ordered += block.entries
    return ordered


def _topic(memory: Memory) -> tuple[str, ...]:
    if memory.unit == "turn":
        return memory.collection, memory.user_id
    return memory.collection, memory.user_id, memory.document_id or memory.memory_id


def _place(memory: Memory) -> tuple[dt.datetime, str, int, str]:
    when = (memory.observed_at or _NO_TIME) if memory.unit == "turn" else _NO_TIME
    return when, memory.document_id or "", memory.ordinal or 0, memory.memory_id
