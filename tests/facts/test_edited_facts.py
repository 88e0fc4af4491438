"""Facts after edits are those of a build from scratch."""

import random

import polars as pl

from palimpsest.entities.entity_tables import entity_tables
from palimpsest.facts.fact_tables import FactInputs, clause_facts
from palimpsest.store.tables import conform, empty

SEQUENCES, STEPS = 8, 4
TEXTS = [
    "Ana Brandt works at Basin.",
    "Ana Brandt is the head of Basin, and she lives in Ghent.",
    "She moved to Ghent in May.",
    "I use Heron every day.",
    "Basin supplies Heron to Corvid.",
    "The Heron is a logger. It was built by Corvid.",
    "Jonas Feld left Basin. He joined Corvid in 2024.",
    "It depends on Basin.",
    "My dentist is Doctor Hallam.",
    "Nothing happened at all.",
]
TITLES, SPEAKERS = [None, "Heron", "Ana Brandt"], [None, None, "Mira", "Jonas Feld", "Assistant"]


def inputs(rows: dict[int, dict[str, object]]) -> FactInputs:
    memories = conform("memories", pl.DataFrame(list(rows.values()), infer_schema_length=None))
    found = entity_tables(memories, empty("documents"))
    return FactInputs(memories, found["mentions"], found["entities"])


def random_row(rng: random.Random, n: int) -> dict[str, object]:
    """Returns a memory with a random text, title, speaker and referent."""
    speaker = rng.choice(SPEAKERS)
    return {
        "memory_id": f"m{n}", "collection": "notes", "user_id": rng.choice(["ana", "ben"]), "project_id": "",
        "document_id": f"d{n}", "unit": "turn" if speaker else rng.choice(["chunk", "statement"]),
        "text": rng.choice(TEXTS), "title": rng.choice(TITLES), "speaker": speaker,
        "refers_to": rng.choice([None, None, "Ana Brandt"]),
    }  # fmt: skip


def test_facts_of_edited_memories_equal_those_from_scratch():
    found = 0
    for seed in range(SEQUENCES):
        rng = random.Random(seed)
        rows = {n: random_row(rng, n) for n in range(8)}
        before = inputs(rows)
        known = clause_facts(before)
        for step in range(STEPS):
            n = rng.randrange(10)
            rows = {**rows, n: random_row(rng, n)} if rng.random() < 0.7 or len(rows) < 3 else rows
            rows = rows if rng.random() < 0.7 else {k: v for k, v in rows.items() if k != min(rows)} or rows
            after = inputs(rows)
            edited = clause_facts(after, before, known)
            assert edited.equals(clause_facts(after)), (seed, step)
            before, known = after, edited
        found += known.height
    assert found > SEQUENCES  # the texts do state something
