"""Pairs of latest memories that the offline labeler reads as a conflict, which no rule can read.

Of pairs in order of time, what the build found counts. Pairs without an order, which a build never labels, are found by
the same search and read by the same labeler, in both directions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.relations.candidates.candidate_inputs import CandidateInputs
from palimpsest.relations.candidates.change_vectors import change_vectors
from palimpsest.relations.candidates.find_candidates import unordered_pairs
from palimpsest.relations.classify.label_types import DISPUTED, LabelPair, LabelResult
from palimpsest.relations.classify.offline_labeler import offline_labeler
from palimpsest.store.tables import completed

MIN_PROPOSED = 0.1
"""Probability that one memory ends the other, from which a pair is proposed."""
MIN_GROUPED = 0.02
"""The same, from which a pair is among those that a language model reads."""
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


def pairs_without_order(
    scope: ScopeMemories, documents: pl.DataFrame, embed_inputs: pl.DataFrame, vectors: np.ndarray
) -> Iterator[Pair]:
    """Yields the nearest pairs of latest memories of which none is known to be newer and that no build labelled.

    Args:
        scope: of the memories.
        documents: of a build.
        embed_inputs: of the build; those of other memories are left out.
        vectors: unit vectors of `scope.latest` by the embedder, shape (n, d).
    """
    short = {m.memory_id: m for m in scope.latest if len(m.text) <= MAX_CHARACTERS}
    is_short = np.array([m.memory_id in short for m in scope.latest], bool)
    memories, inputs = (
        t.filter(pl.col("memory_id").is_in(list(short))).sort("memory_id")
        for t in (scope.tables["memories"], embed_inputs)
    )
    given = CandidateInputs(memories, inputs, scope.tables["mentions"], documents)
    for first, second, score in unordered_pairs(given, *change_vectors(vectors[is_short]), scope.looked_at):
        if frozenset((first, second)) not in scope.labelled:
            yield Pair(short[first], short[second], score)


def read_conflicts(pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Yields the pairs that are a conflict, in order; those that no build labelled are read."""
    results = _label([p for p in pairs if not p.conflict])
    for pair in pairs:
        if pair.conflict:
            if pair.conflict != "dynamic" or pair.score >= MIN_PROPOSED:
                yield Reading(pair, pair.conflict, round(pair.score, 3))
        elif found := results.get((pair.first.memory_id, pair.second.memory_id)):
            if (likelihood := found.likelihood or 0.0) >= MIN_PROPOSED:
                yield Reading(pair, "undated", likelihood)
            elif found.conflict:
                yield Reading(pair, found.conflict, found.confidence)


def _label(pairs: Sequence[Pair]) -> Mapping[tuple[str, str], LabelResult]:
    """Returns the result of each pair by its ids: that of the likelier direction, each read by itself."""
    if not pairs:
        return {}
    both = [(p.second, p.first) for p in pairs] + [(p.first, p.second) for p in pairs]
    results = offline_labeler().label([_label_pair(str(n), *of_pair) for n, of_pair in enumerate(both)])
    found: dict[tuple[str, str], LabelResult] = {}
    for pair, one, other in zip(pairs, results[: len(pairs)], results[len(pairs) :], strict=True):
        ids = (pair.first.memory_id, pair.second.memory_id)
        found[ids] = max(one, other, key=lambda r: (r.likelihood or 0.0, r.conflict))
    return found


def _label_pair(question: str, newer: Memory, older: Memory) -> LabelPair:
    """Returns a pair; those of one `question` would be read together."""
    return LabelPair(
        question,
        older.memory_id,
        newer.text,
        older.text,
        newer_context=newer.context,
        older_context=older.context,
        newer_speaker=newer.speaker,
        older_speaker=older.speaker,
        by_position=True,
    )
