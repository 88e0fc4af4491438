"""Memories that say the same: only where words, numbers, names and their order agree, never by similarity alone."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.query.request.one_line import shorten_text
from palimpsest.relations.classify.rules.values import read_value
from palimpsest.store.proposals import Proposal
from palimpsest.text.normalize import fold
from palimpsest.text.words import content_words, stem_words

MIN_CONTENT_WORDS = 3
"""A shorter text (`Yes, please.`) means something else at each place."""
_MAX_QUOTE = 120
_NEUTRAL = frozenset({"the", "a", "an", "that", "also", "just", "please", "really", "very", "note", "fyi"})
_WORD = re.compile(r"[€$£%°]|[^\W_](?:[\w\-.:/']*\w)?")
_ME = frozenset({"i", "my", "me", "mine", "we", "our", "us", "you", "your"})
_ELSEWHERE_LIST = """
he she it they his her its their him them this these those there here then such same another other
"""
_POINTS_ELSEWHERE = frozenset(_ELSEWHERE_LIST.split())
_NOW_LIST = """
now today tonight tomorrow yesterday currently soon recently just ago this next last week month year morning evening
monday tuesday wednesday thursday friday saturday sunday
"""
_NOW = frozenset(_NOW_LIST.split())


def duplicates(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a proposal for each latest memory that repeats another; the other stays.

    The other is the one that is trusted more, then the one that something rests on, then the newest, then the first by
    id. Nothing that something rests on is proposed to go.
    """
    groups: dict[tuple[object, ...], list[Memory]] = defaultdict(list)
    for memory in scope.latest:
        if key := duplicate_key(memory):
            groups[key].append(memory)
    for members in groups.values():
        if len(members) < 2 or not scope.is_looked_at(*(m.memory_id for m in members)):
            continue
        kept, *others = _best_first(scope, members)
        for other in others:
            if other.memory_id in scope.rested_on or other.document_id == kept.document_id:
                continue
            yield Proposal(
                "duplicate",
                "same text" if fold(other.text) == fold(kept.text) else "same words",
                scope.scope,
                (other.memory_id, kept.memory_id),
                f"says the same as another memory: {shorten_text(kept.text, _MAX_QUOTE)}",
                0.95 if fold(other.text) == fold(kept.text) else 0.85,
                keep=kept.memory_id,
                drop=other.memory_id,
            )


def duplicate_key(memory: Memory) -> tuple[object, ...] | None:
    """Returns what two memories must share to say the same; None for a text that depends on its place.

    That is every word but articles and fillers, in order, stemmed, with numbers as values, so that `nine` is `9`; title
    and heading, where the text names nothing itself; who says it, where it says `I` or `you`; and the day, where it
    says `today` or states what happened.
    """
    words = _WORD.findall(fold(memory.text).replace("\u2019", "'"))
    content = content_words(memory.text)
    if len(content) < MIN_CONTENT_WORDS or not _POINTS_ELSEWHERE.isdisjoint(words) or "?" in memory.text:
        return None
    kept = tuple(_plain(w) for w in words if w not in _NEUTRAL)
    speaker = memory.speaker if not _ME.isdisjoint(words) else None
    is_about_a_day = not _NOW.isdisjoint(words) or _has_past_verb(memory)
    day = memory.observed_at.date().isoformat() if is_about_a_day and memory.observed_at else None
    session = memory.session_id if is_about_a_day and day is None else None
    names_itself = all(s.names for s in memory.reading.sentences)
    return kept, "" if names_itself else fold(memory.context), speaker, day, session


def _has_past_verb(memory: Memory) -> bool:
    """Returns whether a sentence states what happened: the same may happen on two days."""
    return any(s.past for s in memory.reading.sentences)


def _plain(word: str) -> str:
    if any(c.isdigit() for c in word):
        return read_value(word).key
    value = read_value(word)
    return value.key if value.kind == "number" else next(iter(stem_words(frozenset({word}))), word)


def _best_first(scope: ScopeMemories, members: Sequence[Memory]) -> list[Memory]:
    def key(m: Memory) -> tuple[float, bool, bool, int, str]:
        return (-m.trust, m.memory_id not in scope.rested_on, m.at is None, -(m.at or 0), m.memory_id)

    return sorted(members, key=key)
