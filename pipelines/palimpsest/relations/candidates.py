"""The table of candidate pairs: finds those of every scope, or updates those of the previous build.

For each live memory they name the few older memories of its scope that it may update, extend or follow from.

A pair needs a vector similarity above a minimum, which is a function of the two memories alone, so the best pairs of a
build that changed a little are found from the earlier best pairs and the changed memories, and equal those found from
scratch.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import SHIPPED, hash_of_file, progress
from palimpsest.core.ids import SCOPE, content_id
from palimpsest.memories.boilerplate import BOILERPLATE
from palimpsest.memories.embed import vector_space
from palimpsest.memories.recency import recency_columns
from palimpsest.store.tables import conform, empty
from palimpsest.text.sentences import refers_back
from palimpsest.text.words import NO_PERSON_ROLES, fold

# The candidate pairs of one scope: how many per memory, how similar they must be, and the search for them.

PER_MEMORY = 6
"""Live older memories of each live one."""
PER_RETIRED = 1
"""Live newer memories of each retired one."""
MIN_SIMILARITY = 0.1
"""Of the vectors of `change_vectors`; see there."""
MAX_TOKENS = 160
"""Chunks that are both longer are no pair: each says many things, and which of them changed is not clear."""
_SCALE = 4000  # integers below it: any sum of products is under 2^24, so float32 adds them exactly in every order
_UNIT = float(_SCALE * _SCALE)
_BLOCK_ROWS = 512
_NEAREST = 64


@dataclass(frozen=True)
class Limits:
    """How many older memories a live one is paired with at most, and how similar they must be."""

    per_memory: int
    min_similarity: float

    @property
    def min_product(self) -> float:
        """Of quantized vectors: what rounds to the least similarity."""
        return (self.min_similarity - 0.0006) * _UNIT


FOR_LM = Limits(12, 0.0)
"""A language model reads the candidates of a memory in one question: in a small scope that is nearly all of it."""


def default_limits() -> Limits:
    """Returns the limits where no language model labels."""
    return Limits(PER_MEMORY, MIN_SIMILARITY)


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
        limits: Limits | None = None,
    ):
        """Makes a search.

        Args:
            rows: `memory_state` of the scope, oldest first.
            as_newer: vectors of the rows as newer memories, quantized, shape (len(rows), d).
            as_older: the same as older ones.
            texts: of the rows.
            entities: ids of the entities that a memory mentions, by memory id.
            limits: of the pairs; by default those without a language model.
        """
        self.limits = limits or default_limits()
        self.ids: list[str] = rows["memory_id"].to_list()
        self._newer, self._older = as_newer, as_older
        self._live = rows["live"].to_numpy()
        self._is_person = rows["is_person"].to_numpy()
        self._is_long = rows["is_long"].to_numpy()
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
        places = {"line": ("at", line), "version": ("at", line, "seq"), "position": ("at", line, "seq", "ordinal")}
        runs = rows.select(**{name: pl.struct(*columns) for name, columns in places.items()})
        self._line_start = _run_starts(runs["line"].rle_id().to_numpy())
        self._line_end = _run_starts(runs["position"].rle_id().to_numpy())
        is_chunk = rows["is_chunk"].to_numpy()  # the chunks of one version of a document were written together
        self._line_end[is_chunk] = _run_starts(runs["version"].rle_id().to_numpy())[is_chunk]

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

    def most_pairs(self) -> np.ndarray:
        """Returns how many pairs each memory is searched for at most, by its order alone; shape (len(rows),)."""
        count = np.zeros(len(self.ids), np.int64)
        for person, long in product((False, True), repeat=2):
            others = self._live & (self._is_person | (not person)) & ~(self._is_long & long)
            before = np.r_[0, np.cumsum(others)]
            older = np.maximum(before[self._time_end] - before[self._first_dated], 0)
            older += before[self._line_end] - before[self._line_start]
            count = np.where((self._is_person == person) & (self._is_long == long), older, count)
        return np.where(self._live, np.minimum(count, self.limits.per_memory), PER_RETIRED)

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
                hits = others[is_open & (products[others] >= self.limits.min_product)]
                for j, score in self._top(row, hits, products, self.limits.per_memory):
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
            hits = np.concatenate([np.flatnonzero(row_products[s] >= self.limits.min_product) + s.start for s in older])
            hits = hits[self._live[hits] & self._may_pair(np.array([row]), hits)]
            for j, score in self._top(row, hits, row_products, self.limits.per_memory):
                yield self.ids[row], self.ids[j], score

    def _search_newer(self, rows: np.ndarray) -> Iterator[tuple[str, str, float]]:
        """Yields the best pairs of retired rows with live newer ones."""
        live = np.flatnonzero(self._live)
        for products, row in zip(self._older[rows] @ self._newer.T, map(int, rows), strict=True):
            newer = live[self._is_older(np.array([row]), live) & self._may_pair(live, np.array([row]))]
            for i, score in self._top(row, newer[products[newer] >= self.limits.min_product], products, PER_RETIRED):
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
            if scores[j] >= self.limits.min_similarity and self._folded[row] != self._folded[hits[j]]:
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
                r, c = np.nonzero(products >= self.limits.min_product)
                i, j = newers[r], olders[c]
                scores = np.round(products[r, c].astype(np.float64) / _UNIT, 3)
                useful = self._is_older(j, i) & self._may_pair(i, j) & (scores >= self.limits.min_similarity)
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
        return np.asarray((self._is_person[j] | ~self._is_person[i]) & ~(self._is_long[i] & self._is_long[j]))

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
        return np.where(count >= np.where(self._live, self.limits.per_memory, PER_RETIRED), lowest, -1.0)

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


# What candidate pairs depend on, and which of their memories changed since an earlier build.

TURN_BEFORE = "turn before"
"""`why` of a pair of a turn that refers back with one before it: found anew by each build."""
_KINDS = ("is_person", "is_chunk", "is_long", "recurs")
_SIGNATURE = [*SCOPE, "uri", "session_id", "at", "live", "text_hash", "entity_id", *_KINDS]


@dataclass(frozen=True)
class CandidateInputs:
    """The tables that candidate pairs depend on; `embed_inputs` identifies the vectors of each memory."""

    memories: pl.DataFrame
    embed_inputs: pl.DataFrame
    mentions: pl.DataFrame
    documents: pl.DataFrame


@dataclass(frozen=True)
class PreviousCandidates:
    """An earlier build made by the same code: its inputs and its pairs."""

    inputs: CandidateInputs
    pairs: pl.DataFrame


@dataclass(frozen=True)
class Changes:
    """What is left to compare after an earlier build.

    Attributes:
        carried: earlier pairs that are still valid.
        todo: live memories whose older ones are all searched again, and retired ones whose newer ones are.
        changed: memories that are new or not as they were.
    """

    carried: pl.DataFrame
    todo: set[str]
    changed: set[str]


def memory_state(inputs: CandidateInputs) -> pl.DataFrame:
    """Returns the order of each memory, and all else that its pairs depend on, in the rows' order.

    Columns: those of `memories.recency.recency_columns`, uri, session_id, text_hash (of its vectors), entity_id (of its
    mentions), is_person (False for the turns of an assistant, a tool or instructions), is_chunk, is_long (a chunk of
    more than `MAX_TOKENS`), recurs (boilerplate).
    """
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
    sources = inputs.documents.select("document_id", "uri", "session_id")
    sources = inputs.memories.select("memory_id", "document_id", *_kinds()).join(sources, on="document_id", how="left")
    return (
        recency_columns(inputs.memories, inputs.documents)
        .join(sources.drop("document_id"), on="memory_id", how="left", maintain_order="left")
        .join(embedded, on="memory_id", how="left", maintain_order="left")
        .join(mentioned, on="memory_id", how="left", maintain_order="left")
    )


def _kinds() -> list[pl.Expr]:
    """Returns is_person, is_chunk, is_long and recurs of memories; see `memory_state`."""
    is_person = ~pl.col("speaker").fill_null("").str.to_lowercase().is_in(sorted(NO_PERSON_ROLES))
    is_chunk = pl.col("unit") == "chunk"
    is_long = is_chunk & (pl.col("token_count") > MAX_TOKENS)
    recurs = pl.col("tags").list.contains(BOILERPLATE)
    kinds = {"is_person": is_person, "is_chunk": is_chunk, "is_long": is_long, "recurs": recurs}
    return [flag.fill_null(False).alias(name) for name, flag in kinds.items()]


def find_changes(state: pl.DataFrame, previous: PreviousCandidates | None) -> Changes:
    """Compares the state of this build's memories with an earlier build; without one, all is to do."""
    all_ids = set(state["memory_id"])
    if previous is None:
        return Changes(empty("candidate_pairs"), all_ids, all_ids)
    before = memory_state(previous.inputs)
    same = state.join(before, on=["memory_id", *_SIGNATURE], how="inner", nulls_equal=True, suffix="_before")
    positions = [pl.col("seq" + s) * 2**32 + pl.col("ordinal" + s) for s in ("", "_before")]
    group = [*SCOPE, "line", "at"]
    ranks = [position.rank("dense").over(group).alias(f"rank{i}") for i, position in enumerate(positions)]
    is_reordered = (pl.col("rank0") != pl.col("rank1")).any().over(group)
    unchanged = set(same.with_columns(ranks).filter(~is_reordered)["memory_id"])
    changed = all_ids - unchanged
    gone = set(before["memory_id"]) - unchanged
    stale = list(changed | gone)
    was_live = before.select(older_id="memory_id", searched_by_newer="live")
    pairs = (
        previous.pairs.filter(pl.col("why") != TURN_BEFORE)
        .join(was_live, on="older_id", how="left")
        .with_columns(searched=pl.when("searched_by_newer").then("newer_id").otherwise("older_id"))
    )
    lost = pairs.filter(pl.col("newer_id").is_in(stale) | pl.col("older_id").is_in(stale))["searched"]
    todo = changed | (set(lost) & all_ids)
    carried = pairs.filter(~pl.col("searched").is_in(list(todo | gone))).select(previous.pairs.columns)
    return Changes(carried, todo, changed)


TURNS_BEFORE = 3
"""Turns before one that refers back, in its session and in its scope: candidates whatever their vectors say."""
_ORDER = (*SCOPE, "at", "line", "seq", "ordinal", "memory_id")


def candidate_pairs(
    inputs: CandidateInputs,
    vectors: np.ndarray,
    previous: PreviousCandidates | None = None,
    as_older: np.ndarray | None = None,
    limits: Limits | None = None,
    of: Collection[str] | None = None,
) -> pl.DataFrame:
    """Returns candidate_pairs, sorted by (newer_id, older_id): the nearest live older memories of each live one.

    A turn that refers back, as in `scratch that`, has the turns before it besides.

    Each retired memory has one pair more, with the live newer one that is most similar: what replaced it, for history.
    A retired memory costs one label by that; as the best retired one of every newer memory it cost ten.

    `memories.recency` defines newer. Only live memories are newer ones: what was edited out retires nothing, so it
    needs no label, and it takes no place of a live older memory: when B goes, C is compared with what B had retired as
    if B had never been (decision 15). Ranked by the cosine rounded to 3 decimals, then by id; equal texts are never
    paired (decision 8).

    Args:
        inputs: the tables of this build.
        vectors: unit vectors of memories as newer ones, aligned to the rows of `inputs.memories`, shape (n, d) float32.
        previous: an earlier build; only what changed since is compared.
        as_older: unit vectors of memories as older ones; by default they are the same.
        limits: of the pairs; by default those without a language model.
        of: only the pairs of these memories with older ones; without an earlier build.
    """
    limits = limits or default_limits()
    state = memory_state(inputs)
    changes = find_changes(state, previous) if of is None else Changes(empty("candidate_pairs"), set(of), set(of))
    newer, older = quantize(vectors), quantize(vectors if as_older is None else as_older)
    pairs = [changes.carried, *_new_pairs(inputs, state, (newer, older), changes, previous is not None, limits)]
    ranked = (
        pl.concat(pairs)
        .join(state.select("memory_id", "live"), left_on="older_id", right_on="memory_id", how="left")
        .sort("score", "newer_id", "older_id", descending=[True, False, False])
        .with_columns(searched=pl.when("live").then("newer_id").otherwise("older_id"))
        .filter(
            pl.int_range(pl.len()).over("searched") < pl.when("live").then(limits.per_memory).otherwise(PER_RETIRED)
        )
    )
    nearest = ranked.select(pairs[0].columns)
    before = _turns_before(inputs, state, newer, older).join(nearest, on=["newer_id", "older_id"], how="anti")
    found = pl.concat([nearest, before]).sort("newer_id", "older_id")
    if of is not None:
        found = found.filter(pl.col("newer_id").is_in(list(of)))
    return conform("candidate_pairs", found)


def most_pairs(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, pairs): how many pairs a build finds for each memory at most, without their vectors.

    Few builds find less: of several older memories six are nearly always near enough.

    Args:
        memories: the memories.
        documents: the documents that they are from.
    """
    state = recency_columns(memories, documents).with_columns(memories.select(*_kinds()))
    none = np.empty((memories.height, 0), np.float32)
    found = [(s.ids, s.most_pairs()) for _, s in _searches(state, memories["text"], (none, none), {})]
    ids = [memory_id for of_scope, _ in found for memory_id in of_scope]
    pairs = np.concatenate([np.empty(0, np.int64), *(counts for _, counts in found)])
    return pl.DataFrame({"memory_id": ids, "pairs": pairs}, schema={"memory_id": pl.String, "pairs": pl.Int64})


def unordered_pairs(
    memories: pl.DataFrame, documents: pl.DataFrame, vectors: tuple[np.ndarray, np.ndarray], of: Collection[str]
) -> Iterator[tuple[str, str, float]]:
    """Yields (memory, memory, similarity) of the nearest pairs of which none is known to be newer, each once.

    Args:
        memories: the memories.
        documents: the documents that they are from.
        vectors: unit vectors of the memories as newer and as older ones, in their order, each shape (n, d) float32.
        of: ids of memories whose pairs are found.
    """
    newer, older = (quantize(of_role) for of_role in vectors)
    alike = {name: pl.lit(name == "is_person") for name in _KINDS}
    state = recency_columns(memories, documents).with_columns(**alike)
    for _, search in _searches(state, memories["text"], (newer, older), {}):
        yield from search.unordered_pairs(of)


def _searches(
    state: pl.DataFrame,
    texts: pl.Series,
    vectors: tuple[np.ndarray, np.ndarray],
    entities: dict[str, frozenset[str]],
    limits: Limits | None = None,
) -> Iterator[tuple[tuple[object, ...], ScopeSearch]]:
    """Yields each scope with its search; `vectors` are quantized. Boilerplate is no part of any pair."""
    newer, older = vectors
    rows = state.with_row_index("row").filter(~pl.col("recurs")).sort(*_ORDER, nulls_last=False, maintain_order=True)
    for scope, members in rows.group_by(SCOPE, maintain_order=True):
        at = members["row"]
        of_scope = newer[at.to_numpy()], older[at.to_numpy()]
        yield scope, ScopeSearch(members, *of_scope, texts.gather(at), entities, limits)


def _turns_before(inputs: CandidateInputs, state: pl.DataFrame, newer: np.ndarray, older: np.ndarray) -> pl.DataFrame:
    """Returns the pairs of live turns that refer back with those before them: `He started school` begins a session."""
    texts = inputs.memories["text"]
    turns = (
        state.with_row_index("row")
        .filter(pl.col("live"), pl.col("session_id").is_not_null())
        .sort(*_ORDER, nulls_last=False, maintain_order=True)
    )
    refers = pl.Series([refers_back(text) for text in texts.gather(turns["row"])], dtype=pl.Boolean)
    turns = turns.with_columns(refers=refers)
    place = ["row", "at", "line"]
    shifted = (
        turns.with_columns(pl.col(place).shift(back).over(within).name.suffix("_before")).filter("refers")
        for within in (SCOPE, [*SCOPE, "session_id"])
        for back in range(1, TURNS_BEFORE + 1)
    )
    is_before = (pl.col("at_before") < pl.col("at")) | (
        pl.col("at").eq_missing(pl.col("at_before")) & (pl.col("line") == pl.col("line_before"))
    )
    pairs = pl.concat(shifted).filter(pl.col("row_before").is_not_null(), is_before).unique(["row", "row_before"])
    i, j = pairs["row"].to_numpy(), pairs["row_before"].to_numpy()
    pairs = pairs.with_columns(
        newer_id=state["memory_id"].gather(i),
        older_id=state["memory_id"].gather(j),
        score=pl.Series(products_of(newer[i], older[j])),
        why=pl.lit(TURN_BEFORE),
        same=pl.Series(
            [fold(a) == fold(b) for a, b in zip(texts.gather(i), texts.gather(j), strict=True)], dtype=pl.Boolean
        ),
    )
    return conform("candidate_pairs", pairs.filter(~pl.col("same")).select(list(_PAIR_SCHEMA)))


def _new_pairs(
    inputs: CandidateInputs,
    state: pl.DataFrame,
    vectors: tuple[np.ndarray, np.ndarray],
    changes: Changes,
    is_incremental: bool,
    limits: Limits,
) -> Iterator[pl.DataFrame]:
    """Yields the pairs of each scope that no earlier build has; `vectors` are quantized."""
    carried = changes.carried if is_incremental else None
    searches = _searches(state, inputs.memories["text"], vectors, _entity_sets(inputs.mentions), limits)
    with progress("pair", len(changes.todo), "memories") as advance:
        for scope, search in searches:
            found = [
                (*scope, newer_id, older_id, score, search.reason(newer_id, older_id))
                for newer_id, older_id, score in search.best_pairs(changes.todo, changes.changed, carried, advance)
            ]
            yield conform("candidate_pairs", pl.DataFrame(found, schema=_PAIR_SCHEMA, orient="row"))


_PAIR_SCHEMA = {
    **dict.fromkeys(SCOPE, pl.String),
    "newer_id": pl.String,
    "older_id": pl.String,
    "score": pl.Float64,
    "why": pl.String,
}


def _entity_sets(mentions: pl.DataFrame) -> dict[str, frozenset[str]]:
    rows = mentions.filter(pl.col("char_start").is_not_null()).group_by("memory_id").agg(pl.col("entity_id").unique())
    return {memory_id: frozenset(ids) for memory_id, ids in rows.iter_rows()}


# Vectors in which a memory is near to the older ones that it may end: the embedder's, through two learnt maps.
#
# A change is often said in other words than what it ends, and then their vectors are not near. Two linear maps, one for
# the newer memory and one for the older, bring them together: among 2,217 notes of one scope the note that ends is
# among the six nearest in .82 of the changes, and by the embedder's own vectors in .76. Maps and vectors are whole
# numbers, whose products float64 adds exactly, so that a vector depends on its text alone.
# `palimpsest_eval.labels.training.train_change_vectors` fits them.

MAPS_FILE = "models/change_vectors.npz"
SCALE = 1024
"""Of the numbers of the maps: an identity has this on its diagonal."""
_MAPPED_ROWS = 4096


def change_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns unit vectors of memories as newer and as older ones, each shape (n, 384) float32.

    Args:
        vectors: unit vectors of the embedder, shape (n, 384).
    """
    as_newer, as_older = load_maps()
    out = np.empty((2, *vectors.shape), np.float32)
    for start in range(0, len(vectors), _MAPPED_ROWS):
        rows = slice(start, start + _MAPPED_ROWS)
        whole = quantize(vectors[rows]).astype(np.float64)
        for target, weights in zip(out, (as_newer, as_older), strict=True):
            mapped = whole @ weights
            target[rows] = mapped / np.maximum(np.sqrt((mapped * mapped).sum(1, keepdims=True)), 1.0)
    return out[0], out[1]


def candidate_space() -> str:
    """Returns a key of the vectors and the maps."""
    return content_id(vector_space(), hash_of_file(SHIPPED / MAPS_FILE))


@lru_cache(maxsize=1)
def load_maps() -> tuple[np.ndarray, np.ndarray]:
    """Returns the maps of newer and of older memories, shape (384, 384) float64, whole numbers.

    Raises:
        ComponentFailed: the file is missing or damaged.
    """
    try:
        with np.load(SHIPPED / MAPS_FILE, allow_pickle=False) as file:
            return file["newer"].astype(np.float64), file["older"].astype(np.float64)
    except (OSError, ValueError, KeyError):
        raise ComponentFailed(f"candidate pairs: {MAPS_FILE} cannot be read; install palimpsest-memory again") from None
