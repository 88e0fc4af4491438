"""Candidate pairs: for each live memory, the few older memories of its scope that it may update, extend or follow from.

A pair needs a vector similarity over a floor and something in common in words: an entity or a content word. Both are
functions of the two memories alone, so the best K of a build that changed a little are found from the earlier best K
and the changed memories, and equal those found from scratch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from palimpsest.core.progress import progress
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.recency import recency_columns
from palimpsest.store.tables import conform, empty
from palimpsest.text.normalize import fold
from palimpsest.text.words import content_words

PER_MEMORY = 3
HISTORY_PER_MEMORY = 1
FLOOR = 0.4
_SCALE = 4000  # integers below it: any sum of products stays under 2^24, so float32 adds them exactly in every order
_UNIT = float(_SCALE * _SCALE)
_LEAST = (FLOOR - 0.0006) * _UNIT
_BLOCK = 512
_MANY_HITS = 512


@dataclass(frozen=True)
class CandidateInputs:
    """The tables that candidate pairs depend on; `embed_inputs` tells whether a memory's vector is still the same."""

    memories: pl.DataFrame
    embed_inputs: pl.DataFrame
    mentions: pl.DataFrame
    documents: pl.DataFrame


@dataclass(frozen=True)
class PreviousCandidates:
    """An earlier build made by the same code: its inputs and its pairs."""

    inputs: CandidateInputs
    pairs: pl.DataFrame


def candidate_pairs(
    inputs: CandidateInputs, vectors: np.ndarray, previous: PreviousCandidates | None = None
) -> pl.DataFrame:
    """Returns candidate_pairs, sorted by (newer_id, older_id): at most 3 live and 1 retired older memory a newer one.

    Newer is as `memories.order` says. Only live memories are newer ones: what was edited out retires nothing,
    so it is asked nothing, and it takes no place of a live older memory: when B goes, C is compared with what B had
    retired as if B had never been (decision 15). The one retired older memory is for history: what replaced it. Ranked
    by the cosine rounded to 3 decimals, then by id; equal texts are never paired (decision 8).

    Args:
        inputs: the tables of this build.
        vectors: unit vectors aligned to the rows of `inputs.memories`, shape (n, 384) float32.
        previous: an earlier build; only what changed since is compared.
    """
    state = _state(inputs)
    quantised = _quantise(vectors)
    carried, todo, changed = _difference(state, previous)
    entities = _entity_sets(inputs.mentions)
    texts = inputs.memories["text"]
    found = [carried]
    state = state.with_row_index("row").sort(
        *SCOPE, "at", "line", "seq", "ordinal", "memory_id", nulls_last=False, maintain_order=True
    )
    with progress("pair", len(todo), "memories") as advance:
        for key, rows in state.group_by(SCOPE, maintain_order=True):
            scope = _Scope(rows, quantised[rows["row"].to_numpy()], texts.gather(rows["row"]), entities)
            pairs = list(scope.best(todo, changed, carried if previous is not None else None, advance))
            frame = pl.DataFrame(
                pairs, schema={"newer_id": pl.String, "older_id": pl.String, "score": pl.Float64}, orient="row"
            )
            frame = frame.with_columns(pl.lit(v, pl.String).alias(c) for c, v in zip(SCOPE, key, strict=True))
            why = [scope.why(n, o) for n, o in frame.select("newer_id", "older_id").iter_rows()]
            found.append(conform("candidate_pairs", frame.with_columns(pl.Series("why", why, pl.String))))
    older_live = state.select("memory_id", "live")
    ranked = (
        pl.concat(found)
        .join(older_live, left_on="older_id", right_on="memory_id", how="left")
        .sort("newer_id", "score", "older_id", descending=[False, True, False])
        .with_columns(place=pl.int_range(pl.len()).over("newer_id", "live"))
        .filter(pl.col("place") < pl.when("live").then(PER_MEMORY).otherwise(HISTORY_PER_MEMORY))
    )
    return conform("candidate_pairs", ranked.drop("live", "place").sort("newer_id", "older_id"))


def _state(inputs: CandidateInputs) -> pl.DataFrame:
    """Per memory, in the rows' order: its place, and all else that its pairs depend on as one `signature`."""
    embedded = (
        inputs.embed_inputs.sort("memory_id", "ordinal").group_by("memory_id").agg(pl.col("text_hash").str.join())
    )
    mentioned = (
        inputs.mentions.filter(pl.col("char_start").is_not_null())
        .select("memory_id", "entity_id")
        .unique()
        .sort("memory_id", "entity_id")
        .group_by("memory_id")
        .agg(pl.col("entity_id").str.join())
    )
    names = inputs.documents.select("document_id", "uri", "session_id")
    names = inputs.memories.select("memory_id", "document_id").join(names, on="document_id", how="left")
    return (
        recency_columns(inputs.memories, inputs.documents)
        .join(names.drop("document_id"), on="memory_id", how="left", maintain_order="left")
        .join(embedded, on="memory_id", how="left", maintain_order="left")
        .join(mentioned, on="memory_id", how="left", maintain_order="left")
    )


_SIGNATURE = [*SCOPE, "uri", "session_id", "at", "live", "text_hash", "entity_id"]


def _difference(state: pl.DataFrame, previous: PreviousCandidates | None) -> tuple[pl.DataFrame, set[str], set[str]]:
    """Returns the pairs that still hold, the newer memories to do in full, and the memories that changed."""
    everything = set(state["memory_id"])
    if previous is None:
        return empty("candidate_pairs"), everything, everything
    before = _state(previous.inputs)
    same = state.join(before, on=["memory_id", *_SIGNATURE], how="inner", nulls_equal=True, suffix="_before")
    order = [pl.col("seq" + s) * 2**32 + pl.col("ordinal" + s) for s in ("", "_before")]
    group = [*SCOPE, "uri", "session_id", "at"]
    ranks = [o.rank("dense").over(group).alias(f"rank{i}") for i, o in enumerate(order)]
    moved = same.with_columns(ranks).with_columns(m=(pl.col("rank0") != pl.col("rank1")).any().over(group))
    kept = set(moved.filter(~pl.col("m"))["memory_id"])
    changed = everything - kept
    gone = set(before["memory_id"]) - kept
    lost = set(previous.pairs.filter(pl.col("older_id").is_in(list(gone)))["newer_id"])
    todo = changed | (lost & everything)
    carried = previous.pairs.filter(~pl.col("newer_id").is_in(list(todo | gone)))
    return carried, todo, changed


def _quantise(vectors: np.ndarray) -> np.ndarray:
    """Whole numbers in float32, shape (n, d): their dot products are exact, whatever the block, kernel or threads."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    scale = _SCALE / np.maximum(norms, 1.0)
    return np.rint(np.nan_to_num(vectors) * np.nan_to_num(scale)[:, None]).astype(np.float32)


def _entity_sets(mentions: pl.DataFrame) -> dict[str, frozenset[str]]:
    rows = mentions.filter(pl.col("char_start").is_not_null()).group_by("memory_id").agg(pl.col("entity_id").unique())
    return {m: frozenset(e) for m, e in rows.iter_rows()}


class _Scope:
    """The memories of one scope, oldest first, with what comparing them takes."""

    def __init__(self, rows: pl.DataFrame, vectors: np.ndarray, texts: pl.Series, entities: dict[str, frozenset[str]]):
        self.ids: list[str] = rows["memory_id"].to_list()
        self.vectors = vectors
        self.live = rows["live"].to_numpy()
        self._texts = texts
        self._entities = entities
        self._words: dict[int, frozenset[str]] = {}
        n = len(self.ids)
        self.id_rank = np.empty(n, np.int64)
        self.id_rank[np.argsort(np.array(self.ids))] = np.arange(n)
        # Older than row i: rows from `dated` up to its time, and those before its place in its own line and time.
        at, line = rows["at"], rows["line"].fill_null(-1)
        self.dated = int(at.null_count())
        self.time_end = _first_of_run(at.rle_id().to_numpy())
        self.time_end[: self.dated] = self.dated
        runs = rows.select(a=pl.struct("at", line), b=pl.struct("at", line, "seq", "ordinal"))
        self.line_start = _first_of_run(runs["a"].rle_id().to_numpy())
        self.line_end = _first_of_run(runs["b"].rle_id().to_numpy())

    def words(self, i: int) -> frozenset[str]:
        """Returns the content words of row i, and the entities it mentions."""
        known = self._words.get(i)
        if known is None:
            known = self._words[i] = content_words(self._texts[i]) | self._entities.get(self.ids[i], frozenset())
        return known

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {m: i for i, m in enumerate(self.ids)}

    @cached_property
    def _postings(self) -> dict[str, np.ndarray]:
        lists: dict[str, list[int]] = {}
        for i in range(len(self.ids)):
            for word in self.words(i):
                lists.setdefault(word, []).append(i)
        return {w: np.array(rows, np.int64) for w, rows in lists.items()}

    @cached_property
    def _folded(self) -> list[str]:
        return [fold(t) for t in self._texts]

    def why(self, newer: str, older: str) -> str:
        """Says what a pair has in common beside its vectors: the first shared entity, else the longest shared word."""
        i, j = self.row_of[newer], self.row_of[older]
        entities = self._entities.get(newer, frozenset()) & self._entities.get(older, frozenset())
        if entities:
            return f"vector+entity:{min(entities)}"
        return "vector+word:" + min(self.words(i) & self.words(j), key=lambda w: (-len(w), w))

    def best(
        self, todo: set[str], changed: set[str], carried: pl.DataFrame | None, advance: Callable[[int], None]
    ) -> Iterator[tuple[str, str, float]]:
        """Yields (newer, older, score): all of the best of rows in `todo`; of the others, what `changed` may add."""
        mine = np.array([m in todo for m in self.ids], bool)
        full = np.flatnonzero(mine & self.live)
        for start in range(0, len(full), _BLOCK):
            yield from self._full(full[start : start + _BLOCK])
            advance(len(full[start : start + _BLOCK]))
        if carried is None:
            return
        new = np.flatnonzero([m in changed for m in self.ids])
        rest = np.flatnonzero(~mine & self.live)
        if len(new) and len(rest):
            yield from self._merge(rest, new, carried)

    def _full(self, rows: np.ndarray) -> Iterator[tuple[str, str, float]]:
        width = int(max(self.time_end[rows].max(), self.line_end[rows].max()))
        if not width:
            return
        products = self.vectors[rows] @ self.vectors[:width].T
        for r, i in enumerate(rows):
            line, row = products[r], int(i)
            a, b = self.line_start[row], self.line_end[row]
            hits = np.concatenate(
                (
                    np.flatnonzero(line[self.dated : self.time_end[row]] >= _LEAST) + self.dated,
                    np.flatnonzero(line[a:b] >= _LEAST) + a,
                )
            )
            if not len(hits) or not self.words(row):
                continue
            if len(hits) > _MANY_HITS:
                hits = hits[self._sharing(row)[hits]]
            scores = np.round(line[hits].astype(np.float64) / _UNIT, 3)
            for wanted, k in ((True, PER_MEMORY), (False, HISTORY_PER_MEMORY)):
                of_kind = self.live[hits] == wanted
                yield from self._top(row, hits[of_kind], scores[of_kind], k)

    def _sharing(self, i: int) -> np.ndarray:
        mask = np.zeros(len(self.ids), bool)
        for word in self.words(i):
            mask[self._postings[word]] = True
        return mask

    def _top(self, i: int, hits: np.ndarray, scores: np.ndarray, k: int) -> Iterator[tuple[str, str, float]]:
        """Yields the k best that share a word or entity and are not the same text: first among the 64 nearest."""
        for most in (64, len(hits)):
            near = slice(None)
            if len(hits) > most:
                near = scores >= np.partition(scores, -most)[-most]
            some, their = hits[near], scores[near]
            out = []
            for j in np.lexsort((self.id_rank[some], -their)):
                if their[j] >= FLOOR and self._supported(i, int(some[j])):
                    out.append((self.ids[i], self.ids[some[j]], float(their[j])))
                    if len(out) == k:
                        break
            if len(out) == k or len(some) == len(hits):
                yield from out
                return

    def _supported(self, i: int, j: int) -> bool:
        return not self.words(i).isdisjoint(self.words(j)) and self._folded[i] != self._folded[j]

    def _merge(self, rows: np.ndarray, new: np.ndarray, carried: pl.DataFrame) -> Iterator[tuple[str, str, float]]:
        """Yields what the changed memories add to rows whose pairs still hold, unless those are K better ones."""
        worst = self._worst(carried)
        for at in range(0, len(new), _BLOCK):
            some_new = new[at : at + _BLOCK]
            sharing = np.stack([self._sharing(int(j)) for j in some_new])
            for start in range(0, len(rows), 8 * _BLOCK):
                some = rows[start : start + 8 * _BLOCK]
                products = self.vectors[some] @ self.vectors[some_new].T
                r, c = np.nonzero((products >= _LEAST) & sharing[:, some].T)
                i, j = some[r], some_new[c]
                older = (j >= self.dated) & (j < self.time_end[i]) | (j >= self.line_start[i]) & (j < self.line_end[i])
                scores = np.round(products[r, c].astype(np.float64) / _UNIT, 3)
                useful = older & (scores >= FLOOR) & (scores >= worst[self.live[j].astype(int), i])
                for i_, j_, score in zip(i[useful], j[useful], scores[useful], strict=True):
                    if self._folded[i_] != self._folded[j_]:
                        yield self.ids[i_], self.ids[j_], float(score)

    def _worst(self, carried: pl.DataFrame) -> np.ndarray:
        """Per kind of older memory (retired, live) and row: the score of the last pair where all places are taken."""
        worst = np.full((2, len(self.ids)), -1.0)
        count = np.zeros((2, len(self.ids)), np.int64)
        least = np.full((2, len(self.ids)), 2.0)
        row_of = self.row_of
        for newer, older, score in carried.select("newer_id", "older_id", "score").iter_rows():
            i, j = row_of.get(newer), row_of.get(older)
            if i is not None and j is not None:
                kind = int(self.live[j])
                count[kind, i] += 1
                least[kind, i] = min(least[kind, i], score)
        full = count >= np.array([[HISTORY_PER_MEMORY], [PER_MEMORY]])
        worst[full] = least[full]
        return worst


def _first_of_run(runs: np.ndarray) -> np.ndarray:
    """For each row, the index of the first row of its run."""
    first: Callable[[np.ndarray], np.ndarray] = np.maximum.accumulate
    starts = np.where(np.r_[True, runs[1:] != runs[:-1]], np.arange(len(runs)), 0)
    return first(starts).astype(np.int64)
