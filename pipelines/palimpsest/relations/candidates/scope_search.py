"""The candidate pairs of one scope: how many per memory, how similar they must be, and the search for them."""

from collections.abc import Callable, Collection, Iterator
from functools import cached_property

import numpy as np
import polars as pl

from palimpsest.text.words import fold

PER_MEMORY = 6
"""Live older memories of each live one."""
PER_RETIRED = 1
"""Live newer memories of each retired one."""
MIN_SIMILARITY = 0.1
"""Of the vectors of `change_vectors`; see there."""
_SCALE = 4000  # integers below it: any sum of products is under 2^24, so float32 adds them exactly in every order
_UNIT = float(_SCALE * _SCALE)
_MIN_PRODUCT = (MIN_SIMILARITY - 0.0006) * _UNIT  # what rounds to the minimum
_BLOCK_ROWS = 512
_NEAREST = 64


def quantize(vectors: np.ndarray) -> np.ndarray:
    """Whole numbers in float32, shape (n, d): their dot products are exact, whatever the block, kernel or threads."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    scale = _SCALE / np.maximum(norms, 1.0)
    return np.asarray(np.rint(np.nan_to_num(vectors) * np.nan_to_num(scale)[:, None]), np.float32)


def products_of(newer: np.ndarray, older: np.ndarray) -> np.ndarray:
    """Returns the similarity of each row with the same row of another array, rounded, both quantized, shape (n,)."""
    found: np.ndarray = np.round(np.einsum("ij,ij->i", newer, older, dtype=np.float64) / _UNIT, 3)
    return found


class ScopeSearch:
    """The memories of one scope, oldest first, and the best older memories of each."""

    def __init__(
        self,
        rows: pl.DataFrame,
        as_newer: np.ndarray,
        as_older: np.ndarray,
        texts: pl.Series,
        entities: dict[str, frozenset[str]],
    ):
        """Makes a search.

        Args:
            rows: `memory_state` of the scope, oldest first.
            as_newer: vectors of the rows as newer memories, quantized, shape (len(rows), d).
            as_older: the same as older ones.
            texts: of the rows.
            entities: ids of the entities that a memory mentions, by memory id.
        """
        self.ids: list[str] = rows["memory_id"].to_list()
        self._newer, self._older = as_newer, as_older
        self._live = rows["live"].to_numpy()
        self._is_person = rows["is_person"].to_numpy()
        self._texts = texts
        self._entities = entities
        n = len(self.ids)
        self._id_rank = np.empty(n, np.int64)
        self._id_rank[np.argsort(np.array(self.ids))] = np.arange(n)
        # Older than row i: dated rows before its time, and rows before its position in its own line and time.
        at, line = rows["at"], rows["line"].fill_null(-1)
        self._first_dated = int(at.null_count())
        self._time_end = _run_starts(at.rle_id().to_numpy())
        self._time_end[: self._first_dated] = self._first_dated
        runs = rows.select(line=pl.struct("at", line), position=pl.struct("at", line, "seq", "ordinal"))
        self._line_start = _run_starts(runs["line"].rle_id().to_numpy())
        self._line_end = _run_starts(runs["position"].rle_id().to_numpy())

    def reason(self, newer: str, older: str) -> str:
        """Returns why two memories are a pair: an entity that both name, else their vectors alone."""
        shared = self._entities.get(newer, frozenset()) & self._entities.get(older, frozenset())
        return f"vector+entity:{min(shared)}" if shared else "vector"

    def best_pairs(
        self, todo: set[str], changed: set[str], carried: pl.DataFrame | None, advance: Callable[[int], None]
    ) -> Iterator[tuple[str, str, float]]:
        """Yields (newer, older, score).

        Args:
            todo: live memories whose older ones are all searched, and retired ones whose newer ones are.
            changed: memories that may add pairs to the others.
            carried: earlier pairs of those; None where there is no earlier build.
            advance: is called with the number of memories done.
        """
        is_todo = np.array([m in todo for m in self.ids], bool)
        for search, of_kind in ((self._search_older, self._live), (self._search_newer, ~self._live)):
            full = np.flatnonzero(is_todo & of_kind)
            for start in range(0, len(full), _BLOCK_ROWS):
                block = full[start : start + _BLOCK_ROWS]
                yield from search(block)
                advance(len(block))
        if carried is None:
            return
        added = np.array([m in changed for m in self.ids], bool) & self._live
        worst = self._worst_carried(carried)
        yield from self._additions(np.flatnonzero(~is_todo & self._live), np.flatnonzero(added), worst[:, None])
        yield from self._additions(np.flatnonzero(added), np.flatnonzero(~is_todo & ~self._live), worst)

    def unordered_pairs(self, of: Collection[str]) -> Iterator[tuple[str, str, float]]:
        """Yields (memory, memory, score) of the nearest pairs of which none is known to be newer, each once.

        Args:
            of: ids of memories whose pairs are found.
        """
        if not self._first_dated and len(np.unique(self._time_end)) == len(self.ids):
            return  # each has a time of its own
        rows = np.flatnonzero(np.array([m in of for m in self.ids], bool) & self._live)
        others, seen = np.flatnonzero(self._live), set()
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = rows[start : start + _BLOCK_ROWS]
            both = np.maximum(self._newer[block] @ self._older.T, self._older[block] @ self._newer.T)
            for products, row in zip(both, map(int, block), strict=True):
                own = np.array([row])
                is_open = ~(self._is_older(own, others) | self._is_older(others, own)) & (others != row)
                hits = others[is_open & (products[others] >= _MIN_PRODUCT)]
                for j, score in self._top(row, hits, products, PER_MEMORY):
                    pair = (min(self.ids[row], self.ids[j]), max(self.ids[row], self.ids[j]))
                    if pair not in seen:
                        seen.add(pair)
                        yield *pair, score

    def _search_older(self, rows: np.ndarray) -> Iterator[tuple[str, str, float]]:
        """Yields the best pairs of live rows with live older ones."""
        width = int(max(self._time_end[rows].max(), self._line_end[rows].max()))
        if not width:
            return
        products = self._newer[rows] @ self._older[:width].T
        for row_products, row in zip(products, map(int, rows), strict=True):
            older = (slice(self._first_dated, self._time_end[row]), slice(self._line_start[row], self._line_end[row]))
            hits = np.concatenate([np.flatnonzero(row_products[s] >= _MIN_PRODUCT) + s.start for s in older])
            hits = hits[self._live[hits] & self._may_pair(np.array([row]), hits)]
            for j, score in self._top(row, hits, row_products, PER_MEMORY):
                yield self.ids[row], self.ids[j], score

    def _search_newer(self, rows: np.ndarray) -> Iterator[tuple[str, str, float]]:
        """Yields the best pairs of retired rows with live newer ones."""
        live = np.flatnonzero(self._live)
        for products, row in zip(self._older[rows] @ self._newer.T, map(int, rows), strict=True):
            newer = live[self._is_older(np.array([row]), live) & self._may_pair(live, np.array([row]))]
            for i, score in self._top(row, newer[products[newer] >= _MIN_PRODUCT], products, PER_RETIRED):
                yield self.ids[i], self.ids[row], score

    def _top(self, row: int, hits: np.ndarray, products: np.ndarray, limit: int) -> Iterator[tuple[int, float]]:
        """Yields (row, score) of the best hits that are not the same text, most often among the nearest 64."""
        if not len(hits):
            return
        best = self._best_of(row, hits, products, limit, _NEAREST)
        if len(best) < limit and len(hits) > _NEAREST:
            best = self._best_of(row, hits, products, limit, len(hits))
        yield from best

    def _best_of(
        self, row: int, hits: np.ndarray, products: np.ndarray, limit: int, size: int
    ) -> list[tuple[int, float]]:
        """Returns the first `limit` of the `size` nearest hits that may be pairs: all, where they are fewer."""
        scores = np.round(products[hits].astype(np.float64) / _UNIT, 3)
        if len(hits) > size:
            near = scores >= np.partition(scores, -size)[-size]
            hits, scores = hits[near], scores[near]
        best = []
        for j in np.lexsort((self._id_rank[hits], -scores)):
            if scores[j] >= MIN_SIMILARITY and self._folded[row] != self._folded[hits[j]]:
                best.append((int(hits[j]), float(scores[j])))
                if len(best) == limit:
                    break
        return best

    def _additions(
        self, newer_rows: np.ndarray, older_rows: np.ndarray, worst: np.ndarray
    ) -> Iterator[tuple[str, str, float]]:
        """Yields what changed memories add to rows whose earlier pairs are valid, unless enough of those are better.

        Args:
            newer_rows: live rows, changed ones or all that are not searched again.
            older_rows: the others of a pair.
            worst: of each row, the score that a pair must reach; shape (rows, 1) where it is the newer row's.
        """
        for at in range(0, len(older_rows) if len(newer_rows) else 0, _BLOCK_ROWS):
            olders = older_rows[at : at + _BLOCK_ROWS]
            for start in range(0, len(newer_rows), 8 * _BLOCK_ROWS):
                newers = newer_rows[start : start + 8 * _BLOCK_ROWS]
                products = self._newer[newers] @ self._older[olders].T
                r, c = np.nonzero(products >= _MIN_PRODUCT)
                i, j = newers[r], olders[c]
                scores = np.round(products[r, c].astype(np.float64) / _UNIT, 3)
                useful = self._is_older(j, i) & self._may_pair(i, j) & (scores >= MIN_SIMILARITY)
                useful &= scores >= (worst[i, 0] if worst.ndim == 2 else worst[j])
                for newer, older, score in zip(i[useful], j[useful], scores[useful], strict=True):
                    if self._folded[newer] != self._folded[older]:
                        yield self.ids[newer], self.ids[older], float(score)

    def _is_older(self, j: np.ndarray, i: np.ndarray) -> np.ndarray:
        in_time = (j >= self._first_dated) & (j < self._time_end[i])
        in_line = (j >= self._line_start[i]) & (j < self._line_end[i])
        return np.asarray(in_time | in_line)

    def _may_pair(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Returns whether newer rows are compared with older ones: what a person says, with what persons said.

        The long replies of an assistant are about the same and are nearest. What it says itself may be about anything.
        """
        return np.asarray(self._is_person[j] | ~self._is_person[i])

    def _worst_carried(self, carried: pl.DataFrame) -> np.ndarray:
        """Returns the lowest score of the carried pairs of each row, -1 where it may have more of them."""
        count = np.zeros(len(self.ids), np.int64)
        lowest = np.full(len(self.ids), 2.0)
        for newer, older, score in carried.select("newer_id", "older_id", "score").iter_rows():
            i, j = self._row_of.get(newer), self._row_of.get(older)
            if i is not None and j is not None:
                searched = i if self._live[j] else j
                count[searched] += 1
                lowest[searched] = min(lowest[searched], score)
        return np.where(count >= np.where(self._live, PER_MEMORY, PER_RETIRED), lowest, -1.0)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {memory_id: i for i, memory_id in enumerate(self.ids)}

    @cached_property
    def _folded(self) -> list[str]:
        return [fold(text) for text in self._texts]


def _run_starts(runs: np.ndarray) -> np.ndarray:
    """For each row, the index of the first row of its run."""
    starts = np.where(np.r_[True, runs[1:] != runs[:-1]], np.arange(len(runs)), 0)
    return np.asarray(np.maximum.accumulate(starts)).astype(np.int64)
