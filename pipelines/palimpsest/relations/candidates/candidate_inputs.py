"""What candidate pairs depend on, and which of their memories changed since an earlier build."""

from dataclasses import dataclass

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.recency import recency_columns
from palimpsest.store.tables import empty
from palimpsest.text.chat_roles import NO_PERSON_ROLES

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
