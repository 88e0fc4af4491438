"""The memories next to a result that complete it.

They are the reply to a question, the question of a short reply, and what a statement that refers back is about.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from palimpsest.query.context.pack import NeighborContext
from palimpsest.query.request.types import Memory
from palimpsest.query.scope.scope_arrays import rows_of
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.query.turns.phrases import find_names
from palimpsest.text.sentences import refers_back

REACH = 1  # neighbors on each side
_MAX_TOKENS = 80  # of a neighbor: a longer one says more than what is missing
_SHORT_REPLY = 8  # words
_YES_OR_NO = re.compile(r"(?:yes|yeah|yep|no|nope|sure|of course|exactly|right|me too|not yet|both|neither)\b", re.I)

_HE_OR_SHE = re.compile(r"(?:And |But |So )?(He|She)\b", re.IGNORECASE)

NeighborIds = Mapping[str, Sequence[tuple[int, str]]]
"""For a memory's id, (offset, id) of its neighbors, nearest first."""


def neighbor_ids(served: ServedScope, ids: Sequence[str], reach: int = REACH) -> dict[str, list[tuple[int, str]]]:
    """Returns (offset, id) of the candidates around each of `ids`, nearest first; none where the store has no view.

    Args:
        served: the scope; its filters say which memories are candidates.
        ids: memories of the scope.
        reach: how many neighbors on each side.
    """
    view = served.view() if ids else None
    if view is None:
        return {}
    order = view.reading_order()
    found = {i: order.neighbors(row, reach) for i, row in zip(ids, rows_of(view.ids, ids).tolist(), strict=True)}
    if not any(found.values()):
        return {}
    allowed = view.allowed(served.filters)
    return {i: _select_ids(view.ids, allowed, around) for i, around in found.items()}


def distinct_ids(neighbors: NeighborIds) -> list[str]:
    """Returns the id of every neighbor once, sorted."""
    return sorted({i for near in neighbors.values() for _, i in near})


def neighbor_contexts(neighbors: NeighborIds, memories: Mapping[str, Memory]) -> dict[str, list[NeighborContext]]:
    """Returns the neighbors that complete each memory as packing takes them; `memories` of the same scope by id."""
    return {
        i: [
            NeighborContext(offset, memories[n], pronoun_name(memories[i], memories[n]) if offset < 0 else "")
            for offset, n in near
            if completes(memories[i], offset, memories[n])
        ]
        for i, near in neighbors.items()
    }


def pronoun_name(memory: Memory, before: Memory) -> str:
    """Returns what the pronoun at the start of a turn refers to, `she = Ana`; "" where the turn before has no one name.

    Names of the two speakers, whole or short, are left out: they address each other.
    """
    refers = _HE_OR_SHE.match(memory.text)
    if refers is None:
        return ""
    speakers = [s.lower() for s in (memory.speaker, before.speaker) if s]
    names = {n.text for n in find_names(before.text) if n.is_sure and n.may_be_person and not n.is_place}
    others = sorted(n for n in names if not any(s.startswith(n.lower()) for s in speakers))
    return f"{refers[1].lower()} = {others[0]}" if len(others) == 1 else ""


def completes(memory: Memory, offset: int, neighbor: Memory) -> bool:
    """Returns whether a memory is hard to understand, or says nothing, without the one before or after it."""
    if neighbor.token_count > _MAX_TOKENS:
        return False
    if offset > 0:
        return _is_question(memory) and memory.speaker != neighbor.speaker
    words = memory.text.split()
    is_reply = memory.speaker != neighbor.speaker and _is_question(neighbor)
    is_short = len(words) <= _SHORT_REPLY or _YES_OR_NO.match(memory.text) is not None
    return refers_back(memory.text) or (is_reply and is_short)


def _is_question(memory: Memory) -> bool:
    return memory.unit == "turn" and memory.text.rstrip().endswith("?")


def _select_ids(ids: np.ndarray, allowed: np.ndarray, around: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
    return [(offset, str(ids[row])) for offset, row in around if allowed[row]]
