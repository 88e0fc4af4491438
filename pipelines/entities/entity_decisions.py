"""What a person says about names: that two are one, or are not; and why the build holds two for one.

A decision is a line in `<home>/decisions.jsonl`; the next build applies it, and so does every one after it.
"""

from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import entity_id
from palimpsest.core.scopes import SCOPE, ScopeKey, scope_parts
from palimpsest.entities.names.find_names import entity_key
from palimpsest.store.builds import Build, published
from palimpsest.store.decisions import Verdict, append_decisions, names_target, read_decisions
from palimpsest.store.home import Home


def explain_entity(home: Home, scope: ScopeKey, name: str) -> list[dict[str, Any]]:
    """Returns the entities that a name stands for in a scope, each with its aliases and the reasons that it has them.

    Returns:
        `[{"entity_id", "name", "type", "aliases", "reasons": [{"alias", "name", "why", "memory_id", "document_id"}]}]`,
        most mentioned first; several where the name means different things in different documents.

    Raises:
        PalimpsestError: nothing is published, or the scope has no such name.
    """
    build = _build(home, scope[0])
    key = entity_key(name)
    entities = _in_scope(build, "entities", scope)
    merges = _in_scope(build, "merges", scope)
    counts = _in_scope(build, "mentions", scope).group_by("entity_id").agg(n=pl.len())
    hit = [key in map(entity_key, [n, *aliases]) for n, aliases in entities.select("name", "aliases").iter_rows()]
    rows = entities.filter(pl.Series(hit, dtype=pl.Boolean)).join(counts, on="entity_id", how="left")
    if rows.is_empty():
        raise _no_name(name, scope)
    found = []
    for row in rows.sort("n", "entity_id", descending=[True, False]).to_dicts():
        reasons = merges.filter(entity_id=row["entity_id"]).drop("entity_id", *SCOPE).to_dicts()
        found.append({k: row[k] for k in ("entity_id", "name", "type", "aliases")} | {"reasons": reasons})
    return found


def decide_names(home: Home, scope: ScopeKey, a: str, b: str, verdict: Verdict) -> dict[str, Any]:
    """Writes down that two names of a scope are one (`same`), are not (`apart`), or that the rules may tell again.

    Raises:
        PalimpsestError: a name is not in the scope, both are one spelling, or nothing would change.
    """
    build = _build(home, scope[0])
    known = set(_in_scope(build, "surfaces", scope)["key"])
    for names in _in_scope(build, "entities", scope).select("name", "aliases").iter_rows():
        known |= {entity_key(n) for n in (names[0], *names[1])}
    keys = [entity_key(n) for n in (a, b)]
    for name, key in zip((a, b), keys, strict=True):
        if key not in known:
            raise _no_name(name, scope)
    if keys[0] == keys[1]:
        raise PalimpsestError(f"entity: {a!r} and {b!r} differ in case or accents only and are always one")
    first, second = sorted(entity_id(*scope, k) for k in keys)
    with home.lock():
        before = read_decisions(home.decisions)
        now = {"same": before.same, "apart": before.apart}.get(verdict)
        said = (first, second) in (now if now is not None else before.same | before.apart)
        if said == (verdict != "undecided"):
            raise PalimpsestError(f"entity: {a!r} and {b!r} are {verdict} already; nothing to do")
        append_decisions(home.decisions, verdict, [names_target(first, second)])
    return {
        "collection": scope[0],
        "user": scope[1],
        "project": scope[2],
        "names": [a, b],
        "verdict": verdict,
        "applied": "by the next build",
    }


def entity_text(found: list[dict[str, Any]]) -> str:
    """Returns entities and their reasons for people."""
    lines = []
    for e in found:
        lines.append(f"{e['name']} ({e['type']}, {e['entity_id']}): {', '.join(e['aliases']) or 'no other name'}")
        for r in e["reasons"]:
            where = f", in document {r['document_id']} only" if r["document_id"] else ""
            by = f" [memory:{r['memory_id']}]" if r["memory_id"] else ""
            lines.append(f"  {r['alias']} = {r['name']}: {r['why']}{where}{by}")
    return "\n".join(lines)


def _build(home: Home, collection: str) -> Build:
    build = published(home)
    if build is None or collection not in build.collections:
        raise PalimpsestError(f"entity: collection {collection} is not published in {home.path}; run palimpsest build")
    return build


def _no_name(name: str, scope: ScopeKey) -> PalimpsestError:
    return PalimpsestError(f"entity: no name {name!r} in {'/'.join(scope_parts(*scope))}; write it as the texts do")


def _in_scope(build: Build, table: str, scope: ScopeKey) -> pl.DataFrame:
    return build.table(scope[0], table).filter(**dict(zip(SCOPE, scope, strict=True)))
