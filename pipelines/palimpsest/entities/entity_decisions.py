"""What a person decides about names: that two are one, or are not; and why the build has two as one.

A decision is a line in `<home>/decisions.jsonl`; the next build applies it, and so does every one after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import SCOPE, JsonRecord, ScopeKey, entity_id, scope_parts
from palimpsest.entities.find_names import entity_key
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import Verdict, append_decisions, names_target, read_decisions
from palimpsest.store.home import Home


@dataclass(frozen=True)
class MergeReason:
    """Why an alias refers to a name: in which words or by which rule, in which memory, in which document only."""

    alias: str
    name: str
    why: str
    memory_id: str | None
    document_id: str | None


@dataclass(frozen=True)
class EntityExplanation(JsonRecord):
    """An entity with its aliases and the reasons that it has them."""

    entity_id: str
    name: str
    type: str
    aliases: Sequence[str]
    reasons: Sequence[MergeReason]


@dataclass(frozen=True)
class NameDecision(JsonRecord):
    """A person's verdict on two names of a scope, and when it is applied."""

    collection: str
    user: str
    project: str
    names: Sequence[str]
    verdict: Verdict
    applied: str = "by the next build"


def explain_entity(home: Home, scope: ScopeKey, name: str) -> list[EntityExplanation]:
    """Returns the entities that a name refers to in a scope, most mentioned first.

    They are several where the name means different things in different documents.

    Raises:
        PalimpsestError: nothing is published, or the scope has no such name.
    """
    build = _published_build(home, scope[0])
    key = entity_key(name)
    entities = _in_scope(build, "entities", scope)
    merges = _in_scope(build, "merges", scope).drop(SCOPE)
    counts = _in_scope(build, "mentions", scope).group_by("entity_id").agg(n=pl.len())
    has_name = [key in map(entity_key, [n, *aliases]) for n, aliases in entities.select("name", "aliases").iter_rows()]
    rows = entities.filter(pl.Series(has_name, dtype=pl.Boolean)).join(counts, on="entity_id", how="left")
    if rows.is_empty():
        raise PalimpsestError(_unknown_name_message(name, scope))
    found = []
    for row in rows.sort("n", "entity_id", descending=[True, False]).to_dicts():
        reasons = merges.filter(entity_id=row["entity_id"]).drop("entity_id")
        found.append(
            EntityExplanation(
                entity_id=row["entity_id"],
                name=row["name"],
                type=row["type"],
                aliases=row["aliases"],
                reasons=[MergeReason(**reason) for reason in reasons.iter_rows(named=True)],
            )
        )
    return found


def decide_names(home: Home, scope: ScopeKey, a: str, b: str, verdict: Verdict) -> NameDecision:
    """Records that two names of a scope are one (`same`), are not (`apart`), or are left to the rules (`undecided`).

    Raises:
        PalimpsestError: a name is not in the scope, both are one spelling, or nothing would change.
    """
    build = _published_build(home, scope[0])
    known = set(_in_scope(build, "surfaces", scope)["key"])
    for name, aliases in _in_scope(build, "entities", scope).select("name", "aliases").iter_rows():
        known |= {entity_key(n) for n in (name, *aliases)}
    keys = [entity_key(n) for n in (a, b)]
    for name, key in zip((a, b), keys, strict=True):
        if key not in known:
            raise PalimpsestError(_unknown_name_message(name, scope))
    if keys[0] == keys[1]:
        raise PalimpsestError(f"entity: {a!r} and {b!r} differ only in case or accents and are always one entity")
    first, second = sorted(entity_id(*scope, k) for k in keys)
    with home.lock():
        before = read_decisions(home.decisions)
        decided = {"same": before.same, "apart": before.apart}.get(verdict)
        is_decided = (first, second) in (decided if decided is not None else before.same | before.apart)
        if is_decided == (verdict != "undecided"):
            raise PalimpsestError(f"entity: {a!r} and {b!r} are already {verdict}; no decision is needed")
        append_decisions(home.decisions, verdict, [names_target(first, second)])
    return NameDecision(*scope, names=[a, b], verdict=verdict)


def entity_text(found: Sequence[EntityExplanation]) -> str:
    """Returns entities and their reasons as lines for people."""
    lines = []
    for entity in found:
        aliases = ", ".join(entity.aliases) or "no other name"
        lines.append(f"{entity.name} ({entity.type}, {entity.entity_id}): {aliases}")
        for reason in entity.reasons:
            where = f", in document {reason.document_id} only" if reason.document_id else ""
            by = f" [memory:{reason.memory_id}]" if reason.memory_id else ""
            lines.append(f"  {reason.alias} = {reason.name}: {reason.why}{where}{by}")
    return "\n".join(lines)


def _published_build(home: Home, collection: str) -> Build:
    build = published(home)
    if build is None or collection not in build.collections:
        raise PalimpsestError(f"entity: collection {collection} is not published in {home.path}; run palimpsest build")
    return build


def _unknown_name_message(name: str, scope: ScopeKey) -> str:
    return f"entity: no name {name!r} in {'/'.join(scope_parts(*scope))}; write it as the texts do"


def _in_scope(build: Build, table: str, scope: ScopeKey) -> pl.DataFrame:
    return build.table(scope[0], table).filter(**dict(zip(SCOPE, scope, strict=True)))
