"""The results of a search as facts: the versions of one fact together, repetitions folded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palimpsest.query.request.types import Memory, RankedMemory

SAME = 0.9  # Jaccard overlap of words from which a text repeats another

_NEGATIONS = frozenset(["no", "not", "never", "none", "cannot", "without", "nor", "neither", "t"])
_WORD = re.compile(r"\w+")


def group_versions(
    ranked: Sequence[RankedMemory], replaced: Mapping[str, Sequence[Memory]], fingerprints: "Fingerprints"
) -> tuple[list[list[Memory]], dict[str, tuple[str, ...]]]:
    """Returns chains of versions, newest first, in the order of their best rank, and what was folded into what.

    Args:
        ranked: memories, best first.
        replaced: for a memory's id, the versions it replaced, newest first.
        fingerprints: of the texts to compare.
    """
    by_id: dict[str, Memory] = {m.memory_id: m for m in ranked}
    newer_of = {older.memory_id: newer for newer, chain in replaced.items() for older in chain if newer in by_id}
    groups: dict[str, list[Memory]] = {}
    folded: dict[str, list[str]] = {}
    seen: list[tuple[str, Fingerprint]] = []
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
        words = fingerprints.of(chain[0])
        same = next((i for i, other in seen if is_repetition(words, other)), None)
        if same is not None and len(chain) == 1:
            folded.setdefault(same, []).append(head)
            continue
        seen.append((head, words))
        groups[head] = chain
        grouped.update(m.memory_id for m in chain)
    return list(groups.values()), {k: tuple(v) for k, v in folded.items()}


@dataclass(frozen=True)
class Fingerprint:
    """What two texts that repeat each other share: words, numbers and negations among them, and who speaks."""

    words: frozenset[str]
    exact: frozenset[str]
    speaker: str | None


class Fingerprints:
    """Fingerprints of memories, each made once."""

    def __init__(self) -> None:
        self._known: dict[str, Fingerprint] = {}

    def of(self, memory: Memory) -> Fingerprint:
        """Returns what a memory is compared by."""
        if memory.memory_id not in self._known:
            self._known[memory.memory_id] = _fingerprint(memory)
        return self._known[memory.memory_id]


def _fingerprint(memory: Memory) -> Fingerprint:
    words = frozenset(map(str.lower, _WORD.findall(memory.text)))
    with_digits = [w for w in words if not w.isalpha() and any(map(str.isdigit, w))]
    return Fingerprint(words, (words & _NEGATIONS).union(with_digits), memory.speaker)


def is_repetition(a: Fingerprint, b: Fingerprint) -> bool:
    """Returns whether two texts say the same, one for the other."""
    if a.speaker != b.speaker or a.exact != b.exact:
        return False
    union = len(a.words | b.words)
    return union == 0 or len(a.words & b.words) / union >= SAME
