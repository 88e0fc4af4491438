"""Versions: which memories are valid now, from when, until when and what replaced them. Derived, never stored as state.

A pure function of the memories, the relations, the documents and what people decided (invariant 2, decisions 4-6, 15).
"""

import datetime as dt
import json
from collections.abc import Iterable

import polars as pl

from palimpsest.core.ids import DOCUMENT, SCOPE, VERSION_ORDER
from palimpsest.memories.formed import evidence_pairs, formed_memories, repeated_by_formed, stated_memories
from palimpsest.memories.recency import is_newer, recency_columns
from palimpsest.store.collection_config import DEFAULT_TRUST
from palimpsest.store.decisions import Decisions, MemoryDecision
from palimpsest.store.tables import Schema, completed, conform
from palimpsest.text.sentences import covers

# What people decided of single memories, as a build applies it: `store.memory_decisions`.


def retired_by_decision(state: pl.DataFrame, decisions: Decisions | None) -> pl.DataFrame:
    """Returns (memory_id, decided_by): memories that another takes the place of, by decision.

    Only while that other is live, in the same scope, and not itself retired by an earlier decision.

    Args:
        state: memory_id, the scope columns and `live` of every memory.
        decisions: what was decided.
    """
    found: dict[str, str] = {}
    retiring = [d for d in decisions.memories if d.action == "retire"] if decisions is not None else []
    if retiring:
        named = state.filter(pl.col("memory_id").is_in([i for d in retiring for i in (d.memory_id, d.by)]))
        rows = {i: (tuple(scope), live) for i, *scope, live in named.select("memory_id", *SCOPE, "live").iter_rows()}
        for d in retiring:
            if _is_valid(d, rows) and d.by not in found:
                found.setdefault(d.memory_id, d.by)
    schema = {"memory_id": pl.String, "decided_by": pl.String}
    return pl.DataFrame(sorted(found.items()), schema=schema, orient="row")


def _is_valid(decision: MemoryDecision, rows: dict[str, tuple[tuple[str, ...], bool]]) -> bool:
    dropped, kept = rows.get(decision.memory_id), rows.get(decision.by)
    if dropped is None or kept is None or decision.scope not in (None, dropped[0]):
        return False
    return dropped[0] == kept[0] and kept[1]


def decided_memories(memories: pl.DataFrame, decisions: Decisions) -> pl.DataFrame:
    """Returns `decided_memories`, by id: from when on a memory is not served, and its confidence, by decision."""
    values: dict[str, dict[str, object]] = {}
    decided = [d.memory_id for d in decisions.memories]
    rows_of = memories.filter(pl.col("memory_id").is_in(decided)).select("memory_id", *SCOPE).iter_rows()
    scopes = {i: tuple(scope) for i, *scope in rows_of}
    for d in decisions.memories:
        if d.scope not in (None, scopes.get(d.memory_id)):
            continue  # imported, about a memory of another scope
        if d.action == "prune":
            values.setdefault(d.memory_id, {})["pruned_at"] = dt.datetime.fromisoformat(d.at)
        elif d.action == "confidence":
            values.setdefault(d.memory_id, {})["confidence"] = d.value
    rows = [(i, v.get("pruned_at"), v.get("confidence")) for i, v in sorted(values.items())]
    schema: Schema = {"memory_id": pl.String(), "pruned_at": pl.Datetime("us", "UTC"), "confidence": pl.Float64()}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return conform("decided_memories", frame.join(memories.select("memory_id", *SCOPE), on="memory_id"))


# Versions of formed memories: those of the memories they rest on.

MIN_ENDED = 0.5
"""Share of what a formed memory rests on that ended in part, from which it ends; of less, its text still says both."""


def formed_versions(memories: pl.DataFrame, stated: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """Returns versions of the formed memories.

    One is latest iff all memories it rests on are, and no newer memory ended most of what it repeats of them; it ends
    then when it says so itself, because a summary outlasts each event in it. Else it ends with the first of them that
    ends, and what replaced that replaced it. One whose evidence is gone is not latest.

    Args:
        memories: the memories table.
        stated: versions of the others.
        ended: (newer_id, older_id, part, ended_at), the parts of the others that live newer memories ended.
    """
    of_evidence = evidence_pairs(memories).join(
        stated.rename({"memory_id": "evidence_id"}), on="evidence_id", how="left"
    )
    of_parts = repeated_by_formed(ended, memories, MIN_ENDED).select(
        memory_id="older_id",
        evidence_id="newer_id",
        is_latest=pl.lit(False),
        valid_until="ended_at",
        superseded_by="newer_id",
    )
    ends = (
        pl.concat([of_evidence, of_parts], how="diagonal")
        .sort("memory_id", "is_latest", "valid_until", "evidence_id", nulls_last=True)
        .group_by("memory_id", maintain_order=True)
        .agg(
            pl.col("is_latest").all(),
            pl.col("valid_from").max(),
            pl.col("valid_until").min(),
            pl.col("superseded_by").first(),
        )
    )
    own = formed_memories(memories).drop("valid_from").rename({"valid_until": "own_end"})
    rows = own.join(ends, on="memory_id", how="left").with_columns(pl.col("is_latest").fill_null(False))
    end = pl.when("is_latest").then("own_end").otherwise("valid_until")
    rows = rows.with_columns(valid_until=pl.when(end < pl.col("valid_from")).then("valid_from").otherwise(end))
    return conform("versions", rows.select(c for c in stated.columns if c in rows.columns))


# Documents that state to replace others: which memories that retires, and which are trusted too much to be retired.

_LINK = [*SCOPE, "newer_uri", "older_uri"]


def replaced_memories(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame
) -> pl.DataFrame:
    """Returns (memory_id, replaced_by): memories of documents that a current document states to replace.

    A uri means all its sessions. Of several that replace one, the earliest dated is the closest, then by id. A document
    retires no memory that is trusted more than itself.
    """
    stated = _stated_replacements(memories, documents, document_relations)
    return (
        stated.filter(pl.col("older_trust") <= pl.col("newer_trust"))
        .sort("memory_id", "date", "replaced_by", nulls_last=True)
        .unique("memory_id", keep="first", maintain_order=True)
        .select("memory_id", "replaced_by")
    )


def refused_replacements(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame
) -> pl.DataFrame:
    """Returns stated replacements that do not retire all they name, because it is trusted more, sorted.

    Columns: the scope columns, newer_uri, older_uri, newer_trust, older_trust (the highest) and memories (how many of
    the older document stay).
    """
    stated = _stated_replacements(memories, documents, document_relations, with_refused=True)
    return (
        stated.filter("is_current", pl.col("older_trust") > pl.col("newer_trust"))
        .group_by(_LINK)
        .agg(
            pl.col("newer_trust").min(),
            pl.col("older_trust").max(),
            pl.col("memory_id").n_unique().cast(pl.Int64).alias("memories"),
        )
        .sort(_LINK)
    )


def refusal_lines(refused: pl.DataFrame) -> list[str]:
    """Returns a line for people about each row of `refused_replacements`."""
    columns = refused.select("newer_uri", "older_uri", "newer_trust", "older_trust", "memories")
    return [
        f"not retired: {n} memories of {older}, which {newer} states to replace: trusted more ({high:g} and {low:g})"
        for newer, older, low, high, n in columns.iter_rows()
    ]


def _stated_replacements(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame, with_refused: bool = False
) -> pl.DataFrame:
    """Returns a row for each memory and each current document that states to replace its own.

    Documents that state to replace each other in a circle replace nothing of each other; a link to what is trusted more
    closes no circle.
    """
    documents = documents.with_columns(pl.col("trust").fill_null(DEFAULT_TRUST))
    stated = document_relations.filter((pl.col("label") == "UPDATE") & (pl.col("newer_uri") != pl.col("older_uri")))
    current = documents.filter("is_current").select(
        *SCOPE, newer_uri="uri", replaced_by="document_id", date="source_time", newer_trust="trust"
    )
    of_older = documents.group_by(*SCOPE, older_uri="uri").agg(pl.col("trust").min().alias("least_trust"))
    of_newer = current.group_by(*SCOPE, "newer_uri").agg(pl.col("newer_trust").max().alias("most_trust"))
    links = (
        stated.select(_LINK)
        .unique()
        .sort(_LINK)
        .join(of_newer, on=[*SCOPE, "newer_uri"], how="inner", maintain_order="left")
        .join(of_older, on=[*SCOPE, "older_uri"], how="inner", maintain_order="left")
    )
    is_trusted = pl.col("least_trust") <= pl.col("most_trust")
    trusted = links.filter(is_trusted).select(_LINK)
    found = trusted.filter(pl.Series(_is_acyclic(trusted.rows()), dtype=pl.Boolean))
    if with_refused:
        found = pl.concat([found, links.filter(~is_trusted).select(_LINK)])
    older = memories.select("memory_id", "document_id", pl.col("trust").fill_null(DEFAULT_TRUST).alias("older_trust"))
    replaced = documents.select(*SCOPE, "document_id", "is_current", older_uri="uri")
    return (
        found.join(current, on=[*SCOPE, "newer_uri"], how="inner")
        .join(replaced, on=[*SCOPE, "older_uri"], how="inner")
        .join(older, on="document_id", how="inner")
    )


def _is_acyclic(links: Iterable[tuple[str, ...]]) -> list[bool]:
    """Returns for each (*scope, newer, older) whether no chain of replacements leads from the older to the newer."""
    links = list(links)
    older: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for *scope, new, old in links:
        older.setdefault((*scope, new), []).append((*scope, old))

    def reaches(start: tuple[str, ...], goal: tuple[str, ...]) -> bool:
        seen, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            if node == goal:
                return True
            unseen = [n for n in older.get(node, []) if n not in seen]
            seen.update(unseen)
            waiting.extend(unseen)
        return False

    return [not reaches((*scope, old), (*scope, new)) for *scope, new, old in links]


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

    A memory of which newer ones end only parts is updated where these parts together are all of it, by the one that
    ends the last of them.
    """
    closest = ["memory_id_older", "at_newer", "seq_newer", "ordinal_newer", "memory_id_newer"]
    pairs = _updates(state, memories, relations).sort(closest)
    last = pl.DataFrame(_last_parts(pairs, memories), schema=dict.fromkeys(_ENDS, pl.String), orient="row")
    pairs = pl.concat([pairs.filter(pl.col("part").is_null()), pairs.join(last, on=_ENDS, how="semi")])
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


_ENDS = ("memory_id_older", "memory_id_newer")


def _last_parts(pairs: pl.DataFrame, memories: pl.DataFrame) -> list[tuple[str, str]]:
    """Returns (older, newer) of the pairs with which the parts that newer memories ended are all of the older text.

    Args:
        pairs: of each older memory in the order in which the newer ones came.
        memories: the memories table.
    """
    of_parts = pairs.filter(pl.col("part").is_not_null())
    texts = dict(
        memories.join(of_parts, left_on="memory_id", right_on=_ENDS[0], how="semi")
        .select("memory_id", "text")
        .iter_rows()
    )
    ended: dict[str, list[tuple[int, int]]] = {}
    last: dict[str, str] = {}
    for older, newer, part in of_parts.select(*_ENDS, "part").iter_rows():
        ended.setdefault(older, []).extend((start, end) for start, end in json.loads(part))
        if older not in last and covers(texts[older], ended[older]):
            last[older] = newer
    return sorted(last.items())
