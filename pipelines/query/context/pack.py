"""Packs ranked memories into a context under a budget of tokens: whole memories, cited line by line, then sources.

Facts come before their context: ranked memories, then the versions they replaced, then, in the tokens that are left,
the memories next to them in their session or document.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from palimpsest.query.request.types import Memory, RankedMemory

SAME = 0.9  # Jaccard overlap of words from which a text repeats another

_NEGATIONS = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither", "t"])
_SOURCES = "Sources:"
_FACT, _REPLACED, _CONTEXT = "- ", "  replaced: ", "  context: "
_MIN_ENTRY_TOKENS = 30  # of the shortest line with its citation and its source
_PROJECT_CHARS = 60  # of a project's name in a source
_WORD = re.compile(r"\w+")

CountTokens = Callable[[str], int]


class NeighborContext(NamedTuple):
    """A memory `offset` positions after another, before it where that is negative."""

    offset: int
    memory: Memory


_NO_NEIGHBORS: Mapping[str, Sequence[NeighborContext]] = {}


@dataclass(frozen=True)
class Packed:
    """A context and what is in it.

    Attributes:
        text: lines that each end with `[memory:<id>]`, then `Sources:` and one line for each memory cited.
        packed_ids: the memories whose whole text is in it, in order, those of `beside` included.
        folded: memories left out because they repeat a better one, by the better one's id.
        tokens: of the text as the embedder counts them, at most the budget.
        beside: memories in it as context of others, not because they were ranked.
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
    neighbors: Mapping[str, Sequence[NeighborContext]] = _NO_NEIGHBORS,
) -> Packed:
    """Packs memories in order of rank, each where it still fits, then what they replaced in the tokens that are left.

    Context comes last, the nearest of the best first, and never displaces a fact. An older version that is itself
    ranked goes under the newer one. Tokens of a memory are those stored with it; only citations and sources are counted
    here.

    Args:
        ranked: memories, best first.
        replaced: for a memory's id, the versions it replaced, newest first.
        budget_tokens: of the whole context, citations and sources included.
        count: counts the tokens of a text, without special ones.
        neighbors: for a memory's id, its neighbors, nearest first.
    """
    groups, folded = _group_versions(ranked, replaced)
    packer = _Packer(budget_tokens - count(_SOURCES), count, len({m.collection for m in ranked}) > 1)
    for newest_only in (True, False):
        for versions in groups:
            packer.add_versions(versions, newest_only)
    folded_ids = {i for ids in folded.values() for i in ids}
    around = packer.add_neighbors(groups, folded_ids, neighbors)
    packed: list[_Entry] = []
    for versions in groups:
        packed += [packer.entries[m.memory_id] for m in versions if m.memory_id in packer.entries]
        packed += [entry for _, entry in sorted(around.get(versions[0].memory_id, ()), key=lambda near: near[0])]
    if not packed:
        return Packed(folded=folded)
    text = "\n".join([*(e.line for e in packed), _SOURCES, *(e.source for e in packed)])
    memories = {n.memory.memory_id: n.memory for near in neighbors.values() for n in near}
    added = tuple(memories[e.memory_id] for e in packed if e.memory_id not in packer.entries)
    return Packed(text, tuple(e.memory_id for e in packed), folded, budget_tokens - packer.left, added)


@dataclass(frozen=True)
class _Entry:
    memory_id: str
    line: str
    source: str
    tokens: int


class _Packer:
    """The entries of a context so far, and the tokens that are left.

    Attributes:
        left: tokens.
        entries: of facts and of the versions that they replaced, by memory id.
    """

    def __init__(self, left: int, count: CountTokens, several_collections: bool):
        self.left, self._count, self._several = left, count, several_collections
        self.entries: dict[str, _Entry] = {}

    def add_versions(self, versions: Sequence[Memory], ranked_only: bool) -> None:
        """Adds the versions of one fact that fit: ranked ones, or in a second pass others under a packed one."""
        head = versions[0].memory_id
        for depth, memory in enumerate(versions):
            is_ranked = isinstance(memory, RankedMemory)
            if is_ranked != ranked_only or (not is_ranked and head not in self.entries):
                continue
            if entry := self._fit(memory, _REPLACED if depth else _FACT):
                self.entries[memory.memory_id] = entry

    def add_neighbors(
        self,
        groups: Sequence[Sequence[Memory]],
        folded: Set[str],
        neighbors: Mapping[str, Sequence[NeighborContext]],
    ) -> dict[str, list[tuple[int, _Entry]]]:
        """Adds neighbors of each packed newest version, nearest first, and returns (offset, entry) by that version."""
        known = {m.memory_id for versions in groups for m in versions} | folded
        packed = [_fingerprint(m) for versions in groups for m in versions if m.memory_id in self.entries]
        heads = [i for versions in groups if (i := versions[0].memory_id) in self.entries]
        around: dict[str, list[tuple[int, _Entry]]] = {}
        for nth in range(max((len(neighbors.get(i, ())) for i in heads), default=0)):
            for head in heads:
                if nth >= len(neighbors.get(head, ())) or self.left < _MIN_ENTRY_TOKENS:
                    continue
                offset, memory = neighbors[head][nth]
                if memory.memory_id in known or memory.token_count > self.left:
                    continue
                fingerprint = _fingerprint(memory)
                if any(_is_repetition(fingerprint, other) for other in packed):
                    continue
                if entry := self._fit(memory, _CONTEXT):
                    known.add(memory.memory_id)
                    packed.append(fingerprint)
                    around.setdefault(head, []).append((offset, entry))
        return around

    def _fit(self, memory: Memory, mark: str) -> _Entry | None:
        """Returns the memory's entry and takes its tokens, where they are left."""
        entry = _entry(memory, mark, self._count, self._several)
        if entry.tokens > self.left:
            return None
        self.left -= entry.tokens
        return entry


def _group_versions(
    ranked: Sequence[RankedMemory], replaced: Mapping[str, Sequence[Memory]]
) -> tuple[list[list[Memory]], dict[str, tuple[str, ...]]]:
    """Returns chains of versions, newest first, in the order of their best rank, and what was folded into what."""
    by_id: dict[str, Memory] = {m.memory_id: m for m in ranked}
    newer_of = {older.memory_id: newer for newer, chain in replaced.items() for older in chain if newer in by_id}
    groups: dict[str, list[Memory]] = {}
    folded: dict[str, list[str]] = {}
    fingerprints: list[tuple[str, _Fingerprint]] = []
    grouped: set[str] = set()
    for memory in ranked:
        head = memory.memory_id
        passed = {head}
        while (newer := newer_of.get(head)) is not None and newer not in passed:  # a damaged store may have a cycle
            head = newer
            passed.add(head)
        if head in grouped:
            continue
        grouped.add(head)
        older = [m for m in replaced.get(head, ()) if m.memory_id not in grouped]
        chain = [by_id[head], *(by_id.get(m.memory_id, m) for m in older)]
        fingerprint = _fingerprint(chain[0])
        same = next((i for i, other in fingerprints if _is_repetition(fingerprint, other)), None)
        if same is not None and len(chain) == 1:
            folded.setdefault(same, []).append(head)
            continue
        fingerprints.append((head, fingerprint))
        groups[head] = chain
        grouped.update(m.memory_id for m in chain)
    return list(groups.values()), {k: tuple(v) for k, v in folded.items()}


@dataclass(frozen=True)
class _Fingerprint:
    words: frozenset[str]
    exact: frozenset[str]
    speaker: str | None


def _fingerprint(memory: Memory) -> _Fingerprint:
    words = frozenset(w.lower() for w in _WORD.findall(memory.text))
    exact = frozenset(w for w in words if w in _NEGATIONS or (not w.isalpha() and any(c.isdigit() for c in w)))
    return _Fingerprint(words, exact, memory.speaker)


def _is_repetition(a: _Fingerprint, b: _Fingerprint) -> bool:
    if a.speaker != b.speaker or a.exact != b.exact:
        return False
    union = len(a.words | b.words)
    return union == 0 or len(a.words & b.words) / union >= SAME


def _entry(memory: Memory, mark: str, count: CountTokens, several: bool) -> _Entry:
    head = f"{mark}{_attribution(memory)}"
    tail = f"[memory:{memory.memory_id}]"
    # White space is not counted, and a citation inside a text must not pass for one of ours.
    text = " ".join(memory.text.replace("[memory:", "(memory:").split())
    source = f"{tail} {_source(memory, several)}"
    tokens = memory.token_count if memory.token_count > 0 else count(text)
    return _Entry(memory.memory_id, f"{head}{text} {tail}", source, tokens + count(head) + count(tail) + count(source))


def _attribution(memory: Memory) -> str:
    """Returns when, who, until when, and whether other text speaks against it, where known: `(2024-05-01, Ana) `."""
    until = f"until {memory.valid_until:%Y-%m-%d}" if memory.valid_until and not memory.is_latest else ""
    ranked = memory if isinstance(memory, RankedMemory) else None
    doubt = "may be outdated" if ranked and ranked.may_be_outdated else ""
    conflict = ranked.contradicted_by.mark if ranked and ranked.contradicted_by else ""
    observed = f"{memory.observed_at:%Y-%m-%d}" if memory.observed_at else ""
    parts = ", ".join(p for p in (observed, _flat(memory.speaker), until, doubt, conflict) if p)
    return f"({parts}) " if parts else ""


def _source(memory: Memory, with_collection: bool) -> str:
    """Returns where a memory comes from, and its scope: the collection only where an answer comes from several."""
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
