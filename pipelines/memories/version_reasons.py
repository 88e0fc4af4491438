"""Why memories are no longer latest, and what they follow from: evidence of versions and relations, for people.

A pure function of the same tables. It decides nothing; a memory's state is in `versions`.
"""

import datetime as dt
import json
from collections.abc import Mapping

import polars as pl

from palimpsest.core.json_types import JsonObject, JsonValue

UPDATED = "updated"
EDITED = "edited"
REPLACED = "replaced"
VANISHED = "vanished"
KEPT = "kept"
"""A person decided that a newer memory does not replace this one."""

DOUBTED = "doubted"
"""A newer memory may replace this one, which is still latest because no labeler was sure."""
CONTRADICTED = "contradicted"
"""This memory and another, both latest, contradict each other, and no person decided yet."""
DERIVED = "derived"
"""This memory follows from an older one: one reason for each premise."""

_EVIDENCE_FIELDS = ("rule", "from", "to", "newer", "older")
_INSTEAD = '"instead_of"'
_RELATION_FIELDS = ("relation_id", "label", "confidence", "labeler", "decided_at")
_RELATION_COLUMNS = ("newer_id", "older_id", "conflict", "evidence", *_RELATION_FIELDS)


def version_reasons(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (memory_id, reason), sorted: a row for each reason why a memory is not latest, kept, in doubt or derived.

    `reason` is JSON with `kind`: `updated` (a newer memory replaced it: `by`, `relation_id`, `label`, `confidence`,
    `labeler`, `decided_at` where a person did, and of the evidence `rule`, `from`, `to`, and the spans `newer` and
    `older` in both texts), `edited` (its source was edited: `by` is the document version without it), `replaced` (a
    document that states to replace its own: `by`, `uri`, `title`, `at`), `vanished` (its source no longer exists),
    `kept` (a person decided that `by` does not replace it, with the relation's fields), `doubted` (a labeler was
    close to deciding that `by` replaces it, and both are latest: `relation_id`), `contradicted` (`by` contradicts
    it, and both are latest: `relation_id`, `newer` is whether `by` is the newer one, `why` is `contradiction` or `low
    trust`), or `derived` (it follows from `by`, with the relation's fields). The index has the same column.

    Args:
        tables: documents, memories, versions and relations as in `store.tables`.
    """
    documents = tables["documents"].select(by="document_id", uri="uri", title="title", at="source_time").unique("by")
    edited = tables["documents"].select("document_id", edited="superseded_by").unique("document_id")
    retired = (
        tables["versions"]
        .filter(~pl.col("is_latest"))
        .select("memory_id", by="superseded_by")
        .join(tables["memories"].select("memory_id", "document_id"), on="memory_id", how="inner")
        .join(edited, on="document_id", how="left")
        .join(documents, on="by", how="left")
    )
    relations = {
        (r["newer_id"], r["older_id"]): r for r in _read_relations(tables["relations"], retired).iter_rows(named=True)
    }
    found = [(r["memory_id"], _retired(r, relations)) for r in retired.iter_rows(named=True)]
    found += [
        (older, {"kind": KEPT, "by": newer} | _relation_fields(r))
        for (newer, older), r in relations.items()
        if r["labeler"] == "person" and r["label"] != "UPDATE"
    ]
    latest = set(tables["versions"].filter(pl.col("is_latest"))["memory_id"])
    found += [
        (older, {"kind": DOUBTED, "by": newer, "relation_id": r["relation_id"]})
        for (newer, older), r in relations.items()
        if newer in latest and older in latest and _is_doubted(r)
    ]
    found += [row for (newer, older), r in relations.items() if {newer, older} <= latest for row in _contradicted(r)]
    found += [
        (newer, {"kind": DERIVED, "by": older} | _relation_fields(r))
        for (newer, older), r in relations.items()
        if r["label"] == "DERIVE"
    ]
    rows = sorted((memory_id, json.dumps(row, sort_keys=True, ensure_ascii=False)) for memory_id, row in found)
    return pl.DataFrame(rows, schema={"memory_id": pl.String, "reason": pl.String}, orient="row")


def _read_relations(relations: pl.DataFrame, retired: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that may be a reason: most pairs are labelled NONE without doubt."""
    known = relations.select(_RELATION_COLUMNS)
    may_be_reason = (
        (pl.col("label") == "DERIVE")
        | (pl.col("labeler") == "person")
        | (pl.col("conflict") == "static")
        | ((pl.col("label") != "UPDATE") & pl.col("evidence").str.contains(_INSTEAD, literal=True))
    )
    of_retired = retired.select(newer_id="by", older_id="memory_id")
    return pl.concat([known.filter(may_be_reason), known.join(of_retired, on=["newer_id", "older_id"], how="semi")])


def _is_doubted(relation: Mapping[str, JsonValue]) -> bool:
    """Returns whether a labeler's best guess for a pair was UPDATE, and only doubt kept the older memory.

    What a veto ruled out (another statement, too little in common) is no doubt, and a person's decision ends it. A
    static conflict is no doubt but a contradiction.

    Args:
        relation: label, labeler, conflict and evidence of a row of relations.
    """
    if relation["conflict"] == "static":
        return False
    if relation["labeler"] == "person" or relation["label"] == "UPDATE" or _INSTEAD not in str(relation["evidence"]):
        return False
    evidence = json.loads(str(relation["evidence"]))
    return bool(evidence.get("instead_of") == "UPDATE" and not evidence.get("veto"))


def _contradicted(relation: Mapping[str, JsonValue]) -> list[tuple[str, JsonObject]]:
    """Returns (memory, reason) for both memories of a static conflict that no person decided, else nothing."""
    if relation["conflict"] != "static" or relation["labeler"] == "person":
        return []
    newer, older = str(relation["newer_id"]), str(relation["older_id"])
    is_low_trust = json.loads(str(relation["evidence"] or "{}")).get("rule") == "low trust"
    reason = {
        "kind": CONTRADICTED,
        "relation_id": relation["relation_id"],
        "why": "low trust" if is_low_trust else "contradiction",
    }
    return [(older, {**reason, "by": newer, "newer": True}), (newer, {**reason, "by": older, "newer": False})]


def _retired(row: Mapping[str, JsonValue], relations: Mapping[tuple[str, str], Mapping[str, JsonValue]]) -> JsonObject:
    by = row["by"]
    if by is None:
        return {"kind": VANISHED}
    if (relation := relations.get((str(by), str(row["memory_id"])))) is not None:
        return {"kind": UPDATED, "by": by} | _relation_fields(relation)
    if by == row["edited"]:
        return {"kind": EDITED, "by": by} | _without_nulls({"uri": row["uri"], "at": row["at"]})
    if row["uri"] is None:
        return {"kind": UPDATED, "by": by}
    return {"kind": REPLACED, "by": by} | _without_nulls({n: row[n] for n in ("uri", "title", "at")})


def _relation_fields(row: Mapping[str, JsonValue]) -> JsonObject:
    evidence = json.loads(str(row["evidence"] or "{}"))
    of_evidence = {n: evidence.get(n) for n in _EVIDENCE_FIELDS}
    return _without_nulls({n: row[n] for n in _RELATION_FIELDS} | of_evidence)


def _without_nulls(fields: Mapping[str, object]) -> JsonObject:
    """Returns the fields that are not null; times in ISO 8601."""
    return {n: v.isoformat() if isinstance(v, dt.datetime) else v for n, v in fields.items() if v is not None}  # type: ignore[misc]
