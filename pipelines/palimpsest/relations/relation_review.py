"""Relations that a person should review, and their decisions: `palimpsest review`, `undo`, `confirm`.

A decision is a line of `decisions.jsonl`. It is the pair's label in every later build, and a labelled pair for training
(`review --export`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE
from palimpsest.core.times import on_own_clock
from palimpsest.memories.recency import is_newer, recency_columns
from palimpsest.relations.labelers.label_pairs import relation_id
from palimpsest.relations.labelers.label_types import DISPUTED, LABELS, UNPAID
from palimpsest.relations.labelers.low_trust import LOW_TRUST, PART_ENDED, REVIEW_REASONS
from palimpsest.relations.labelers.pairs_file import PairRow
from palimpsest.relations.versions import UPDATE, versions
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.decisions import Decisions, RelationOverride, append_overrides, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.tables import completed

TABLES = ("memories", "documents", "document_relations", "relations", "versions")
MIN_CONFIDENCE = {"UPDATE": 0.85, "EXTEND": 0.7, "DERIVE": 0.7}
"""By label: a relation below this confidence goes to review."""
_COLUMNS = (
    "relation_id",
    *SCOPE,
    "label",
    "conflict",
    "consequence",
    "likelihood",
    "part",
    "why",
    "rank",
    "instead_of",
    "confidence",
    "labeler",
    "newer_id",
    "newer",
    "older_id",
    "older",
)


def review_table(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns the relations to review, the most serious reasons first.

    Reasons, in `why`, with their place in this order, from 1, in `rank`: `premise retired` (a DERIVE whose premise is
    retired), `low trust` (an UPDATE that was refused because the newer is trusted less), `low confidence`, `disputed`
    (the newer may end the older, or contradicts it, likeliest first), `part ended` (an UPDATE of a part; the rest is
    latest), `abstained` (from another label). A dispute of
    which one side is retired is resolved. What a person decided is shown again only when its premise was retired since.
    """
    relations = completed("relations", tables["relations"])
    latest = tables["versions"].select("memory_id", "is_latest")
    texts = tables["memories"].select("memory_id", "text")
    evidence = [json.loads(e) for e in relations["evidence"]]
    rows = relations.with_columns(
        pl.Series("rule", [e.get("rule") for e in evidence], pl.String),
        pl.Series("instead_of", [e.get("instead_of") for e in evidence], pl.String),
    )
    for side in ("newer", "older"):
        rows = rows.join(texts.rename({"memory_id": f"{side}_id", "text": side}), on=f"{side}_id", how="left").join(
            latest.rename({"memory_id": f"{side}_id", "is_latest": f"{side}_latest"}), on=f"{side}_id", how="left"
        )
    min_confidence = pl.col("label").replace_strict(MIN_CONFIDENCE, default=0.0, return_dtype=pl.Float64)
    undecided = pl.col("labeler") != "person"
    both_latest = pl.col("older_latest") & pl.col("newer_latest")
    why = (
        pl.when((pl.col("label") == "DERIVE") & ~pl.col("older_latest") & pl.col("newer_latest"))
        .then(pl.lit("premise retired"))
        .when(undecided & both_latest & (pl.col("rule") == LOW_TRUST))
        .then(pl.lit(LOW_TRUST))
        .when(undecided & (pl.col("label") != "NONE") & (pl.col("confidence") < min_confidence))
        .then(pl.lit("low confidence"))
        .when(undecided & both_latest & (pl.col("consequence") == DISPUTED))
        .then(pl.lit(DISPUTED))
        .when(undecided & both_latest & (pl.col("label") == UPDATE) & pl.col("part").is_not_null())
        .then(pl.lit(PART_ENDED))
        .when(undecided & pl.col("rule").is_in(["abstain", UNPAID]))
        .then(pl.lit("abstained"))
    )
    rank = pl.col("why").replace_strict({w: i for i, w in enumerate(REVIEW_REASONS, 1)}, return_dtype=pl.Int64)
    rows = rows.with_columns(why=why).filter(pl.col("why").is_not_null()).with_columns(rank=rank)
    doubt = pl.when(pl.col("why") == DISPUTED).then(1 - pl.col("likelihood").fill_null(0.0)).otherwise("confidence")
    return rows.sort("rank", doubt, "relation_id").select(_COLUMNS)


@dataclass(frozen=True)
class FoundRelation:
    """A relation by its memories; `instead_of` is the label that its labeler abstained from, or that trust refused.

    `is_in_build` is False of two memories that the build did not compare.
    """

    relation_id: str
    newer_id: str
    older_id: str
    label: str
    instead_of: str | None = None
    consequence: str | None = None
    part: str | None = None
    is_in_build: bool = True


def find_relation(tables: Mapping[str, pl.DataFrame], named: tuple[str, ...]) -> FoundRelation:
    """Returns the relation that is named by its id, or by the ids of its two memories in either order.

    Two memories without a relation in this build are a NONE.

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
        return _found(found)
    missing = [m for m in named if memories.filter(pl.col("memory_id") == m).is_empty()]
    if missing or len(set(named)) != 2:
        raise PalimpsestError(f"{' '.join(missing or named)}: name two memories of this build, as queries cite them")
    pair = relations.filter(pl.col("newer_id").is_in(named) & pl.col("older_id").is_in(named))
    if pair.height:
        return _found(pair)
    newer, older = _newer_first(tables, named)
    return FoundRelation(relation_id(newer, older), newer, older, "NONE", is_in_build=False)


def _found(rows: pl.DataFrame) -> FoundRelation:
    row = rows.row(0, named=True)
    ids = (row["relation_id"], row["newer_id"], row["older_id"])
    instead = json.loads(row["evidence"]).get("instead_of")
    return FoundRelation(*ids, row["label"], instead, row.get("consequence"), row.get("part"))


def _newer_first(tables: Mapping[str, pl.DataFrame], named: tuple[str, ...]) -> tuple[str, str]:
    state = recency_columns(tables["memories"], tables["documents"]).filter(pl.col("memory_id").is_in(named))
    newer, older = (state.select(pl.all().name.suffix(suffix)) for suffix in ("_newer", "_older"))
    same_scope = pl.all_horizontal(pl.col(f"{c}_newer") == pl.col(f"{c}_older") for c in SCOPE)
    found = newer.join(older, how="cross").filter(same_scope & is_newer("_newer", "_older"))
    if found.is_empty():
        raise PalimpsestError(
            f"{' '.join(named)}: they are in different scopes, or neither is known to be newer; name another pair"
        )
    return found.select("memory_id_newer", "memory_id_older").row(0)


@dataclass(frozen=True)
class RelationDecision:
    """A person's decision about a relation: `was` is the label that it had, `label` the right one.

    `stays_retired` is why the older memory of an UPDATE that was taken back is not latest in the next build either;
    None where it is latest again, and for every other decision. `part` has the spans of the older text that an UPDATE
    ends, as in the relations table; empty for all of it.
    """

    relation_id: str
    newer_id: str
    older_id: str
    was: str
    label: str
    stays_retired: str | None = None
    part: str = ""


def decide(home: Home, kind: str, named: Iterable[tuple[str, ...]], label: str | None) -> list[RelationDecision]:
    """Writes decisions about relations, all or none; the next build applies them.

    Args:
        home: the home.
        kind: undo (the label is wrong: NONE unless `label` gives the right one) or confirm (right, or `label` is). A
            confirmed UPDATE ends the part that the build found; one that `label` names ends all of the older memory.
        named: for each relation its id, or two memory ids; one that is named twice is written once.
        label: the right label of all of them.

    Raises:
        PalimpsestError: nothing is published, or there is no such relation.
    """
    with home.lock():
        tables = current_build(home).tables(TABLES)
        found = {relation.relation_id: relation for relation in (find_relation(tables, names) for names in named)}
        decisions = [_decide_one(relation, kind, label) for relation in found.values()]
        overrides = (RelationOverride(d.relation_id, d.newer_id, d.older_id, d.label, part=d.part) for d in decisions)
        append_overrides(home.decisions, kind, *overrides)
        reasons = reasons_to_stay_retired(tables, decisions, read_decisions(home.decisions))
    return [replace(d, stays_retired=reasons.get(d.relation_id)) for d in decisions]


def reasons_to_stay_retired(
    tables: Mapping[str, pl.DataFrame], decisions: Iterable[RelationDecision], recorded: Decisions
) -> dict[str, str]:
    """Returns by relation id why the older memory is retired without the UPDATE that a decision takes back."""
    taken_back = {d.relation_id: d.older_id for d in decisions if d.was == UPDATE and d.label != UPDATE}
    if not taken_back:
        return {}
    memories, documents = tables["memories"], tables["documents"]
    relations = tables["relations"].filter(~pl.col("relation_id").is_in(list(taken_back)))
    found = (
        versions(memories, relations, documents, tables["document_relations"], recorded)
        .filter(~pl.col("is_latest") & pl.col("memory_id").is_in(list(taken_back.values())))
        .select("memory_id", "superseded_by")
        .join(memories.select("memory_id", "document_id"), on="memory_id")
        .join(documents.select("document_id", "is_current", edited="superseded_by"), on="document_id")
        .with_columns(is_updated=pl.col("superseded_by").is_in(memories["memory_id"].to_list()))
    )
    reasons = {row["memory_id"]: _reason_to_stay_retired(row) for row in found.iter_rows(named=True)}
    return {relation: reasons[older] for relation, older in taken_back.items() if older in reasons}


def _reason_to_stay_retired(row: Mapping[str, object]) -> str:
    if not row["is_current"]:
        return "its source was edited since" if row["edited"] else "its source no longer has it"
    return f"{row['superseded_by']} updates it too" if row["is_updated"] else "another document replaces its own"


def _decide_one(found: FoundRelation, kind: str, label: str | None) -> RelationDecision:
    right = label or ("NONE" if kind == "undo" else found.instead_of or found.label)
    if right not in LABELS:
        raise PalimpsestError(f"--as {right}: must be one of {', '.join(LABELS)}")
    if kind == "confirm" and label is None and not found.is_in_build:
        raise PalimpsestError(
            f"{found.newer_id} {found.older_id}: this build has no relation of the two; name its label with --as"
        )
    if kind == "undo" and label is None and found.label == "NONE" and found.consequence is None:
        raise PalimpsestError(
            f"{found.relation_id}: its label is already NONE; confirm it, or name another label with --as"
        )
    part = (found.part or "") if right == UPDATE and label is None else ""
    return RelationDecision(found.relation_id, found.newer_id, found.older_id, found.label, right, part=part)


def decided_pairs(home: Home) -> list[PairRow]:
    """Returns the pairs that people decided, as labelled pairs to train on; their group is the older document."""
    memories = {
        r["memory_id"]: r | {"observed_at": on_own_clock(r["observed_at"], r["utc_offset"])}
        for r in current_build(home).tables(["memories"])["memories"].iter_rows(named=True)
    }
    rows: list[PairRow] = []
    for d in read_decisions(home.decisions).relations:
        newer, older = memories.get(d.newer_id), memories.get(d.older_id)
        if newer is None or older is None:
            continue
        row: PairRow = {"id": d.relation_id, "older": older["text"], "newer": newer["text"], "label": d.label}
        if older["observed_at"] is not None:
            row["older_date"] = older["observed_at"].isoformat()
        if newer["observed_at"] is not None:
            row["newer_date"] = newer["observed_at"].isoformat()
        row["group"] = older["document_id"]
        rows.append(row)
    return rows


def current_build(home: Home) -> Build:
    """Returns the published build, else the staged one.

    Raises:
        PalimpsestError: there is none.
    """
    current = published(home) or (staged(home) if staged(home).is_finished else None)
    if current is None:
        raise PalimpsestError(f"home {home.path}: it has no build; run palimpsest build --home {home.path}")
    return current
