"""Facts of a collection by a language model: the table, and what a build may need to pay for it."""

from typing import NamedTuple

import polars as pl

from palimpsest.core.ids import SCOPE, content_id
from palimpsest.core.progress import say
from palimpsest.facts.fact_tables import LM, FactInputs, clause_table, fact_rows, named_entities
from palimpsest.facts.lm.extraction_program import extraction_hash
from palimpsest.facts.lm.lm_extractor import LmExtractor, MemoryText
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_settings import lm_settings
from palimpsest.store.home import Home
from palimpsest.store.tables import empty

_TOKENS_PER_CALL = (900, 250)  # read, written


def lm_key() -> str:
    """Returns a key that differs between the programs and models of two builds.

    Raises:
        PalimpsestError: no model is set.
    """
    return content_id(extraction_hash(), *lm_settings().key_parts)


class LmFacts(NamedTuple):
    """What a model reads: the tables clause_facts and stated_entities, and figures of the calls."""

    clauses: pl.DataFrame
    entities: pl.DataFrame
    numbers: dict[str, float]


def lm_clause_facts(inputs: FactInputs, home: Home, max_cost: float | None = None) -> LmFacts:
    """Returns what a model reads in every memory that names an entity.

    Answers are in the ledger of the home, and paid once. Memories beyond the budget have no facts; a build that runs
    this again reads them.

    Raises:
        PalimpsestError: no model is set, or a budget without a price.
        ComponentFailed: most answers cannot be read.
    """
    ledger = Ledger(home.lm_ledger)
    try:
        extractor = LmExtractor(lm_settings(), ledger, max_cost)
        named = named_entities(inputs)
        memories = inputs.memories.filter(pl.col("memory_id").is_in(list(named))).sort("memory_id")
        found = extractor.extract(
            [
                MemoryText(memory_id, text, named[memory_id], speaker or "")
                for memory_id, text, speaker in memories.select("memory_id", "text", "speaker").iter_rows()
            ]
        )
    finally:
        ledger.close()
    for reason, n in sorted(found.without_answer.items()):
        say(f"facts: {n} memories were not read ({reason})")
    rows = [
        row
        for memory_id, *scope in memories.select("memory_id", *SCOPE).iter_rows()
        for row in fact_rows((memory_id, *scope), found.facts.get(memory_id, ()), LM)
    ]
    entities = [
        (memory_id, *scope, e.entity_id, e.type, e.importance)
        for memory_id, *scope in memories.select("memory_id", *SCOPE).iter_rows()
        for e in found.entities.get(memory_id, ())
    ]
    numbers = {
        "lm_calls": found.calls,
        "tokens": found.tokens,
        "cost": found.cost,
        "lm_without_answer": found.without_answer.total(),
        "lm_dropped": found.dropped.total(),
        "lm_entities_dropped": found.dropped_entities.total(),
    }
    schema = empty("stated_entities").schema
    stated = pl.DataFrame(entities, schema=schema, orient="row").sort("memory_id", "entity_id")
    return LmFacts(clause_table(rows), stated, numbers)


def expected_fact_calls(memories: pl.DataFrame, known: pl.DataFrame | None) -> tuple[int, float]:
    """Returns (calls, cost) that a build may need to read memories; an estimate for a dry run.

    Args:
        memories: of the collection as it would be built.
        known: those of an earlier build that read them with the same model; None where none did.
    """
    columns = ["memory_id", "text", "title", "speaker"]
    todo = memories if known is None else memories.join(known, on=columns, how="anti", nulls_equal=True)
    return todo.height, todo.height * lm_settings().cost(*_TOKENS_PER_CALL)
