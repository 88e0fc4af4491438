"""Why memories are no longer latest, and what they follow from: evidence of versions and relations, for people.

A pure function of the same tables. It decides nothing; a memory's state is in `versions`.
"""

import datetime as dt
import json
from collections.abc import Mapping

import polars as pl

from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.memories.formed import repeated_by_formed
from palimpsest.store.tables import completed

UPDATED = "updated"
EDITED = "edited"
REPLACED = "replaced"
VANISHED = "vanished"
KEPT = "kept"
"""A person decided that a newer memory does not replace this one."""

PART = "part"
"""A newer memory ends a part of this one, which is still latest: its other parts hold."""
DISPUTED = "disputed"
"""A newer memory may end this one, or contradicts it, and both are latest."""
LATER = "later"
"""A newer memory says something about the same; that it ends this one is unlikely, but not excluded."""
UNREADABLE = "unreadable"
"""The source of this memory cannot be read now: the last version that could be read is served."""
DERIVED = "derived"
"""This memory follows from an older one: one reason for each premise."""

MIN_LATER = 0.005
"""Least likelihood that a newer memory ends an older one for it to be named beside the older one."""
MAX_LATER = 3
"""Newer memories named beside an older one because they may end it."""
_IS_DISPUTED = (pl.col("consequence") == DISPUTED).fill_null(False) & (pl.col("label") != "UPDATE")
_EVIDENCE_FIELDS = ("rule", "from", "to", "newer", "older")
_RELATION_FIELDS = ("relation_id", "label", "confidence", "labeler", "decided_at")
_RELATION_COLUMNS = ("newer_id", "older_id", "consequence", "part", "likelihood", "evidence", *_RELATION_FIELDS)


def version_reasons(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (memory_id, reason), sorted: why memories are not latest, kept, derived, or not to be shown alone.

    `reason` is JSON with `kind`: `updated` (a newer memory replaced it: `by`, `relation_id`, `label`, `confidence`,
    `labeler`, `decided_at` where a person did, and of the evidence `rule`, `from`, `to`, and the spans `newer` and
    `older` in both texts), `edited` (its source was edited: `by` is the document version without it), `replaced` (a
    document that states to replace its own: `by`, `uri`, `title`, `at`), `vanished` (its source no longer exists),
    `kept` (a person decided that `by` does not replace it, with the relation's fields), `part` (`by` ends the spans
    `part` of its text, with the relation's fields), `disputed` (`by` may end it, and both are latest: `relation_id`,
    `likelihood`, `part` where only these spans may have ended, `why` is `uncertain` or `low trust`), `later` (`by` says
    something newer about the same: `likelihood`; three at most), `unreadable` (its source cannot be read now), or
    `derived` (it follows from `by`, with the relation's fields). The index has the same column.

    Args:
        tables: documents, memories, versions, relations and rejects as in `store.tables`.
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
    found += _parts(relations, tables)
    found += _of_latest(tables)
    found += [(memory_id, {"kind": UNREADABLE}) for memory_id in _unreadable(tables)]
    found += [
        (newer, {"kind": DERIVED, "by": older} | _relation_fields(r))
        for (newer, older), r in relations.items()
        if r["label"] == "DERIVE"
    ]
    rows = sorted((memory_id, json.dumps(row, sort_keys=True, ensure_ascii=False)) for memory_id, row in found)
    return pl.DataFrame(rows, schema={"memory_id": pl.String, "reason": pl.String}, orient="row")


def _read_relations(relations: pl.DataFrame, retired: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that may be a reason: most pairs are labelled NONE without doubt."""
    known = completed("relations", relations).select(_RELATION_COLUMNS)
    may_be_reason = (
        (pl.col("label") == "DERIVE")
        | (pl.col("labeler") == "person")
        | ((pl.col("label") == "UPDATE") & pl.col("part").is_not_null())
    )
    of_retired = retired.select(newer_id="by", older_id="memory_id")
    return pl.concat(
        [
            known.filter(may_be_reason),
            known.filter(~may_be_reason).join(of_retired, on=["newer_id", "older_id"], how="semi"),
        ]
    )


def _parts(
    relations: Mapping[tuple[str, str], Mapping[str, JsonValue]], tables: Mapping[str, pl.DataFrame]
) -> list[tuple[str, JsonObject]]:
    """Returns (memory, reason) for each memory of which a live newer one ends a part."""
    current = tables["documents"].filter("is_current").select("document_id")
    live = set(tables["memories"].join(current, on="document_id", how="semi")["memory_id"])
    return [
        (older, {"kind": PART, "by": newer, "part": json.loads(str(r["part"]))} | _relation_fields(r))
        for (newer, older), r in relations.items()
        if r["label"] == "UPDATE" and r["part"] is not None and newer in live
    ]


def _of_latest(tables: Mapping[str, pl.DataFrame]) -> list[tuple[str, JsonObject]]:
    """Returns (memory, reason) for what newer latest memories dispute, or say later about the same.

    A formed memory that repeats the older one is disputed with it. What ended less of it than would end it was said
    later about the same.
    """
    is_open = _IS_DISPUTED | (pl.col("likelihood") >= MIN_LATER)
    is_part = (pl.col("label") == "UPDATE") & pl.col("part").is_not_null()
    open_pairs = _between_latest(tables, is_open & (pl.col("label") != "UPDATE"))
    open_pairs = pl.concat([open_pairs, _of_formed(tables, is_open | is_part)])
    fields = ("older_id", "newer_id", "relation_id", "likelihood", "part", "evidence")
    found: list[tuple[str, JsonObject]] = []
    for older, newer, relation, likelihood, part, evidence in open_pairs.filter(_IS_DISPUTED).select(fields).rows():
        rule = json.loads(evidence or "{}").get("rule")
        reason = {
            "kind": DISPUTED,
            "by": newer,
            "relation_id": relation,
            "likelihood": likelihood,
            "part": json.loads(part) if part else None,
            "why": rule if rule == "low trust" else "uncertain",
        }
        found.append((older, _without_nulls(reason)))
    later = (
        open_pairs.filter(~_IS_DISPUTED)
        .with_columns(likelihood=pl.coalesce("likelihood", "confidence", 1.0))
        .sort("older_id", "likelihood", "newer_id", descending=[False, True, False])
        .filter(pl.int_range(pl.len()).over("older_id") < MAX_LATER)
        .select("older_id", "newer_id", "likelihood")
    )
    return found + [(o, {"kind": LATER, "by": n, "likelihood": round(p, 3)}) for o, n, p in later.iter_rows()]


def _unreadable(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Returns the latest memories of documents whose source cannot be read now."""
    kept = set(tables["rejects"].filter("is_kept").select("collection", "uri").iter_rows())
    if not kept:
        return []
    current = tables["documents"].filter("is_current").select("document_id", "collection", "uri")
    ids = [i for i, name, uri in current.iter_rows() if (name, uri) in kept or (name, uri.partition("#")[0]) in kept]
    memories = tables["memories"].filter(pl.col("document_id").is_in(ids))
    return memories.join(_latest(tables), on="memory_id", how="semi")["memory_id"].to_list()


def disputing_relations(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns the relations by which a newer memory disputes an older one: both are latest, and no person decided.

    A formed memory that repeats the older one has them too.
    """
    return pl.concat([_between_latest(tables, _IS_DISPUTED), _of_formed(tables, _IS_DISPUTED)])


def _of_formed(tables: Mapping[str, pl.DataFrame], which: pl.Expr) -> pl.DataFrame:
    """Returns those relations of stated memories for the latest formed ones that repeat these, disputes first."""
    pairs = _between_latest(tables, which).sort(
        _IS_DISPUTED, "likelihood", "relation_id", descending=[True, True, False], nulls_last=True
    )
    found = repeated_by_formed(pairs, tables["memories"]).with_columns(part=pl.lit(None, pl.String))
    return found.join(_latest(tables), left_on="older_id", right_on="memory_id", how="semi")


def _between_latest(tables: Mapping[str, pl.DataFrame], which: pl.Expr) -> pl.DataFrame:
    """Returns those relations between latest memories that no person decided."""
    latest = _latest(tables)
    return (
        completed("relations", tables["relations"])
        .filter(pl.col("labeler") != "person", which)
        .join(latest, left_on="newer_id", right_on="memory_id", how="semi")
        .join(latest, left_on="older_id", right_on="memory_id", how="semi")
    )


def _latest(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    return tables["versions"].filter("is_latest").select("memory_id")


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
