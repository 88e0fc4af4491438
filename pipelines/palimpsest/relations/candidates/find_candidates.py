"""The table of candidate pairs: finds those of every scope, or updates those of the previous build.

For each live memory they name the few older memories of its scope that it may update, extend or follow from.

A pair needs a vector similarity above a minimum, which is a function of the two memories alone, so the best pairs of a
build that changed a little are found from the earlier best pairs and the changed memories, and equal those found from
scratch.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.core.progress import progress
from palimpsest.memories.recency import recency_columns
from palimpsest.relations.candidates.scope_search import PER_MEMORY, PER_RETIRED, ScopeSearch, products_of, quantize
from palimpsest.store.tables import conform, empty
from palimpsest.text.chat_roles import NO_PERSON_ROLES
from palimpsest.text.sentences import refers_back
from palimpsest.text.words import fold

# What candidate pairs depend on, and which of their memories changed since an earlier build.

TURN_BEFORE = "turn before"
"""`why` of a pair of a turn that refers back with one before it: found anew by each build."""
_SIGNATURE = [*SCOPE, "uri", "session_id", "at", "live", "text_hash", "entity_id", "is_person"]


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
    mentions), is_person (False for the turns of an assistant, a tool or instructions).
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
    is_person = ~pl.col("speaker").fill_null("").str.to_lowercase().is_in(sorted(NO_PERSON_ROLES))
    sources = inputs.memories.select("memory_id", "document_id", is_person=is_person).join(
        sources, on="document_id", how="left"
    )
    return (
        recency_columns(inputs.memories, inputs.documents)
        .join(sources.drop("document_id"), on="memory_id", how="left", maintain_order="left")
        .join(embedded, on="memory_id", how="left", maintain_order="left")
        .join(mentioned, on="memory_id", how="left", maintain_order="left")
    )


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


# The table of candidate pairs: finds those of every scope, or updates those of the previous build.

TURNS_BEFORE = 3
"""Turns before one that refers back, in its session and in its scope: candidates whatever their vectors say."""
_ORDER = (*SCOPE, "at", "line", "seq", "ordinal", "memory_id")


def candidate_pairs(
    inputs: CandidateInputs,
    vectors: np.ndarray,
    previous: PreviousCandidates | None = None,
    as_older: np.ndarray | None = None,
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
    """
    state = memory_state(inputs)
    changes = find_changes(state, previous)
    newer, older = quantize(vectors), quantize(vectors if as_older is None else as_older)
    pairs = [changes.carried, *_new_pairs(inputs, state, (newer, older), changes, previous is not None)]
    ranked = (
        pl.concat(pairs)
        .join(state.select("memory_id", "live"), left_on="older_id", right_on="memory_id", how="left")
        .sort("score", "newer_id", "older_id", descending=[True, False, False])
        .with_columns(searched=pl.when("live").then("newer_id").otherwise("older_id"))
        .filter(pl.int_range(pl.len()).over("searched") < pl.when("live").then(PER_MEMORY).otherwise(PER_RETIRED))
    )
    nearest = ranked.select(pairs[0].columns)
    before = _turns_before(inputs, state, newer, older).join(nearest, on=["newer_id", "older_id"], how="anti")
    return conform("candidate_pairs", pl.concat([nearest, before]).sort("newer_id", "older_id"))


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
    state = recency_columns(memories, documents).with_columns(is_person=pl.lit(True))
    for _, search in _searches(state, memories["text"], (newer, older), {}):
        yield from search.unordered_pairs(of)


def _searches(
    state: pl.DataFrame,
    texts: pl.Series,
    vectors: tuple[np.ndarray, np.ndarray],
    entities: dict[str, frozenset[str]],
) -> Iterator[tuple[tuple[object, ...], ScopeSearch]]:
    """Yields each scope with its search; `vectors` are quantized."""
    newer, older = vectors
    rows = state.with_row_index("row").sort(*_ORDER, nulls_last=False, maintain_order=True)
    for scope, members in rows.group_by(SCOPE, maintain_order=True):
        at = members["row"]
        yield scope, ScopeSearch(members, newer[at.to_numpy()], older[at.to_numpy()], texts.gather(at), entities)


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
) -> Iterator[pl.DataFrame]:
    """Yields the pairs of each scope that no earlier build has; `vectors` are quantized."""
    carried = changes.carried if is_incremental else None
    searches = _searches(state, inputs.memories["text"], vectors, _entity_sets(inputs.mentions))
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
