"""DERIVE relations from a memory to all its premises, added to the labels of candidate pairs.

A label is of one pair; a conclusion often follows from two memories together, of which neither alone is enough. Only
a NONE of the offline labeler is replaced: an UPDATE, a person's decision and the answer of a language model stay.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.recency import recency_columns
from palimpsest.relations.classify.label_pairs import count_labels, pair_keys
from palimpsest.relations.classify.low_trust import to_json
from palimpsest.relations.premises.find_premises import Premises, find_premises
from palimpsest.relations.premises.scope_statements import ScopeStatements, Statement
from palimpsest.relations.premises.unchanged_scopes import PremiseInputs, unchanged_scopes
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import completed, conform

PREMISES = "premises"
"""The labeler of the relations that are added, and the field of their evidence with the ids of the other premises."""
DERIVE = "DERIVE"
_ORDER = ("at", "line", "seq", "ordinal", "memory_id")
_LABELED = ("label", "confidence", "labeler", "evidence")
_OFFLINE = "offline"


@dataclass(frozen=True)
class _Relation:
    """Label, conflict, confidence, labeler and evidence of a row of relations."""

    label: str
    conflict: str | None
    confidence: float | None
    labeler: str
    evidence: str
    consequence: str | None = None


def add_premises(inputs: PremiseInputs, decisions: Decisions, earlier: PremiseInputs | None = None) -> pl.DataFrame:
    """Returns relations with those to premises that are found, sorted by relation_id.

    Each DERIVE of a memory with several names the others: `premises` in its evidence. A relation that replaces a label
    keeps it in `labeled`; `without_premises` restores it.

    Args:
        inputs: relations as `label_pairs` made them, and the tables they are of.
        decisions: pairs that people decided are left as they are.
        earlier: the relations that this function returned from the same code and decisions, and the tables they are
            of: scopes where nothing differs are not searched again.
    """
    if earlier is None:
        return _add_found(inputs, decisions)
    before = replace(earlier, relations=without_premises(earlier.relations))
    same = unchanged_scopes(inputs, before)
    kept = completed("relations", earlier.relations).join(same, on=SCOPE, how="semi", nulls_equal=True)
    rest = {
        name: getattr(inputs, name).join(same, on=SCOPE, how="anti", nulls_equal=True)
        for name in ("relations", "memories", "documents")
    }
    return pl.concat([conform("relations", kept), _add_found(PremiseInputs(**rest), decisions)]).sort("relation_id")


def _add_found(inputs: PremiseInputs, decisions: Decisions) -> pl.DataFrame:
    relations, memories = inputs.relations, inputs.memories
    decided = {(d.newer_id, d.older_id) for d in decisions.relations}
    rows = {(n, o): _Relation(*rest) for n, o, *rest in relations.select(*_COLUMNS).iter_rows()}
    derived: dict[tuple[str, str], _Relation] = {}
    for found in _search(relations, memories, inputs.documents):
        for older_id in found.premise_ids:
            pair = (found.memory_id, older_id)
            if pair not in decided and _is_open(rows.get(pair)):
                derived[pair] = _derive(found, rows.get(pair))
    changed = _name_other_premises(rows | derived)
    kept = relations.join(_pairs(changed), on=["newer_id", "older_id"], how="anti")
    return pl.concat([kept, _to_frame(changed, relations, memories)]).sort("relation_id")


_COLUMNS = ("newer_id", "older_id", "label", "conflict", "confidence", "labeler", "evidence", "consequence")


def without_premises(relations: pl.DataFrame) -> pl.DataFrame:
    """Returns relations as their labelers gave them, what `add_premises` added or changed undone; in any order."""
    relations = completed("relations", relations)
    is_changed = pl.col("evidence").fill_null("").str.contains(f'"{PREMISES}": [', literal=True) | (
        pl.col("labeler") == PREMISES
    )
    restored = []
    for row in relations.filter(is_changed).iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        evidence.pop(PREMISES, None)
        if row["labeler"] != PREMISES:
            restored.append({**row, "evidence": to_json(evidence)})
        elif (labeled := evidence.get("labeled")) is not None:
            restored.append({**row, **labeled, "evidence": to_json(labeled["evidence"])})
    rows = pl.DataFrame(restored, schema=relations.schema, orient="row")
    return pl.concat([relations.filter(~is_changed.fill_null(False)), rows])


def label_counts(relations: pl.DataFrame) -> dict[str, float]:
    """Returns the number of relations of each label, and of those that `add_premises` made in `premises`."""
    added = relations.filter(pl.col("labeler") == PREMISES).height
    return {name: float(n) for name, n in (count_labels(relations) | {PREMISES: added}).items()}


def _search(relations: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> Iterator[Premises]:
    known = _grouped(relations.filter(label=DERIVE).select("newer_id", "older_id").iter_rows())
    replaced_by = _grouped(relations.filter(label="UPDATE").select("older_id", "newer_id").iter_rows())
    state = recency_columns(memories, documents).with_columns(memories["text"])
    for _, members in state.sort(*SCOPE, *_ORDER, nulls_last=False).group_by(SCOPE, maintain_order=True):
        columns = members.select("memory_id", "text", "at", "line", "seq", "ordinal", "live")
        statements = [Statement(m, text, at, line, (q, o), live) for m, text, at, line, q, o, live in columns.rows()]
        yield from find_premises(ScopeStatements(statements, known, replaced_by))


def _grouped(pairs: Iterable[tuple[str, ...]]) -> dict[str, set[str]]:
    groups: dict[str, set[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, set()).add(value)
    return groups


def _is_open(relation: _Relation | None) -> bool:
    """Returns whether a pair may become DERIVE: it has no relation, or a NONE without conflict of offline rules."""
    return relation is None or (
        relation.label == "NONE" and relation.labeler == _OFFLINE and relation.consequence is None
    )


def _derive(found: Premises, labeled: _Relation | None) -> _Relation:
    evidence: JsonObject = dict(found.evidence)
    if labeled is not None:
        fields = {name: getattr(labeled, name) for name in _LABELED}
        evidence["labeled"] = {**fields, "evidence": json.loads(labeled.evidence)}
    return _Relation(DERIVE, None, found.confidence, PREMISES, to_json(evidence))


def _name_other_premises(rows: Mapping[tuple[str, str], _Relation]) -> dict[tuple[str, str], _Relation]:
    """Returns the relations of `add_premises`, and each DERIVE of a memory that has several, naming the others."""
    premises = _grouped(pair for pair, relation in rows.items() if relation.label == DERIVE)
    changed = {}
    for (newer_id, older_id), relation in rows.items():
        if relation.label != DERIVE:
            continue
        others = sorted(premises[newer_id] - {older_id})
        if others or relation.labeler == PREMISES:
            evidence = json.loads(relation.evidence or "{}") | ({PREMISES: others} if others else {})
            changed[newer_id, older_id] = _Relation(
                relation.label, relation.conflict, relation.confidence, relation.labeler, to_json(evidence)
            )
    return changed


def _pairs(pairs: Iterable[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(list(pairs), schema={"newer_id": pl.String, "older_id": pl.String}, orient="row")


def _to_frame(
    changed: Mapping[tuple[str, str], _Relation], relations: pl.DataFrame, memories: pl.DataFrame
) -> pl.DataFrame:
    """Returns rows of relations; one that had a row keeps its program and time, so that its label is carried over."""
    pairs = _pairs(changed)
    results: Sequence[_Relation] = list(changed.values())
    own_program = content_id(PREMISES, code_hash(("palimpsest.relations.premises.find_premises",)))
    earlier = relations.select(
        *("newer_id", "older_id", "program_hash", "decided_at", "consequence", "part", "likelihood"), known="input_hash"
    )
    scopes = memories.select(*SCOPE, newer_id="memory_id")
    rows = (
        pair_keys(pairs, memories)
        .with_columns(
            pl.Series("label", [r.label for r in results], pl.String),
            pl.Series("conflict", [r.conflict for r in results], pl.String),
            pl.Series("confidence", [r.confidence for r in results], pl.Float64),
            pl.Series("labeler", [r.labeler for r in results], pl.String),
            pl.Series("evidence", [r.evidence for r in results], pl.String),
        )
        .join(scopes, on="newer_id", how="left")
        .join(earlier, on=["newer_id", "older_id"], how="left")
        .with_columns(pl.col("program_hash").fill_null(own_program), input_hash=pl.coalesce("known", "input_hash"))
        .drop("known")
    )
    return conform("relations", rows)
