"""Nodes after edits are those of a build from scratch: over random sequences of documents that come, change and go."""

import random

import polars as pl
import pytest

from palimpsest.core.ids import content_id
from palimpsest.entities.entity_tables import entity_tables
from palimpsest.facts.fact_tables import FactInputs, clause_facts, facts, speakers
from palimpsest.nodes.node_tables import READS, build_nodes
from palimpsest.relations.versions import ended_parts
from palimpsest.store.tables import empty
from tests.query.made import at, rows

SEQUENCES, STEPS = 6, 2
TEXTS = [
    "Vera Maling works at Basin Works.",
    "Basin is the database of the lab.",
    "The Tarn Mill was founded in 1907.",
    "The Tarn Mill was rebuilt in 1950 by Vera Maling.",
    "Lindow is a town on the Vessel.",
    "We met the guide Orrin Pell in Lindow.",
    "Basin Works uses Heron.",
    "My goal is to run ten kilometres.",
    "The Esker Trust is a customer in Lindow.",
    "Nothing happened at all.",
]
PLACES = [("customers/tarn.md", "Tarn Mill"), ("customers/esker.md", "Esker Trust"), ("places/lindow.md", "Lindow")]
PLACES += [("meetings/one.md", "Meeting of 3 March 2026"), ("meetings/two.md", "Meeting of 9 April 2026"), ("a.md", "")]


def random_document(rng: random.Random, n: int) -> dict[str, object]:
    """Returns a document with some of the texts."""
    uri, title = PLACES[n % len(PLACES)]
    user = "ana" if n % 4 else "ben"
    return {"uri": f"{n}/{uri}", "title": title, "user_id": user, "texts": rng.sample(TEXTS, rng.randrange(1, 5))}


def source_tables(documents: dict[int, dict]) -> dict[str, pl.DataFrame]:
    """Returns memories, documents and versions; an id of a memory comes from its document and its words."""
    found = {"memories": [], "documents": [], "versions": []}
    for n, d in documents.items():
        scope = {"collection": "notes", "user_id": d["user_id"], "project_id": ""}
        key = {"document_id": f"d{n}", "title": d["title"]}
        found["documents"].append({**key, **scope, "uri": d["uri"], "is_current": True, "metadata": "{}"})
        for i, text in enumerate(d["texts"]):
            memory_id = content_id(n, text)
            row = {"memory_id": memory_id, **key, **scope, "unit": "statement", "ordinal": i, "text": text}
            found["memories"].append(row | {"observed_at": at("2026-05-04"), "created_at": at("2026-06-01")})
            found["versions"].append({"memory_id": memory_id, "is_latest": True, **scope})
    return {name: rows(name, *items) for name, items in found.items()}


def derived(sources: dict[str, pl.DataFrame], before: dict[str, pl.DataFrame] | None) -> dict[str, pl.DataFrame]:
    """Returns the tables that nodes are made of, updated from those of an earlier build, or from scratch."""
    memories = sources["memories"]
    names = entity_tables(memories, sources["documents"], before["surfaces"] if before else None)
    now = FactInputs(memories, names["mentions"], names["entities"])
    earlier = FactInputs(before["memories"], before["mentions"], before["entities"]) if before else None
    clauses = clause_facts(now, earlier, before["clause_facts"] if before else None)
    return {
        **{name: empty(name) for name in READS},
        **sources,
        **names,
        "clause_facts": clauses,
        "facts": facts(
            clauses, sources["versions"], memories, ended_parts(memories, empty("relations"), sources["documents"])
        ),
        "speakers": speakers(clauses, names["entities"], memories),
    }


@pytest.mark.slow
def test_nodes_of_edited_documents_equal_those_from_scratch():
    seen = set()
    for seed in range(SEQUENCES):
        rng = random.Random(seed)
        documents = {n: random_document(rng, n) for n in range(6)}
        before = derived(source_tables(documents), None)
        for step in range(STEPS):
            n = rng.randrange(9)
            if rng.random() < 0.3 and len(documents) > 3:
                documents.pop(min(documents))
            documents = {**documents, n: random_document(rng, n)}
            sources = source_tables(documents)
            before = derived(sources, before)
            edited, scratch = build_nodes(before), build_nodes(derived(sources, None))
            assert all(edited[name].equals(scratch[name]) for name in scratch), (seed, step)
            seen |= set(edited["nodes"]["type"]) | set(edited["edges"]["type"])
    assert {"person", "place", "category", "event", "project", "part_of", "precedes", "related_to"} <= seen
