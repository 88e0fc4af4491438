"""Packs ranked memories into a context under a budget of tokens: whole memories, cited line by line, then sources.

Facts come before their context: what was ranked, then what it replaced, then, in the room that is left, what stands
beside it where it was said or written.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from palimpsest.query.request.types import Memory, RankedMemory

SAME = 0.9  # Jaccard overlap of words from which a text says nothing that another did not

_NEGATIONS = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither", "t"])
_SOURCES = "Sources:"
_FACT, _REPLACED, _CONTEXT = "- ", "  replaced: ", "  context: "
_LEAST = 30  # tokens that the shortest line takes with its citation and its source
_PROJECT_CHARS = 60  # of a project's name in a source
_WORD = re.compile(r"\w+")

CountTokens = Callable[[str], int]


class Beside(NamedTuple):
    """A memory that stands `place` places after another, before it where that is negative."""

    place: int
    memory: Memory


_NOTHING: Mapping[str, Sequence[Beside]] = {}


@dataclass(frozen=True)
class Packed:
    """A context and what is in it.

    Attributes:
        text: lines that each end with `[memory:<id>]`, then `Sources:` and one line for each memory cited.
        packed_ids: the memories whose whole text is in it, in order; `beside` among them.
        folded: memories left out because a better one says the same, by the better one's id.
        tokens: of the text as the embedder counts them, at most the budget.
        beside: memories that are in it as context of others, not because they were ranked.
    """

    text: str = ""
    packed_ids: tuple[str, ...] = ()
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tokens: int = 0
    beside: tuple[Memory, ...] = ()


def pack(
    ranked: Sequence[RankedMemory],
    replaced: Mapping[str, Sequence[Memory]],
    budget_tokens: int,
    count: CountTokens,
    beside: Mapping[str, Sequence[Beside]] = _NOTHING,
) -> Packed:
    """Packs memories in order of rank, each where it still fits, then what they replaced in the room that is left.

    What then still has room is context, the nearest of the best first: no fact makes way for it. An older version that
    is itself ranked stands under the newer one. Tokens of a memory are those stored with it; only citations and sources
    are counted here.

    Args:
        ranked: memories, best first.
        replaced: for a memory's id, the versions it replaced, newest first.
        budget_tokens: of the whole context, citations and sources included.
        count: counts the tokens of a text, without special ones.
        beside: for a memory's id, what stands around it, nearest first.
    """
    groups, folded = _groups(ranked, replaced)
    left = budget_tokens - count(_SOURCES)
    several = len({m.collection for m in ranked}) > 1
    kept: dict[str, _Entry] = {}
    for newest_only in (True, False):
        for versions in groups:
            head = versions[0].memory_id
            for depth, memory in enumerate(versions):
                wanted = isinstance(memory, RankedMemory)
                if wanted != newest_only or (not wanted and head not in kept):
                    continue
                entry = _entry(memory, _REPLACED if depth else _FACT, count, several)
                if entry.tokens <= left:
                    kept[memory.memory_id] = entry
                    left -= entry.tokens
    around, left = _context(groups, kept, folded, beside, left, count, several)
    shown: list[_Entry] = []
    for versions in groups:
        shown += [kept[m.memory_id] for m in versions if m.memory_id in kept]
        shown += [entry for _, entry in sorted(around.get(versions[0].memory_id, ()), key=lambda told: told[0])]
    if not shown:
        return Packed(folded=folded)
    text = "\n".join([*(e.line for e in shown), _SOURCES, *(e.source for e in shown)])
    told = {b.memory.memory_id: b.memory for near in beside.values() for b in near}
    added = tuple(told[e.memory_id] for e in shown if e.memory_id not in kept)
    return Packed(text, tuple(e.memory_id for e in shown), folded, budget_tokens - left, added)


def _context(
    groups: Sequence[Sequence[Memory]],
    kept: Mapping[str, "_Entry"],
    folded: Mapping[str, Sequence[str]],
    beside: Mapping[str, Sequence[Beside]],
    left: int,
    count: CountTokens,
    several: bool,
) -> tuple[dict[str, list[tuple[int, "_Entry"]]], int]:
    """Returns (place, entry) of what is added beside each newest version that is in, and the tokens that are left."""
    known = {m.memory_id for versions in groups for m in versions} | {i for ids in folded.values() for i in ids}
    said = [_told(m) for versions in groups for m in versions if m.memory_id in kept]
    heads = [i for versions in groups if (i := versions[0].memory_id) in kept]
    around: dict[str, list[tuple[int, _Entry]]] = {}
    for nth in range(max((len(beside.get(i, ())) for i in heads), default=0)):
        for head in heads:
            if nth >= len(beside.get(head, ())) or left < _LEAST:
                continue
            place, memory = beside[head][nth]
            if memory.memory_id in known or memory.token_count > left:
                continue
            says = _told(memory)
            if any(_says_the_same(says, other) for other in said):
                continue
            entry = _entry(memory, _CONTEXT, count, several)
            if entry.tokens <= left:
                known.add(memory.memory_id)
                said.append(says)
                around.setdefault(head, []).append((place, entry))
                left -= entry.tokens
    return around, left


@dataclass(frozen=True)
class _Entry:
    memory_id: str
    line: str
    source: str
    tokens: int


def _groups(
    ranked: Sequence[RankedMemory], replaced: Mapping[str, Sequence[Memory]]
) -> tuple[list[list[Memory]], dict[str, tuple[str, ...]]]:
    """Returns chains of versions, newest first, in the order of their best rank, and what was folded into what."""
    by_id: dict[str, Memory] = {m.memory_id: m for m in ranked}
    root = {older.memory_id: newer for newer, chain in replaced.items() for older in chain if newer in by_id}
    groups: dict[str, list[Memory]] = {}
    folded: dict[str, list[str]] = {}
    told: list[tuple[str, _Told]] = []
    placed: set[str] = set()
    for memory in ranked:
        head = memory.memory_id
        passed = {head}
        while (newer := root.get(head)) is not None and newer not in passed:  # a damaged store may hold a circle
            head = newer
            passed.add(head)
        if head in placed:
            continue
        placed.add(head)
        older = [m for m in replaced.get(head, ()) if m.memory_id not in placed]
        chain = [by_id[head], *(by_id.get(m.memory_id, m) for m in older)]
        says = _told(chain[0])
        same = next((i for i, other in told if _says_the_same(says, other)), None)
        if same is not None and len(chain) == 1:
            folded.setdefault(same, []).append(head)
            continue
        told.append((head, says))
        groups[head] = chain
        placed.update(m.memory_id for m in chain)
    return list(groups.values()), {k: tuple(v) for k, v in folded.items()}


@dataclass(frozen=True)
class _Told:
    words: frozenset[str]
    exact: frozenset[str]
    speaker: str | None


def _told(memory: Memory) -> _Told:
    words = frozenset(w.lower() for w in _WORD.findall(memory.text))
    exact = frozenset(w for w in words if w in _NEGATIONS or (not w.isalpha() and any(c.isdigit() for c in w)))
    return _Told(words, exact, memory.speaker)


def _says_the_same(a: _Told, b: _Told) -> bool:
    if a.speaker != b.speaker or a.exact != b.exact:
        return False
    union = len(a.words | b.words)
    return union == 0 or len(a.words & b.words) / union >= SAME


def _entry(memory: Memory, mark: str, count: CountTokens, several: bool) -> _Entry:
    head = f"{mark}{_about(memory)}"
    tail = f"[memory:{memory.memory_id}]"
    # White space is not counted, and a citation inside a text must not pass for one of ours.
    text = " ".join(memory.text.replace("[memory:", "(memory:").split())
    source = f"{tail} {_source(memory, several)}"
    tokens = memory.token_count if memory.token_count > 0 else count(text)
    return _Entry(memory.memory_id, f"{head}{text} {tail}", source, tokens + count(head) + count(tail) + count(source))


def _about(memory: Memory) -> str:
    """When, who, until when, and whether it may be outdated, where known: `(2024-05-01, Ana) `."""
    until = f"until {memory.valid_until:%Y-%m-%d}" if memory.valid_until and not memory.is_latest else ""
    doubt = "may be outdated" if isinstance(memory, RankedMemory) and memory.may_be_outdated else ""
    told = [f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else "", _flat(memory.speaker), until, doubt]
    parts = ", ".join(p for p in told if p)
    return f"({parts}) " if parts else ""


def _source(memory: Memory, with_collection: bool) -> str:
    """Where a memory comes from, and its scope: the collection only where an answer comes from several."""
    place = [_flat(memory.uri) or memory.document_id or "?"]
    if memory.page is not None:
        place.append(f"page {memory.page}")
    elif memory.unit == "turn" and memory.ordinal is not None:
        place.append(f"turn {memory.ordinal}")
    if memory.span:
        place.append(f"chars {memory.span[0]}-{memory.span[1]}")
    if with_collection:
        place.append(f"collection {memory.collection}")
    if memory.project_id:
        place.append(f"project {_flat(memory.project_id)[:_PROJECT_CHARS]}")
    return ", ".join(place)


def _flat(text: str | None) -> str:
    return " ".join((text or "").replace("[", "(").replace("]", ")").split())
