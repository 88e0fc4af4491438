"""Invariant 2: what is latest follows from memories and relations alone, and the newer always wins."""

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import completed
from palimpsest.store.trust_config import DEFAULT_TRUST
from palimpsest_eval.gate.violations import Tables, Violation, report


def check_versions(tables: Tables, decisions: Decisions | None = None) -> list[Violation]:
    """2: all checks of versions. `decisions` are the home's: a relation that people undid counts as not there."""
    undone = sorted(decisions.undone) if decisions is not None else []
    effective = {**tables, "relations": tables["relations"].filter(~pl.col("relation_id").is_in(undone))}
    return [
        *check_complete(effective),
        *check_recomputed(tables, decisions),
        *check_newer_wins(effective),
        *check_chains(effective),
        *check_superseded_by(effective),
        *check_trust(effective),
    ]


def check_complete(tables: Tables) -> list[Violation]:
    """2: every memory has a version, with a decision in it."""
    versions = tables["versions"].filter(pl.col("is_latest").is_not_null())
    bare = tables["memories"].join(versions, on="memory_id", how="anti")["memory_id"]
    return report(2, "versions_complete", "{n} memories have no version", bare)


def check_recomputed(tables: Tables, decisions: Decisions | None) -> list[Violation]:
    """2: versions are what the pure function makes of the tables now; nothing was ever edited in place."""
    from palimpsest.relations.versions import versions

    t = tables
    fresh = versions(t["memories"], t["relations"], t["documents"], t["document_relations"], decisions)
    columns = ["is_latest", "valid_from", "valid_until", "superseded_by"]
    both = t["versions"].join(fresh, on="memory_id", how="inner", suffix="_fresh")
    differs = pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_fresh")) for c in columns)
    return report(
        2, "versions_recomputed", "{n} versions differ from what they follow from", both.filter(differs)["memory_id"]
    )


def check_newer_wins(tables: Tables) -> list[Violation]:
    """2: every UPDATE leads from the newer memory to the older (decision 4), and none leads backwards."""
    from palimpsest.memories.recency import is_newer

    pairs = _placed_pairs(tables)
    backwards = pairs.filter(is_newer("_older", "_newer"))
    unordered = pairs.filter(
        (pl.col("label") == "UPDATE") & ~is_newer("_newer", "_older") & ~is_newer("_older", "_newer")
    )
    return [
        *report(2, "newer_wins", "{n} relations lead from an earlier memory to a later one", backwards["relation_id"]),
        *report(2, "newer_wins", "{n} UPDATEs are between memories of equal or unknown time", unordered["relation_id"]),
    ]


def check_chains(tables: Tables) -> list[Violation]:
    """2: UPDATEs of live memories form no circle; what they end whole is not latest, the newest end of each chain is.

    The newest end may itself be retired only by another version of its document or by one that replaces that.
    """
    updates = _placed_pairs(tables).filter((pl.col("label") == "UPDATE") & pl.col("live_newer"))
    rows = tables["versions"].select("memory_id", "is_latest", "superseded_by").iter_rows()
    version = {memory_id: (latest, by) for memory_id, latest, by in rows}
    older_of: dict[str, set[str]] = {}
    newer_of: dict[str, set[str]] = {}
    for newer, older in updates.select("newer_id", "older_id").iter_rows():
        older_of.setdefault(newer, set()).add(older)
        newer_of.setdefault(older, set()).add(newer)
    ended = updates.filter(pl.col("part").is_null())["older_id"].unique()
    both = [older for older in ended if version.get(older, (False, None))[0]]
    headless = [m for m in set(older_of) - set(newer_of) if version.get(m, (True, None)) == (False, None)]
    return [
        *report(2, "chains", "{n} memories update themselves in a circle", _in_circles(older_of, newer_of)),
        *report(2, "chains", "{n} memories are latest although a live one updates them", both),
        *report(2, "chains", "{n} chains of UPDATEs have no latest end", headless),
    ]


def check_superseded_by(tables: Tables) -> list[Violation]:
    """2: only what is not latest names what superseded it: a memory or document of its own scope."""
    versions = tables["versions"]
    named = versions.filter(pl.col("is_latest") & pl.col("superseded_by").is_not_null())["memory_id"]
    owner = pl.concat(
        [
            tables["memories"].select(pl.col("memory_id").alias("id"), *SCOPE),
            tables["documents"].select(pl.col("document_id").alias("id"), *SCOPE),
        ]
    ).unique("id")
    rows = versions.drop_nulls("superseded_by").join(
        owner.rename({c: f"{c}_of" for c in SCOPE}), left_on="superseded_by", right_on="id", how="left"
    )
    unknown = rows.filter(pl.col("collection_of").is_null())["memory_id"]
    crossing = rows.filter(pl.any_horizontal(pl.col(c) != pl.col(f"{c}_of") for c in SCOPE))["memory_id"]
    return [
        *report(2, "superseded_by", "{n} latest memories name what superseded them", named),
        *report(4, "references", "versions.superseded_by: {n} memories name no memory or document", unknown),
        *report(3, "scopes", "versions.superseded_by: {n} memories are superseded from another scope", crossing),
    ]


def check_trust(tables: Tables) -> list[Violation]:
    """2: no labeler's UPDATE leads to a memory that is trusted more than the newer one; a person's may."""
    trust = tables["memories"].select("memory_id", pl.col("trust").fill_null(DEFAULT_TRUST))
    pairs = tables["relations"].filter((pl.col("label") == "UPDATE") & (pl.col("labeler") != "person"))
    for end in ("newer", "older"):
        pairs = pairs.join(trust.rename({"memory_id": f"{end}_id", "trust": f"{end}_trust"}), on=f"{end}_id")
    wrong = pairs.filter(pl.col("newer_trust") < pl.col("older_trust"))["relation_id"]
    return report(2, "trust", "{n} UPDATEs are by a memory that is trusted less than what it replaces", wrong)


def _placed_pairs(tables: Tables) -> pl.DataFrame:
    """Returns the relations, undone ones left out, with the place of both ends in time."""
    from palimpsest.memories.recency import recency_columns

    order = recency_columns(tables["memories"], tables["documents"]).drop(SCOPE)
    pairs = completed("relations", tables["relations"]).select("relation_id", "label", "newer_id", "older_id", "part")
    for end in ("newer", "older"):
        names = {c: f"{c}_{end}" for c in order.columns} | {"memory_id": f"{end}_id"}
        pairs = pairs.join(order.rename(names), on=f"{end}_id", how="inner")
    return pairs


def _in_circles(older_of: dict[str, set[str]], newer_of: dict[str, set[str]]) -> list[str]:
    """What is left once every memory that nothing updates has been taken away, again and again."""
    waiting = {m: len(newer) for m, newer in newer_of.items()}
    free = sorted(set(older_of) - set(newer_of))
    while free:
        for older in older_of.get(free.pop(), ()):
            waiting[older] -= 1
            if not waiting[older]:
                free.append(older)
    return sorted(m for m, n in waiting.items() if n)
