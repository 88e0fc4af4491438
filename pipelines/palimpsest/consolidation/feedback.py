"""What a person says of one memory, right or wrong: a line of `decisions.jsonl` that the next build applies."""

import datetime as dt
from typing import Literal

from palimpsest.core.ids import ScopeKey, content_id, scope_parts
from palimpsest.store.decisions import MemoryDecision, append_made, append_undone, read_decisions
from palimpsest.store.home import Home

Verdict = Literal["right", "wrong"]


def give_feedback(home: Home, scope: ScopeKey, memory_id: str, verdict: Verdict) -> None:
    """Says of a memory that it is right, so that it is sure, or wrong, so that it is no longer served.

    It counts from the next build on, until other feedback takes its place. What is wrong is not shown as history
    either, and stays in the tables.

    Args:
        home: the home.
        scope: of the memory.
        memory_id: the memory, as a context cites it.
        verdict: of a person.
    """
    with home.lock():
        append_made(home.decisions, _decision(scope, memory_id, verdict))


def take_feedback_back(home: Home, scope: ScopeKey, memory_id: str) -> None:
    """Takes back what was said of a memory, from the next build on."""
    with home.lock():
        append_undone(home.decisions, _decision(scope, memory_id, "right"))


def has_feedback(home: Home, scope: ScopeKey, memory_id: str) -> bool:
    """Returns whether something was said of a memory of a scope, and not taken back."""
    target = _decision(scope, memory_id, "right").proposal_id
    return any(d.proposal_id == target for d in read_decisions(home.decisions).memories)


def _decision(scope: ScopeKey, memory_id: str, verdict: Verdict) -> MemoryDecision:
    target = content_id("feedback", *scope_parts(*scope), memory_id)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    if verdict == "right":
        return MemoryDecision(target, "confidence", memory_id, value=1.0, at=now, scope=scope)
    return MemoryDecision(target, "prune", memory_id, at=now, scope=scope)
