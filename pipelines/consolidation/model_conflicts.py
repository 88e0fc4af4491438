"""Pairs of memories that the judge of builds reads as a conflict, which no rule can read.

Pairs in order of time are those that the build labelled; of pairs without an order, which a build never compares, the
most similar ones are read in both directions. Pairs in order of time that are among the most similar are read too.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.relations.candidates.scope_search import quantize
from palimpsest.relations.classify.encoder.change_encoder import (
    JUDGE_FILE,
    PAIR_CLASSES,
    ChangeQuestion,
    shipped_encoder,
)
from palimpsest.relations.classify.encoder.change_input import Statement
from palimpsest.relations.classify.label_types import DISPUTED
from palimpsest.store.tables import completed
from palimpsest.text.words import content_words, stem_words

MIN_CONFLICT = 0.2
"""Probability of `update`, `conditional` and `static` together, from which a pair is proposed."""
MIN_LIKELIHOOD = 0.02
"""Of an UPDATE, as a build estimated it, for a pair that got none to be read."""
PER_MEMORY = 3
"""The most similar memories that each one is compared with."""
MIN_SIMILARITY = 0.3
MAX_CHARACTERS = 600
"""Of a text: a longer one states too much to compare."""
_BLOCK_ROWS = 256
_CONFLICTS = {"update": "dynamic", "conditional": "conditional", "static": "static"}


class Pair(NamedTuple):
    """Two memories to read, the older first where one is, and their similarity."""

    first: Memory
    second: Memory
    score: float


class Reading(NamedTuple):
    """What the judge reads in a pair: the likeliest conflict, and the probability of any."""

    pair: Pair
    why: str
    probability: float


def labelled_pairs(scope: ScopeMemories) -> Iterator[Pair]:
    """Yields the pairs that the build labelled without an UPDATE and that are both latest, likeliest first.

    Which are likely is what the build found: pairs of which the newer memory disputes the older one, or may end it. A
    pair that a person decided is settled.
    """
    latest = {m.memory_id: m for m in scope.latest}
    undecided = ~pl.col("labeler").is_in(["person", "formation", "premises"]) & (pl.col("label") != "UPDATE")
    is_disputed = (pl.col("consequence") == DISPUTED).fill_null(False)
    rows = completed("relations", scope.tables["relations"]).filter(
        undecided, is_disputed | (pl.col("likelihood") >= MIN_LIKELIHOOD) | pl.col("conflict").is_not_null()
    )
    likely = rows.select(pl.when(is_disputed).then(1.0).otherwise(pl.col("likelihood").fill_null(0.0))).to_series()
    rows = rows.select("newer_id", "older_id")
    for (newer, older), score in zip(rows.iter_rows(), likely.to_list(), strict=True):
        if newer in latest and older in latest and scope.is_looked_at(newer, older):
            yield Pair(latest[older], latest[newer], score)


def similar_pairs(scope: ScopeMemories, vectors: np.ndarray, ids: Sequence[str]) -> Iterator[Pair]:
    """Yields for each looked-at latest memory the most similar ones, each pair once.

    Args:
        scope: the scope.
        vectors: unit vectors aligned to `ids`, shape (n, d).
        ids: of memories of the scope.
    """
    row_of = {i: n for n, i in enumerate(ids)}
    members = [m for m in scope.latest if m.memory_id in row_of]
    packed = quantize(vectors[[row_of[m.memory_id] for m in members]]) if members else vectors
    seen: set[tuple[str, str]] = set()
    terms: dict[str, frozenset[str]] = {}
    looked_at = [n for n, m in enumerate(members) if scope.is_looked_at(m.memory_id)]
    for n, scores in _similarities(packed, looked_at):
        m, found = members[n], 0
        for k in _best(scores):
            other = members[k]
            if scores[k] < MIN_SIMILARITY or found == PER_MEMORY:
                break
            if k == n or not _shares_word(m, other, terms):
                continue
            found += 1
            first, second = sorted((m, other), key=lambda x: x.memory_id)
            if first.is_newer_than(second):
                first, second = second, first
            if (first.memory_id, second.memory_id) not in seen:
                seen.add((first.memory_id, second.memory_id))
                yield Pair(first, second, float(scores[k]))


def _similarities(packed: np.ndarray, rows: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the similarities of each row to all rows, rounded to 3 decimals."""
    norm = float((packed[:1] * packed[:1]).sum()) or 1.0
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = list(rows[start : start + _BLOCK_ROWS])
        products = np.round(packed[block] @ packed.T / norm, 3)
        yield from zip(block, products, strict=True)


def _best(scores: np.ndarray) -> list[int]:
    """Returns the places of the highest scores, ties by place: enough of them that some may be left out."""
    many = 16 * PER_MEMORY
    places = np.arange(len(scores))
    if len(scores) > many:
        places = np.flatnonzero(scores >= np.partition(scores, -many)[-many])
    best: list[int] = places[np.lexsort((places, -scores[places]))].tolist()
    return best


def read_conflicts(pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Yields the pairs that the judge reads as a conflict; pairs without an order are read in both directions."""
    read = [p for p in pairs if max(len(p.first.text), len(p.second.text)) <= MAX_CHARACTERS]
    if not read:
        return
    ordered = [p.second.is_newer_than(p.first) for p in read]
    directions = [
        [(p.second, p.first)] if is_ordered else [(p.second, p.first), (p.first, p.second)]
        for p, is_ordered in zip(read, ordered, strict=True)
    ]
    questions = [ChangeQuestion(_statement(n), [_statement(o)]) for of_pair in directions for n, o in of_pair]
    found = iter(shipped_encoder(JUDGE_FILE).read(questions))
    of_conflict = [PAIR_CLASSES.index(name) for name in _CONFLICTS]
    for pair, of_pair, is_ordered in zip(read, directions, ordered, strict=True):
        predicted = [np.exp(next(found).classes[0].astype(np.float64)) for _ in of_pair]
        best = max(predicted, key=lambda p: float(p[of_conflict].sum()))
        probability = round(float(best[of_conflict].sum()), 3)
        if probability >= MIN_CONFLICT:
            why = _CONFLICTS[PAIR_CLASSES[max(of_conflict, key=lambda i: float(best[i]))]]
            yield Reading(pair, "undated" if why == "dynamic" and not is_ordered else why, probability)


def _statement(memory: Memory) -> Statement:
    return Statement(memory.text, memory.speaker or "", memory.observed_at)


def _shares_word(a: Memory, b: Memory, terms: dict[str, frozenset[str]]) -> bool:
    for m in (a, b):
        if m.memory_id not in terms:
            terms[m.memory_id] = stem_words(content_words(m.text))
    return not terms[a.memory_id].isdisjoint(terms[b.memory_id])
