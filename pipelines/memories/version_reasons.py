"""Why memories are no longer latest: what `versions` decided, told again with its evidence, for people who ask.

A pure function of the same tables. It decides nothing; a memory's state is what `versions` says.
"""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

UPDATED = "updated"
EDITED = "edited"
REPLACED = "replaced"
VANISHED = "vanished"
KEPT = "kept"
"""A person said of a newer memory that it does not replace this one."""

DOUBTED = "doubted"
"""A newer memory may replace this one, which stays latest because no labeler was sure."""

_EVIDENCE = ("rule", "from", "to", "newer", "older")
_INSTEAD = '"instead_of"'
_RELATION = ("relation_id", "label", "confidence", "labeler", "decided_at")


def version_reasons(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (memory_id, told), sorted: a row for each reason why a memory is not latest, was kept, or is in doubt.

    `told` is JSON with `kind`: `updated` (a newer memory replaced it: `by`, `relation_id`, `label`, `confidence`,
    `labeler`, `decided_at` where a person did, and of the evidence `rule`, `from`, `to`, and the spans `newer` and
    `older` in both texts), `edited` (its source was edited: `by` is the document version without it), `replaced` (a
    document that states to replace its own: `by`, `uri`, `title`, `at`), `vanished` (its source is there no more),
    `kept` (a person said of `by` that it does not replace it, with the relation's fields), or `doubted` (a labeler
    nearly said that `by` replaces it, and both are latest: `relation_id`).

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
    said = {
        (r["newer_id"], r["older_id"]): r
        for r in tables["relations"].select("newer_id", "older_id", "evidence", *_RELATION).iter_rows(named=True)
    }
    made = [(r["memory_id"], _retired(r, said)) for r in retired.iter_rows(named=True)]
    made += [
        (older, {"kind": KEPT, "by": newer} | _relation(r))
        for (newer, older), r in said.items()
        if r["labeler"] == "person" and r["label"] != "UPDATE"
    ]
    latest = set(tables["versions"].filter(pl.col("is_latest"))["memory_id"])
    made += [
        (older, {"kind": DOUBTED, "by": newer, "relation_id": r["relation_id"]})
        for (newer, older), r in said.items()
        if newer in latest and older in latest and nearly_retired(r)
    ]
    told = sorted((memory_id, json.dumps(row, sort_keys=True, ensure_ascii=False)) for memory_id, row in made)
    return pl.DataFrame(told, schema={"memory_id": pl.String, "told": pl.String}, orient="row")


def nearly_retired(relation: Mapping[str, Any]) -> bool:
    """Tells whether a labeler's best guess for a pair was UPDATE, and only doubt kept the older memory.

    What a veto ruled out (another statement, too little in common) is no doubt, and a person's word ends it.

    Args:
        relation: label, labeler and evidence of a row of relations.
    """
    if relation["labeler"] == "person" or relation["label"] == "UPDATE" or _INSTEAD not in (relation["evidence"] or ""):
        return False
    evidence = json.loads(relation["evidence"])
    return evidence.get("instead_of") == "UPDATE" and not evidence.get("veto")


def _retired(row: Mapping[str, Any], said: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any]:
    by = row["by"]
    if by is None:
        return {"kind": VANISHED}
    if (relation := said.get((by, row["memory_id"]))) is not None:
        return {"kind": UPDATED, "by": by} | _relation(relation)
    if by == row["edited"]:
        return {"kind": EDITED, "by": by} | _known({"uri": row["uri"], "at": row["at"]})
    if row["uri"] is None:
        return {"kind": UPDATED, "by": by}
    return {"kind": REPLACED, "by": by} | _known({n: row[n] for n in ("uri", "title", "at")})


def _relation(row: Mapping[str, Any]) -> dict[str, Any]:
    evidence = json.loads(row["evidence"] or "{}")
    found = {n: evidence.get(n) for n in _EVIDENCE}
    return _known({n: row[n] for n in _RELATION} | found)


def _known(told: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out what is null; moments in ISO 8601."""
    return {n: v.isoformat() if hasattr(v, "isoformat") else v for n, v in told.items() if v is not None}
