"""Candidate pairs in, relations out: which pairs need a label, what is carried over, what people decided, the cost."""

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import polars as pl

from palimpsest.core.files import progress
from palimpsest.core.ids import SCOPE, content_id
from palimpsest.core.times import on_own_clock
from palimpsest.relations.labelers.label_types import (
    LABELS,
    SUPERSEDED,
    UNPAID,
    LabelPair,
    LabelResult,
    RelationLabeler,
    conflict_kind,
)
from palimpsest.relations.labelers.low_trust import (
    is_low_trust,
    labeled_without_trust,
    refuse_low_trust,
    to_json,
)
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import completed, conform, empty

MemoryRow: TypeAlias = tuple[str, str, dt.datetime | None, str | None, str | None, str | None]
"""(memory_id, text, observed_at on its own clock, speaker, title, heading): what a label depends on."""
_RESULT = (
    "label",
    "conflict",
    "consequence",
    "part",
    "likelihood",
    "confidence",
    "labeler",
    "evidence",
    "decided_at",
)
_PAIR = (*SCOPE, "newer_id", "older_id")
_NEAREST, _MIN_SIMILARITY = 3, 0.4
_FIRST_PART, _PART_S = 64, 5.0  # pairs, seconds: a part is kept, so that a build that was killed goes on from it


def relation_id(newer_id: str, older_id: str) -> str:
    """Returns the id of the relation of a pair: the same for every labeler, so that a person's decision stays valid."""
    return content_id("relation", newer_id, older_id)


def label_pairs(
    pairs: pl.DataFrame,
    memories: pl.DataFrame,
    labeler: RelationLabeler,
    previous: pl.DataFrame | None = None,
    decisions: Decisions | None = None,
    save: Callable[[pl.DataFrame], None] = lambda relations: None,
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Returns (relations, usage): one row for each candidate pair, NONE included, sorted by relation_id.

    A pair is labelled once: a relation of `previous` made by the same program from the same inputs (`input_hash`: text,
    time and its offset, speaker, title and heading of both, and of the other candidates where the labeler reads them
    together) is carried over. What a person decided of a pair is its label, and the pair stays even when it is no
    longer a candidate; other pairs of the memory are read with an UPDATE of it, as before. Else an UPDATE of a memory
    that is trusted more than the newer one is refused (`low_trust`); trust is not an input of the label. `decided_at`
    is when a person decided: labels have no clock.

    Args:
        pairs: candidate_pairs.
        memories: the memories table.
        labeler: labels the pairs that nobody decided and that are not carried over.
        previous: relations of an earlier build.
        decisions: what people decided.
        save: is called with the relations of each part of many pairs; as `previous` they are carried over.
    """
    decided = _decided_pairs(decisions or Decisions(), memories)
    chosen = pairs if labeler.reads_together else nearest_pairs(pairs)
    wanted = _wanted_pairs(chosen, decided, memories, labeler.program_hash)
    by_person = _relations_by_person(wanted, decided)
    undecided = wanted.join(by_person, on="relation_id", how="anti")
    read = undecided
    if labeler.reads_together:  # with the UPDATEs that people decided: what a memory ends is not sought elsewhere
        ended = wanted.join(by_person.filter(pl.col("label") == "UPDATE"), on="relation_id", how="semi")
        read = _with_other_candidates(pl.concat([undecided, ended]))
        undecided = read.join(by_person, on="relation_id", how="anti")
    carried = undecided.join(_reusable_results(previous), on=["relation_id", "input_hash", "program_hash"], how="inner")
    if labeler.reads_together:  # all pairs of a memory, or none
        incomplete = undecided.join(carried, on="relation_id", how="anti").select("newer_id").unique()
        carried = carried.join(incomplete, on="newer_id", how="anti")
        read = read.join(incomplete, on="newer_id", how="semi")
    todo = _oldest_first(read.join(carried, on="relation_id", how="anti"), memories)
    labelled, costs = _label(todo, memories, labeler, save)
    labelled = labelled.join(by_person, on="relation_id", how="anti")
    by_labeler = pl.concat([conform("relations", carried), labelled])
    by_labeler = refuse_low_trust(by_labeler, memories)
    relations = pl.concat([by_person, by_labeler])
    usage = {
        "labelled": labelled.height,
        "carried": carried.height,
        "decided_by_people": by_person.height,
        "low_trust": by_labeler.filter(is_low_trust()).height,
        **costs,
        **count_labels(relations),
    }
    return relations.sort("relation_id"), {name: float(value) for name, value in usage.items()}


def _label(
    todo: pl.DataFrame, memories: pl.DataFrame, labeler: RelationLabeler, save: Callable[[pl.DataFrame], None]
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Returns the relations of pairs and what they cost; many are labelled in parts, each of which is saved."""
    relations, costs = [empty("relations")], _costs([])
    with progress("label", todo.height, "pairs") as advance:
        for part in _parts(todo):
            results = labeler.label(_to_label_pairs(part, memories))
            labelled = part.with_columns(
                pl.Series("label", [r.label for r in results], pl.String),
                pl.Series("conflict", [conflict_kind(r.label, r.conflict) for r in results], pl.String),
                pl.Series("consequence", [r.consequence for r in results], pl.String),
                pl.Series("part", [json.dumps(r.part) if r.part else None for r in results], pl.String),
                pl.Series("likelihood", [r.likelihood for r in results], pl.Float64),
                pl.Series("confidence", [round(r.confidence, 3) for r in results], pl.Float64),
                pl.Series("labeler", [r.labeler or labeler.name for r in results], pl.String),
                pl.Series("evidence", [to_json(r.evidence) for r in results], pl.String),
            )
            relations.append(conform("relations", labelled))
            costs = {name: costs[name] + more for name, more in _costs(results).items()}
            if part.height < todo.height:
                save(relations[-1])
            advance(part.height)
    return pl.concat(relations), costs


def _parts(todo: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yields pairs in parts that take about `_PART_S` each; those of one newer memory stay together."""
    start, size, began = 0, _FIRST_PART, time.perf_counter()
    while start < todo.height:
        end = min(start + size, todo.height)
        while end < todo.height and todo["newer_id"][end] == todo["newer_id"][end - 1]:
            end += 1
        yield todo.slice(start, end - start)
        seconds, began = time.perf_counter() - began, time.perf_counter()
        size = max(1, min(4 * size, round((end - start) * _PART_S / seconds)))
        start = end


def nearest_pairs(pairs: pl.DataFrame) -> pl.DataFrame:
    """Returns the candidate pairs that a labeler reads which takes its time, or money, for each: the 3 most similar."""
    near = pairs.filter(pl.col("score") >= _MIN_SIMILARITY).sort("score", "older_id", descending=[True, False])
    return near.filter(pl.int_range(pl.len()).over("newer_id") < _NEAREST)


def _oldest_first(pairs: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns pairs by newer memory, and those of one by the time of the older one, then by its id."""
    observed = memories.select(older_id="memory_id", older_at="observed_at")
    ordered = pairs.join(observed, on="older_id", how="left").sort("newer_id", "older_at", "older_id", nulls_last=False)
    return ordered.drop("older_at")


def _with_other_candidates(pairs: pl.DataFrame) -> pl.DataFrame:
    """Returns pairs whose `input_hash` has those of all pairs of their newer memory."""
    together = pairs.sort("older_id").group_by("newer_id", maintain_order=True).agg(all=pl.col("input_hash").str.join())
    hashes = {newer: content_id(found) for newer, found in together.iter_rows()}
    of_list = pl.col("newer_id").replace_strict(hashes, return_dtype=pl.String, default="")
    return pairs.with_columns(input_hash=pl.col("input_hash") + of_list)


def count_labels(relations: pl.DataFrame) -> dict[str, int]:
    """Returns the number of relations of each label, 0 where there are none."""
    counts = dict(relations["label"].value_counts().iter_rows())
    return {label: counts.get(label, 0) for label in LABELS}


def _wanted_pairs(
    pairs: pl.DataFrame, decided: pl.DataFrame, memories: pl.DataFrame, program_hash: str
) -> pl.DataFrame:
    """Returns the candidate pairs and those that people gave a label, with relation_id, input_hash, program_hash."""
    wanted = pl.concat([pairs.select(_PAIR), decided.filter(pl.col("label") != "NONE").select(_PAIR)]).unique(_PAIR)
    return pair_keys(wanted, memories).with_columns(program_hash=pl.lit(program_hash))


def pair_keys(pairs: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns pairs, columns newer_id and older_id, with relation_id and the input_hash of their labels."""
    hashes = {r[0]: content_id(*r[1:]) for r in _memory_rows(memories)}  # type: ignore[arg-type]
    ids = pairs.select("newer_id", "older_id").rows()
    return pairs.with_columns(
        pl.Series("relation_id", [relation_id(n, o) for n, o in ids], pl.String),
        pl.Series("input_hash", [hashes[n] + hashes[o] for n, o in ids], pl.String),
    )


def _decided_pairs(decisions: Decisions, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns what people decided of pairs whose memories are both in this build, and in one scope."""
    frame = pl.DataFrame(
        [(d.newer_id, d.older_id, d.label, _parse_utc(d.at), d.part or None) for d in decisions.relations],
        schema={
            "newer_id": pl.String,
            "older_id": pl.String,
            "label": pl.String,
            "decided_at": pl.Datetime("us", "UTC"),
            "part": pl.String,
        },
        orient="row",
    )
    scopes = memories.select("memory_id", *SCOPE)
    return frame.join(scopes, left_on="newer_id", right_on="memory_id", how="inner").join(
        scopes.rename({"memory_id": "older_id"}), on=["older_id", *SCOPE], how="inner"
    )


def _relations_by_person(wanted: pl.DataFrame, decided: pl.DataFrame) -> pl.DataFrame:
    labels = decided.select("newer_id", "older_id", "label", "decided_at", "part")
    rows = wanted.join(labels, on=["newer_id", "older_id"]).with_columns(
        conflict=pl.col("label").map_elements(conflict_kind, return_dtype=pl.String),
        consequence=pl.when(pl.col("label") == "UPDATE").then(pl.lit(SUPERSEDED)),
        confidence=pl.lit(1.0),
        labeler=pl.lit("person"),
        program_hash=pl.lit("person"),
        evidence=pl.lit(to_json({"rule": "person"})),
    )
    return conform("relations", rows)


def _reusable_results(previous: pl.DataFrame | None) -> pl.DataFrame:
    """Returns the results of an earlier build, without those of pairs that no model answered."""
    relations = empty("relations") if previous is None else completed("relations", previous)
    relations = labeled_without_trust(relations)
    answered = relations.filter(~pl.col("evidence").str.contains(f'"rule": "{UNPAID}"', literal=True))
    return answered.select("relation_id", "input_hash", "program_hash", *_RESULT)


def _costs(results: Sequence[LabelResult]) -> dict[str, float]:
    return {
        "lm_calls": sum(r.lm_calls for r in results),
        "tokens": sum(r.tokens for r in results),
        "cost": sum(r.cost for r in results),
        "abstained": sum(not r.decided for r in results),
        "unpaid": sum(r.rule == UNPAID for r in results),
        "lm_failures": sum("failed" in r.evidence for r in results),
    }


def _parse_utc(text: str) -> dt.datetime | None:
    """Returns the UTC time of a line of the decisions file, None where it has none."""
    try:
        parsed = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed.astimezone(dt.UTC)


def _to_label_pairs(todo: pl.DataFrame, memories: pl.DataFrame) -> list[LabelPair]:
    ids = pl.concat([todo["newer_id"], todo["older_id"]]).unique()
    rows = {r[0]: r for r in _memory_rows(memories.filter(pl.col("memory_id").is_in(ids.to_list())))}
    return [pair_from_memories(rows[n], rows[o]) for n, o in todo.select("newer_id", "older_id").iter_rows()]


def _memory_rows(memories: pl.DataFrame) -> Iterator[MemoryRow]:
    """Yields what labels depend on of each memory."""
    columns = ("memory_id", "text", "observed_at", "utc_offset", "speaker", "title", "heading")
    for memory_id, text, at, offset, speaker, title, heading in memories.select(columns).iter_rows():
        yield memory_id, text, on_own_clock(at, offset), speaker, title, heading


def pair_from_memories(newer: MemoryRow, older: MemoryRow) -> LabelPair:
    """Returns the pair of two memories."""
    newer_id, newer_text, newer_at, newer_speaker, newer_title, newer_heading = newer
    older_id, older_text, older_at, older_speaker, older_title, older_heading = older
    return LabelPair(
        newer_id,
        older_id,
        newer_text,
        older_text,
        newer_at,
        older_at,
        _context(newer_title, newer_heading),
        _context(older_title, older_heading),
        newer_speaker,
        older_speaker,
        by_position=newer_at == older_at,
    )


def _context(title: str | None, heading: str | None) -> str:
    return " > ".join(p for p in (title, heading) if p)
