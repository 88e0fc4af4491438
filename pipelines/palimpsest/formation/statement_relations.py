"""Relations of formed memories: to the memories they rest on, and what a formed memory that ends another does to those.

`Ana lives in Porto`, formed of `the boxes in Porto are gone`, replaces `Ana lives in Lisbon`, formed of a part of an
older turn. Then the newer turn ends that part of the older one: what both say in their own words may share nothing.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import SCOPE, JsonObject, content_id
from palimpsest.memories.formed import evidence_pairs, formed_memories, stated_memories
from palimpsest.relations.labelers.label_pairs import pair_keys
from palimpsest.relations.labelers.label_types import SUPERSEDED
from palimpsest.relations.labelers.low_trust import to_json
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS, completed, conform
from palimpsest.text.sentences import covers, merge_spans

FORMATION = "formation"
"""The labeler of relations to evidence: formed memories follow from it, and that costs no label."""
_STATEMENTS, _LABELLED = "statements", "labelled"
_REPLACED = (
    *("label", "conflict", "consequence", "part", "likelihood", "confidence", "labeler", "evidence"),
    *("input_hash", "program_hash"),
)
"""Columns of a relation that one between statements replaces; they are kept in its evidence."""

Row = dict[str, Any]


def without_formation(relations: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that labelers, people and premises gave: what the functions below added is undone."""
    relations = completed("relations", relations).filter(pl.col("labeler").ne_missing(FORMATION))
    is_changed = pl.col("evidence").fill_null("").str.contains(f'"{_STATEMENTS}": [', literal=True)
    changed = relations.filter(is_changed)
    if changed.is_empty():
        return relations
    restored = []
    for row in changed.iter_rows(named=True):
        labelled = json.loads(row["evidence"]).get(_LABELLED)
        restored += [row | labelled] if labelled else []
    return pl.concat([relations.filter(~is_changed), _frame(restored)])


def add_formation(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns relations with a DERIVE from each formed memory to each memory it rests on, sorted by relation_id."""
    pairs = evidence_pairs(memories).rename({"memory_id": "newer_id", "evidence_id": "older_id"})
    if pairs.is_empty():
        return relations
    about = memories.select(*SCOPE, "confidence", newer_id="memory_id")
    rows = (
        pair_keys(pairs, memories)
        .join(about, on="newer_id", how="left")
        .with_columns(
            label=pl.lit("DERIVE"),
            labeler=pl.lit(FORMATION),
            evidence=pl.lit("{}"),
            program_hash=pl.lit(content_id(FORMATION, code_hash((__name__,)))),
        )
    )
    return pl.concat([conform("relations", relations), conform("relations", rows)]).sort("relation_id")


@dataclass(frozen=True)
class _Quoted:
    """Where a formed memory's quote stands: a memory, its text, and the span of the quote in it."""

    memory_id: str
    text: str
    span: tuple[int, int]


def add_statement_updates(relations: pl.DataFrame, memories: pl.DataFrame, decisions: Decisions) -> pl.DataFrame:
    """Returns relations with an UPDATE for each one between formed memories: of the memories that these quote.

    It ends the part that the older one quotes. It takes the place of another label of that pair, but for one that a
    person gave, and for an UPDATE of the whole text; parts of several are joined. What a model says of the whole text
    is then of the words that it quotes: what else the text says is a statement of its own.

    Args:
        relations: of stated and of formed memories.
        memories: the memories table.
        decisions: relations between formed memories that people undid end nothing.
    """
    of_pair: dict[tuple[str, str], list[tuple[Row, _Quoted, _Quoted]]] = {}
    updates = relations.filter(pl.col("label") == "UPDATE")
    quoted = _quoted(memories, {*updates["newer_id"], *updates["older_id"]})
    for row in updates.sort("relation_id").iter_rows(named=True):
        newer, older = quoted.get(row["newer_id"]), quoted.get(row["older_id"])
        if newer and older and newer.memory_id != older.memory_id and row["relation_id"] not in decisions.undone:
            of_pair.setdefault((newer.memory_id, older.memory_id), []).append((row, newer, older))
    if not of_pair:
        return relations
    pairs = pl.DataFrame(sorted(of_pair), schema={"newer_id": pl.String, "older_id": pl.String}, orient="row")
    keys = {(r["newer_id"], r["older_id"]): r for r in pair_keys(pairs, memories).iter_rows(named=True)}
    known = relations.filter(pl.col("relation_id").is_in([r["relation_id"] for r in keys.values()]))
    labelled = {r["relation_id"]: r for r in known.iter_rows(named=True)}
    added = list(_ended_parts(of_pair, keys, labelled))
    kept = relations.filter(~pl.col("relation_id").is_in([r["relation_id"] for r in added]))
    return pl.concat([conform("relations", kept), _frame(added)]).sort("relation_id")


def _ended_parts(
    of_pair: Mapping[tuple[str, str], list[tuple[Row, _Quoted, _Quoted]]],
    keys: Mapping[tuple[str, str], Row],
    labelled: Mapping[str, Row],
) -> Iterator[Row]:
    """Yields the relations of pairs that statements decide."""
    for pair, found in sorted(of_pair.items(), key=lambda item: item[0]):
        own = labelled.get(keys[pair]["relation_id"])
        own_spans = _ended_spans(own) if own is not None and own["label"] == "UPDATE" else ()
        if own_spans is None or (own is not None and own["labeler"] == "person"):
            continue
        row, newer, older = found[0]
        part = merge_spans([*(o.span for _, _, o in found), *own_spans])
        evidence: JsonObject = {
            "rule": "lm" if row["labeler"] == "dspy" else _STATEMENTS,
            "older": list(older.span),
            "newer": list(newer.span),
            _STATEMENTS: [[r["newer_id"], r["older_id"]] for r, _, _ in found],
        }
        if own is not None:
            evidence[_LABELLED] = {name: own[name] for name in _REPLACED}
        changed: Row = {
            "part": None if covers(older.text, part) else json.dumps(part),
            "consequence": SUPERSEDED,
            "confidence": max(r["confidence"] for r, _, _ in found),
            "evidence": to_json(evidence),
            "decided_at": None,
        }
        yield row | keys[pair] | changed


def _ended_spans(update: Row) -> list[tuple[int, int]] | None:
    """Returns the spans that an UPDATE ends, else those that a model quotes for it; None where that is all."""
    quote = json.loads(update["evidence"] or "{}")
    quoted = [quote["older"]] if quote.get("rule") == "lm" and "older" in quote else None
    spans = json.loads(update["part"]) if update["part"] else quoted
    return None if spans is None else [(start, end) for start, end in spans]


def _quoted(memories: pl.DataFrame, ids: Collection[str]) -> dict[str, _Quoted]:
    """Returns where the quotes of formed memories among `ids` stand, by their ids."""
    formed = formed_memories(memories).filter(pl.col("memory_id").is_in(sorted(ids)))
    place = ("document_id", "char_start", "char_end")
    rows = (
        evidence_pairs(memories)
        .join(formed.select("memory_id", *place), on="memory_id")
        .join(
            stated_memories(memories).select(*place, "text", evidence_id="memory_id"),
            on=["evidence_id", "document_id"],
            suffix="_of",
        )
        .filter((pl.col("char_start") >= pl.col("char_start_of")) & (pl.col("char_end") <= pl.col("char_end_of")))
        .sort("memory_id", "evidence_id")
    )
    columns = ("memory_id", "evidence_id", "text", "char_start", "char_end", "char_start_of")
    return {
        memory_id: _Quoted(evidence_id, text, (start - begin, end - begin))
        for memory_id, evidence_id, text, start, end, begin in rows.select(columns).iter_rows()
    }


def _frame(rows: list[Row]) -> pl.DataFrame:
    return conform("relations", pl.DataFrame(rows, schema=SCHEMAS["relations"]))
