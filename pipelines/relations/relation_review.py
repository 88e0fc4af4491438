"""Relations that a person should look at, and what people say of them: `palimpsest review`, `undo`, `confirm`.

What was said is a line of `decisions.jsonl`. It is the pair's label in every later build, and a labelled pair for
training (`review --export`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.scopes import SCOPE
from palimpsest.memories.recency import is_newer, recency_columns
from palimpsest.relations.classify.label_pairs import relation_id
from palimpsest.relations.classify.label_types import LABELS, UNPAID
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.decisions import RelationOverride, append_overrides, read_decisions
from palimpsest.store.home import Home

TABLES = ("memories", "documents", "relations", "versions")
SURE = {"UPDATE": 0.85, "EXTEND": 0.7, "DERIVE": 0.7}
"""A relation under this confidence goes to review."""
REASONS = ("premise retired", "low confidence", "would have retired", "abstained")
_COLUMNS = (
    "relation_id",
    *SCOPE,
    "label",
    "why",
    "instead_of",
    "confidence",
    "labeler",
    "newer_id",
    "newer",
    "older_id",
    "older",
)


def review_table(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns the relations to look at, the gravest reasons first.

    Reasons: `premise retired` (a DERIVE whose premise no longer holds), `low confidence`, `would have retired` (an
    abstention from UPDATE), `abstained` (from another label). What a person decided is not shown again, but for a
    premise that was retired since.
    """
    relations = tables["relations"]
    latest = tables["versions"].select("memory_id", "is_latest")
    texts = tables["memories"].select("memory_id", "text")
    told = [json.loads(e) for e in relations["evidence"]]
    rows = relations.with_columns(
        pl.Series("rule", [t.get("rule") for t in told], pl.String),
        pl.Series("instead_of", [t.get("instead_of") for t in told], pl.String),
    )
    for side in ("newer", "older"):
        rows = rows.join(texts.rename({"memory_id": f"{side}_id", "text": side}), on=f"{side}_id", how="left").join(
            latest.rename({"memory_id": f"{side}_id", "is_latest": f"{side}_latest"}), on=f"{side}_id", how="left"
        )
    least = pl.col("label").replace_strict(SURE, default=0.0, return_dtype=pl.Float64)
    open_ = pl.col("labeler") != "person"
    why = (
        pl.when((pl.col("label") == "DERIVE") & ~pl.col("older_latest") & pl.col("newer_latest"))
        .then(pl.lit("premise retired"))
        .when(open_ & (pl.col("label") != "NONE") & (pl.col("confidence") < least))
        .then(pl.lit("low confidence"))
        .when(open_ & (pl.col("rule") == "abstain") & (pl.col("instead_of") == "UPDATE"))
        .then(pl.lit("would have retired"))
        .when(open_ & pl.col("rule").is_in(["abstain", UNPAID]))
        .then(pl.lit("abstained"))
    )
    rank = pl.col("why").replace_strict({w: i for i, w in enumerate(REASONS)}, return_dtype=pl.Int64)
    rows = rows.with_columns(why=why).filter(pl.col("why").is_not_null())
    return rows.sort(rank, "confidence", "relation_id").select(_COLUMNS)


def find_relation(tables: Mapping[str, pl.DataFrame], named: tuple[str, ...]) -> dict[str, Any]:
    """Returns the relation that is named by its id, or by the ids of its two memories in either order.

    Raises:
        PalimpsestError: there is none of that name.
    """
    relations, memories = tables["relations"], tables["memories"]
    if len(named) == 1:
        found = relations.filter(pl.col("relation_id") == named[0])
        if found.is_empty():
            is_memory = not memories.filter(pl.col("memory_id") == named[0]).is_empty()
            fix = "is a memory; name two with --pair" if is_memory else "no such relation in this build"
            raise PalimpsestError(f"{named[0][:40]}: {fix}; palimpsest review lists relations; nothing is decided")
        return found.row(0, named=True)
    missing = [m for m in named if memories.filter(pl.col("memory_id") == m).is_empty()]
    if missing or len(set(named)) != 2:
        raise PalimpsestError(f"{' '.join(missing or named)}: name two memories of this build, as queries cite them")
    pair = relations.filter(pl.col("newer_id").is_in(named) & pl.col("older_id").is_in(named))
    if pair.height:
        return pair.row(0, named=True)
    newer, older = _in_order(tables, named)
    scope = memories.filter(pl.col("memory_id") == newer).row(0, named=True)
    return {
        "relation_id": relation_id(newer, older),
        "newer_id": newer,
        "older_id": older,
        "label": "NONE",
        **{c: scope[c] for c in SCOPE},
        "evidence": "{}",
    }


def _in_order(tables: Mapping[str, pl.DataFrame], named: tuple[str, ...]) -> tuple[str, str]:
    state = recency_columns(tables["memories"], tables["documents"]).filter(pl.col("memory_id").is_in(named))
    a = state.select(pl.all().name.suffix("_newer"))
    both = a.join(state.select(pl.all().name.suffix("_older")), how="cross")
    same = pl.all_horizontal(pl.col(f"{c}_newer") == pl.col(f"{c}_older") for c in SCOPE)
    found = both.filter(same & is_newer("_newer", "_older")).select("memory_id_newer", "memory_id_older")
    if found.is_empty():
        raise PalimpsestError(
            f"{' '.join(named)}: not of one scope, or neither is known to be newer; nothing is decided"
        )
    return found.row(0)


@dataclass(frozen=True)
class RelationDecision:
    """What a person said of one relation: the label that it had, and the one that is right."""

    relation_id: str
    newer_id: str
    older_id: str
    was: str
    label: str


def decide(home: Home, kind: str, named: Iterable[tuple[str, ...]], label: str | None) -> list[RelationDecision]:
    """Writes what a person says of relations; the next build applies it. All of them are written, or none.

    Args:
        home: the home.
        kind: undo (the label is wrong: NONE unless `label` says what is right) or confirm (it is right, or `label` is).
        named: for each relation its id, or two memory ids; one that is named again is written once.
        label: the right label of all of them.

    Raises:
        PalimpsestError: nothing is published, or there is no such relation.
    """
    with home.lock():
        tables = current_build(home).tables(TABLES)
        found = {row["relation_id"]: row for row in (find_relation(tables, names) for names in named)}
        said = [_said(row, kind, label) for row in found.values()]
        append_overrides(
            home.decisions, kind, *(RelationOverride(s.relation_id, s.newer_id, s.older_id, s.label) for s in said)
        )
    return said


def _said(row: Mapping[str, Any], kind: str, label: str | None) -> RelationDecision:
    right = label or ("NONE" if kind == "undo" else json.loads(row["evidence"]).get("instead_of") or row["label"])
    if right not in LABELS:
        raise PalimpsestError(f"--as {right}: must be one of {', '.join(LABELS)}")
    if kind == "undo" and label is None and row["label"] == "NONE":
        raise PalimpsestError(f"{row['relation_id']}: is NONE already; confirm it, or name the label with --as")
    return RelationDecision(row["relation_id"], row["newer_id"], row["older_id"], row["label"], right)


def decided_pairs(home: Home) -> list[dict[str, Any]]:
    """Returns what people decided as labelled pairs, to train on: id, older, newer, dates, label, group."""
    build = current_build(home)
    memories = {r["memory_id"]: r for r in build.tables(["memories"])["memories"].to_dicts()}
    rows = []
    for d in read_decisions(home.decisions).relations:
        newer, older = memories.get(d.newer_id), memories.get(d.older_id)
        if newer is None or older is None:
            continue
        row = {"id": d.relation_id, "older": older["text"], "newer": newer["text"], "label": d.label}
        dates = {"older_date": older["observed_at"], "newer_date": newer["observed_at"]}
        row |= {k: v.isoformat() for k, v in dates.items() if v is not None}
        rows.append(row | {"group": older["document_id"]})
    return rows


def current_build(home: Home) -> Build:
    """Returns the build that people see, else the staged one.

    Raises:
        PalimpsestError: there is none.
    """
    current = published(home) or (staged(home) if staged(home).is_finished else None)
    if current is None:
        raise PalimpsestError(f"home {home.path}: no build there; run palimpsest build --home {home.path}")
    return current
