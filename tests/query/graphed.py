"""A small build with a graph: people, places, what is stated of them, and edges."""

from typing import Any

import polars as pl

from tests.query.made import at, memory, rows, tables

ANA = {"collection": "notes", "user_id": "ana", "project_id": ""}
BEN = ANA | {"user_id": "ben"}
NAMED = {
    "m1": ("Ida Moreau", "Ghent", "Tom"),
    "m2": ("Ida Moreau", "Basin"),
    "m3": ("Ida Moreau", "Basin", "Corvid"),
    "m4": ("Corvid", "Bruges"),
    "m5": ("Ida Moreau", "Zorro"),
    "m6": ("Ida", "Paris"),
}


def node(node_id: str, name: str, kind: str, scope: dict[str, str], **columns: Any) -> dict[str, Any]:
    return {"node_id": node_id, **scope, "name": name, "type": kind, "aliases": [], "importance": 0.5} | columns


def fact(fact_id: str, subject: str, predicate: str, scope: dict[str, str], **columns: Any) -> dict[str, Any]:
    stated = {"is_negated": False, "is_latest": True, "confidence": 0.8, "memory_ids": []}
    return {"fact_id": fact_id, **scope, "subject_id": subject, "predicate": predicate} | stated | columns


def graph_tables(ghent: str = "Ida Moreau lives in Ghent with Tom.") -> dict[str, pl.DataFrame]:
    """Ida lives in Ghent and left Basin for Corvid; Ben has an Ida of his own; one memory of Ana's is hidden."""
    made = tables(
        [
            memory("m1", ghent, observed_at=at("2026-01-05")),
            memory("m2", "Ida works at Basin.", observed_at=at("2026-01-06")),
            memory("m3", "Ida left Basin and works at Corvid.", observed_at=at("2026-03-06")),
            memory("m4", "Corvid has its office in Bruges.", observed_at=at("2026-03-07")),
            memory("m5", "Ida is ill, the secret Zorro clinic says.", observed_at=at("2026-03-08"), user_visible=False),
            memory("m6", "Ida of Ben lives in Paris.", "ben", observed_at=at("2026-03-08")),
        ],
        updates=[("m3", "m2")],
        mentions=[(m, n) for m, names in NAMED.items() for n in names],
    )
    kinds = {"Ida Moreau": "person", "Tom": "person", "Basin": "organisation", "Corvid": "organisation"}
    names = ("Ida Moreau", "Tom", "Basin", "Corvid", "Ghent", "Bruges", "Zorro")
    nodes = [node(f"ana:{n}", n, kinds.get(n, "place"), ANA, aliases=["Ida"] if "Ida" in n else []) for n in names]
    stated = {"Corvid": '{"properties": {"city": "Aalst", "since": 2021}}'}
    stated["Ida Moreau"] = '{"properties": {"since": 1999}}'
    nodes = [n | {"metadata": stated.get(n["name"])} for n in nodes]
    nodes += [node("ben:Ida", "Ida", "person", BEN), node("ben:Paris", "Paris", "place", BEN)]
    nodes += [node("ana:city", "cities", "category", ANA)]
    ida = "ana:Ida Moreau"
    facts = [
        fact("f1", ida, "lives in", ANA, object_id="ana:Ghent", memory_ids=["m1"], valid_from=at("2026-01-05")),
        fact("f2", ida, "works at", ANA, object_id="ana:Basin", memory_ids=["m2"], valid_from=at("2026-01-06"))
        | {"is_latest": False, "valid_until": at("2026-03-06")},
        fact("f3", ida, "works at", ANA, object_id="ana:Corvid", memory_ids=["m3"], valid_from=at("2026-03-06")),
        fact("f4", "ana:Corvid", "has", ANA, object_id="ana:Bruges", value=None, memory_ids=["m4"]),
        fact("f5", ida, "is", ANA, value="ill", memory_ids=["m5"]),
        fact("f6", "ben:Ida", "lives in", BEN, object_id="ben:Paris", memory_ids=["m6"]),
    ]
    edges = [
        {"source_id": s, "target_id": t, **ANA, "type": kind, "weight": 0.5, "provenance": "topics", "memory_ids": ids}
        for s, t, kind, ids in (
            ("ana:Ghent", "ana:city", "part_of", []),
            ("ana:Bruges", "ana:city", "part_of", ["m4"]),
            ("ana:Corvid", "ana:Zorro", "related_to", ["m5"]),
        )
    ]
    members = [{"node_id": "ana:city", "memory_id": m, **ANA, "relevance": 0.5} for m in ("m1", "m4")]
    return made | {
        "nodes": rows("nodes", *nodes),
        "facts": rows("facts", *facts),
        "edges": rows("edges", *edges),
        "node_memories": rows("node_memories", *members),
    }
