"""Pairs of latest memories that the offline labeler reads as a conflict, which no rule can read.

Of pairs in order of time, what the build found counts. Pairs without an order, which a build never labels, are found by
the same search; these, in both directions, and what a build thought possible are read by the same labeler.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.relations.candidates import change_vectors, unordered_pairs
from palimpsest.relations.labelers.change_encoder import PAIR_CLASSES
from palimpsest.relations.labelers.label_pairs import pair_from_memories
from palimpsest.relations.labelers.label_types import DISPUTED, LabelPair
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.store.tables import completed

MIN_PROPOSED = 0.1
"""Probability that one memory ends the other, from which a pair is proposed."""
MIN_READ = 0.02
"""The same, from which a pair is read once more by itself."""
MIN_GROUPED = 0.005
"""The same, from which a pair is among those that a language model reads."""
MIN_OTHER = 0.2
"""Probability of a conditional or a static conflict together, from which a pair is proposed."""
MAX_CHARACTERS = 600
"""Of a text: a longer one states too much to compare."""


class Pair(NamedTuple):
    """Two memories, the older first where one is.

    Attributes:
        first, second: the memories.
        score: how likely they are a conflict; of pairs that nobody read, their similarity.
        conflict: its kind, where it is read already; `dynamic` where the second may end the first.
    """

    first: Memory
    second: Memory
    score: float
    conflict: str = ""

    @property
    def is_found(self) -> bool:
        """Whether a build found a conflict that is proposed."""
        return bool(self.conflict) and (self.conflict != "dynamic" or self.score >= MIN_PROPOSED)

    @property
    def is_unlikely(self) -> bool:
        """Whether a build found it too unlikely to be read once more, but by a language model."""
        return self.conflict == "dynamic" and self.score < MIN_READ


class Reading(NamedTuple):
    """A pair that is read as a conflict: which kind, and the probability."""

    pair: Pair
    why: str
    probability: float


def labelled_pairs(scope: ScopeMemories) -> Iterator[Pair]:
    """Yields the pairs that the build labelled without an UPDATE and that are both latest.

    A pair that a person decided is settled.
    """
    latest = {m.memory_id: m for m in scope.latest}
    undecided = ~pl.col("labeler").is_in(["person", "formation", "premises"]) & (pl.col("label") != "UPDATE")
    is_disputed = (pl.col("consequence") == DISPUTED).fill_null(False)
    is_likely = pl.col("likelihood") >= MIN_GROUPED
    rows = completed("relations", scope.tables["relations"]).filter(
        undecided, is_disputed | is_likely | pl.col("conflict").is_not_null()
    )
    columns = ("newer_id", "older_id", "likelihood", "confidence", "conflict")
    for newer, older, likelihood, confidence, conflict in rows.select(columns).iter_rows():
        if newer in latest and older in latest and scope.is_looked_at(newer, older):
            if conflict == "static" or (conflict and (likelihood or 0.0) < MIN_PROPOSED):
                yield Pair(latest[older], latest[newer], confidence, conflict)
            else:
                score = confidence if likelihood is None else likelihood
                yield Pair(latest[older], latest[newer], score, "dynamic")


def pairs_without_order(scope: ScopeMemories, documents: pl.DataFrame, vectors: np.ndarray) -> Iterator[Pair]:
    """Yields the nearest pairs of latest memories of which none is known to be newer and that no build labelled.

    Args:
        scope: of the memories.
        documents: of a build.
        vectors: unit vectors of `scope.latest` by the embedder, shape (n, d).
    """
    short = {m.memory_id: m for m in scope.latest if len(m.text) <= MAX_CHARACTERS}
    is_short = np.array([m.memory_id in short for m in scope.latest], bool)
    memories = scope.tables["memories"].filter(pl.col("memory_id").is_in(list(short))).sort("memory_id")
    for first, second, score in unordered_pairs(
        memories, documents, change_vectors(vectors[is_short]), scope.looked_at
    ):
        if frozenset((first, second)) not in scope.labelled:
            yield Pair(short[first], short[second], score)


def read_conflicts(pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Yields the pairs that are a conflict, in order; those of which no build found a conflict are read."""
    read = _read([p for p in pairs if not p.is_found])
    for pair in pairs:
        if pair.is_found:
            yield Reading(pair, pair.conflict, round(pair.score, 3))
        elif found := read.get((pair.first.memory_id, pair.second.memory_id)):
            yield Reading(pair, *found)


def _read(pairs: Sequence[Pair]) -> Mapping[tuple[str, str], tuple[str, float]]:
    """Returns (kind, probability) of the conflicts that are read, by the ids of their pairs."""
    questions = [
        (pair, newer, older)
        for pair in pairs
        for newer, older in ((pair.second, pair.first), (pair.first, pair.second))
        if not older.is_newer_than(newer)
    ]
    found: dict[tuple[str, str], tuple[str, float]] = {}
    groups = [[_label_pair(str(n), newer, older)] for n, (_, newer, older) in enumerate(questions)]
    for (pair, newer, older), read in zip(questions, offline_labeler().read(groups) if groups else (), strict=True):
        ids = (pair.first.memory_id, pair.second.memory_id)
        conflict = _conflict(float(read.ended[0]), read.classes[0], newer.is_newer_than(older))
        if conflict and conflict[1] > found.get(ids, ("", 0.0))[1]:
            found[ids] = conflict
    return found


def _conflict(ended: float, class_logs: np.ndarray, is_ordered: bool) -> tuple[str, float] | None:
    """Returns (kind, probability) of a conflict that was read, None for none."""
    if ended >= MIN_PROPOSED:
        return "dynamic" if is_ordered else "undated", round(ended, 3)
    others = {kind: float(np.exp(class_logs[PAIR_CLASSES.index(kind)])) for kind in ("conditional", "static")}
    total = sum(others.values())
    return (max(others, key=lambda kind: others[kind]), round(total, 3)) if total >= MIN_OTHER else None


def _label_pair(question: str, newer: Memory, older: Memory) -> LabelPair:
    """Returns a pair; those of one `question` would be read together."""
    rows = [(m.text, m.observed_at, m.speaker, m.title, m.heading) for m in (newer, older)]
    return pair_from_memories((question, *rows[0]), (older.memory_id, *rows[1]))
