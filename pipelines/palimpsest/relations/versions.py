"""Versions: which memories are valid now, from when, until when and what replaced them. Derived, never stored as state.

A pure function of the memories, the relations, the documents and what people decided (invariant 2, decisions 4-6, 15).
"""

import json

import polars as pl

from palimpsest.core.document_versions import DOCUMENT, VERSION_ORDER
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.formed import formed_memories, stated_memories
from palimpsest.memories.recency import is_newer, recency_columns
from palimpsest.relations.decided_memories import retired_by_decision
from palimpsest.relations.formed_versions import formed_versions
from palimpsest.relations.replaced_documents import replaced_memories
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import completed, conform
from palimpsest.text.clauses import covers

UPDATE = "UPDATE"
# Of numbers: a literal of a time is computed when the module is imported, and starts the threads of Polars.
_EARLIEST = pl.lit(-62_135_596_800_000_000, pl.Int64).cast(pl.Datetime("us", "UTC"))
"""The start of what has no date."""


def versions(
    memories: pl.DataFrame,
    relations: pl.DataFrame,
    documents: pl.DataFrame,
    document_relations: pl.DataFrame,
    decisions: Decisions | None = None,
) -> pl.DataFrame:
    """Returns versions: one row for each memory, sorted by memory_id.

    A memory is latest iff its document version is current, no live memory of its scope that is newer UPDATEs it as a
    whole (several may, each a part), and no other current document states that it replaces its document. Live is a
    memory whose document version is current: what was edited out, deleted or was in a source that vanished retires
    nothing. A memory that is itself retired still retires what it replaced, so A -> B -> A leaves one latest.

    `superseded_by` is the updating memory closest in time (then the smallest id), else the id of the next version of
    its own document or of the one that replaces it, else null. `valid_from` is the stated time or `observed_at`;
    `valid_until` is the earlier of when the superseding memory was observed and when the document that left it out or
    replaces it was dated, else the stated end, and never before `valid_from`.

    A formed memory has the version of its evidence: see `formed_versions`.

    Args:
        memories: the memories table, retired document versions included.
        relations: the relations table; only UPDATE counts here, and only from a newer to an older memory of one scope.
        documents: the documents table, all versions.
        document_relations: relations stated by metadata; UPDATE retires every memory of the older document, whatever
            the dates, but for those that are trusted more than the newer. Documents that state to replace each other in
            a circle retire nothing of each other.
        decisions: relations that people undid are ignored; a memory that people retired is retired while the one that
            takes its place is live.
    """
    undone = sorted(decisions.undone) if decisions is not None else []
    relations = relations.filter(~pl.col("relation_id").is_in(undone))
    if formed_memories(memories).height:
        tables = relations, documents, document_relations
        stated = versions(stated_memories(memories), *tables, decisions)
        ended = _ended_in_part(stated_memories(memories), relations, documents)
        return pl.concat([stated, formed_versions(memories, stated, ended)]).sort("memory_id")
    state = recency_columns(memories, documents)
    by_document = replaced_memories(memories, documents, document_relations)
    by_memory = _updating_memories(state, memories, _without_reversed(relations, memories, by_document))
    dates = documents.select(replaced_by="document_id", replaced_at="source_time")
    left_out = _left_out(memories, documents)
    rows = (
        memories.select(
            "memory_id", *SCOPE, "document_id", "observed_at", stated_from="valid_from", stated_until="valid_until"
        )
        .join(state.select("memory_id", "live"), on="memory_id", how="left")
        .join(by_memory, on="memory_id", how="left")
        .join(by_document, on="memory_id", how="left")
        .join(retired_by_decision(state, decisions), on="memory_id", how="left")
        .join(documents.select("document_id", edited="superseded_by"), on="document_id", how="left")
        .with_columns(replaced_by=pl.coalesce("edited", "replaced_by"))
        .join(dates, on="replaced_by", how="left")
        .join(left_out, on="memory_id", how="left")
        .with_columns(
            is_latest=pl.col("live") & pl.all_horizontal(pl.col("updated_by", "replaced_by", "decided_by").is_null()),
            valid_from=pl.coalesce("stated_from", "observed_at"),
            superseded_by=pl.coalesce("updated_by", "replaced_by", "decided_by"),
            replaced_at=pl.when(pl.col("edited").is_not_null()).then("left_out_at").otherwise("replaced_at"),
        )
        .with_columns(ended=pl.coalesce(_first_after("valid_from", "updated_at", "replaced_at"), "replaced_at"))
        .with_columns(valid_until=pl.coalesce("ended", "stated_until"))
        .with_columns(
            valid_until=pl.when(pl.col("valid_until") < pl.col("valid_from"))
            .then("valid_from")
            .otherwise("valid_until")
        )
    )
    return conform(
        "versions",
        rows.select("memory_id", *SCOPE, "is_latest", "valid_from", "valid_until", "superseded_by").sort("memory_id"),
    )


def _left_out(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, left_out_at): the date of the first later version of its document that is after the memory.

    A conversation is dated by its first turn, and an undated version says nothing: such versions end no memory.
    """
    ordered = documents.sort(VERSION_ORDER).with_columns(place=pl.int_range(pl.len()).over(DOCUMENT))
    versions_of = ordered.select(*DOCUMENT, "document_id", "place", left_out_at="source_time")
    old = memories.select("memory_id", "document_id", since=pl.coalesce("valid_from", "observed_at")).join(
        documents.filter(pl.col("superseded_by").is_not_null()), on="document_id", how="semi"
    )
    return (
        old.join(versions_of.drop("left_out_at"), on="document_id", how="inner")
        .join(versions_of.drop("document_id"), on=DOCUMENT, how="inner", suffix="_later", nulls_equal=True)
        .filter(pl.col("place_later") > pl.col("place"), pl.col("left_out_at") > pl.coalesce("since", _EARLIEST))
        .sort("memory_id", "place_later")
        .unique("memory_id", keep="first", maintain_order=True)
        .select("memory_id", "left_out_at")
    )


def _first_after(start: str, updated: str, replaced: str) -> pl.Expr:
    """Returns the earlier of two ends; a replacement that is not after the start ends nothing that was updated."""
    after = pl.when(pl.col(replaced) > pl.coalesce(start, _EARLIEST)).then(replaced)
    return pl.min_horizontal(updated, after)


def _without_reversed(relations: pl.DataFrame, memories: pl.DataFrame, by_document: pl.DataFrame) -> pl.DataFrame:
    """Removes relations from a document to the one stated to replace it: a stated replacement overrides dates."""
    documents = memories.select("memory_id", "document_id")
    pairs = relations.join(documents, left_on="newer_id", right_on="memory_id", how="left").join(
        documents, left_on="older_id", right_on="memory_id", how="left", suffix="_older"
    )
    replaced = by_document.select(newer_id="memory_id", document_id_older="replaced_by")
    return pairs.join(replaced, on=["newer_id", "document_id_older"], how="anti")


def _updating_memories(state: pl.DataFrame, memories: pl.DataFrame, relations: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, updated_by, updated_at): the closest live newer memory of its scope.

    A memory of which newer ones end only parts is updated where these parts together are all of it.
    """
    pairs = _updates(state, memories, relations)
    pairs = pairs.filter(pl.col("part").is_null() | pl.col("memory_id_older").is_in(_whole_in_parts(pairs, memories)))
    closest = ["memory_id_older", "at_newer", "seq_newer", "ordinal_newer", "memory_id_newer"]
    return (
        pairs.sort(closest)
        .unique("memory_id_older", keep="first", maintain_order=True)
        .select(memory_id="memory_id_older", updated_by="memory_id_newer", updated_at="observed_at_newer")
    )


def _updates(state: pl.DataFrame, memories: pl.DataFrame, relations: pl.DataFrame) -> pl.DataFrame:
    """Returns the UPDATE pairs of one scope of which the newer memory is live: (state_newer, state_older, part)."""
    recency = state.join(memories.select("memory_id", "observed_at"), on="memory_id", how="left")
    return (
        completed("relations", relations)
        .filter(pl.col("label") == UPDATE)
        .select(memory_id_newer="newer_id", memory_id_older="older_id", part="part")
        .unique()
        .join(recency.select(pl.all().name.suffix("_newer")), on="memory_id_newer", how="inner")
        .join(recency.select(pl.all().name.suffix("_older")), on="memory_id_older", how="inner")
        .filter("live_newer")
        .filter(pl.all_horizontal(pl.col(c + "_newer") == pl.col(c + "_older") for c in SCOPE))
        .filter(is_newer("_newer", "_older"))
    )


def ended_parts(memories: pl.DataFrame, relations: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, start, end, ended_at): the parts of memories that live newer ones ended, in characters.

    Args:
        memories: the memories table.
        relations: the relations table.
        documents: the documents table.
    """
    found = _ended_in_part(memories, relations, documents)
    rows = [(i, start, end, at) for _, i, part, at in found.iter_rows() for start, end in json.loads(part)]
    return pl.DataFrame(
        rows,
        schema={"memory_id": pl.String, "start": pl.Int64, "end": pl.Int64, "ended_at": pl.Datetime("us", "UTC")},
        orient="row",
    )


def _ended_in_part(memories: pl.DataFrame, relations: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (newer_id, older_id, part, ended_at) of what live newer memories ended a part of, the first end first."""
    pairs = _updates(recency_columns(memories, documents), memories, relations).filter(pl.col("part").is_not_null())
    return pairs.select(
        newer_id="memory_id_newer", older_id="memory_id_older", part="part", ended_at="observed_at_newer"
    ).sort("older_id", "ended_at", "newer_id", nulls_last=True)


def _whole_in_parts(pairs: pl.DataFrame, memories: pl.DataFrame) -> list[str]:
    """Returns the memories of which the parts that newer memories end are all of the text."""
    parts: dict[str, list[tuple[int, int]]] = {}
    for memory_id, part in pairs.filter(pl.col("part").is_not_null()).select("memory_id_older", "part").iter_rows():
        parts.setdefault(memory_id, []).extend((start, end) for start, end in json.loads(part))
    texts = memories.filter(pl.col("memory_id").is_in(list(parts))).select("memory_id", "text").iter_rows()
    return sorted(memory_id for memory_id, text in texts if covers(text, parts[memory_id]))
