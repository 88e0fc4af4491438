"""The tables of facts: what each memory states, and the same of all memories of a scope with its time."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE, scope_parts
from palimpsest.facts.extract_facts import extract_facts
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.relations.classify.features.parse import parse_texts
from palimpsest.store.tables import completed, conform, empty
from palimpsest.text.normalize import fold

_SEEDS = (1, 2)
_FACT = (*SCOPE, "subject_id", "predicate", "object_id", "folded_value", "is_negated")


@dataclass(frozen=True)
class FactInputs:
    """What facts are read from.

    Attributes:
        memories: the memories table.
        mentions: where entities are named in them.
        entities: the entities table.
    """

    memories: pl.DataFrame
    mentions: pl.DataFrame
    entities: pl.DataFrame


def clause_facts(now: FactInputs, earlier: FactInputs | None = None, known: pl.DataFrame | None = None) -> pl.DataFrame:
    """Returns `clause_facts`: what the clauses of each memory state, by memory and place.

    Args:
        now: the build in the making.
        earlier: an earlier build made by the same code.
        known: its clause_facts; those of memories whose text and names are the same are carried over.
    """
    todo, carried = now.memories, empty("clause_facts")
    if earlier is not None and known is not None:
        same = _keys(now).join(_keys(earlier), on=["memory_id", *_KEYS], how="semi")
        todo = todo.join(same, on="memory_id", how="anti")
        carried = completed("clause_facts", known).join(same, on="memory_id", how="semi")
    found = _extract(todo.sort("memory_id"), _named(now))
    return pl.concat([carried, found]).sort("memory_id", "char_start", "subject_id", "predicate", "object_id", "value")


def facts(clauses: pl.DataFrame, versions: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns `facts`: one row for what several memories of a scope state, sorted by id.

    It is valid from the first of them on, and until the last one that is retired, unless one is still latest.

    Args:
        clauses: clause_facts.
        versions: the versions table.
        memories: the memories table, for the day of those without a version's time.
    """
    times = memories.select("memory_id", "observed_at").join(
        versions.select("memory_id", "is_latest", "valid_from", "valid_until"), on="memory_id", how="left"
    )
    values = clauses["value"].to_list()
    stated = clauses.with_columns(
        folded_value=pl.Series("folded_value", [None if v is None else fold(v) for v in values], pl.String)
    ).join(times, on="memory_id", how="left")
    grouped = (
        stated.sort("memory_id", "char_start")
        .group_by(_FACT, maintain_order=True)
        .agg(
            pl.col("value").first(),
            pl.col("modality").first(),
            valid_from=pl.coalesce("valid_from", "observed_at").min(),
            valid_until=pl.when(pl.col("valid_until").is_null().any())
            .then(None)
            .otherwise(pl.col("valid_until").max()),
            is_latest=pl.col("is_latest").fill_null(True).any(),
            memory_ids=pl.col("memory_id").unique().sort(),
            confidence=pl.col("confidence").max(),
        )
    )
    ids = [
        content_id("fact", *scope_parts(*row[:3]), *row[3:6], row[6], str(row[7]))
        for row in grouped.select(_FACT).iter_rows()
    ]
    return conform("facts", grouped.drop("folded_value").with_columns(fact_id=pl.Series(ids, dtype=pl.String))).sort(
        "fact_id"
    )


_KEYS = ("text_hash", "names", *(f"names_{seed}" for seed in _SEEDS))


def _keys(inputs: FactInputs) -> pl.DataFrame:
    """Returns for each memory hashes of its text and of the names in it; they are compared within one process."""
    name = pl.struct("entity_id", "char_start", "char_end")
    names = inputs.mentions.group_by("memory_id").agg(
        pl.len().alias("names"), *(name.hash(seed).sum().alias(f"names_{seed}") for seed in _SEEDS)
    )
    return (
        inputs.memories.select("memory_id", text_hash=pl.struct("text", "speaker", "title").hash(_SEEDS[0]))
        .join(names, on="memory_id", how="left")
        .with_columns(pl.col(_KEYS[1:]).fill_null(0))
    )


def _named(inputs: FactInputs) -> dict[str, Named]:
    """Returns the entities of each memory that names any, by memory id."""
    names: dict[str, set[str]] = {}
    types: dict[str, str] = {}
    for entity_id, kind, name, aliases in inputs.entities.select("entity_id", "type", "name", "aliases").iter_rows():
        types[entity_id], names[entity_id] = kind, {fold(n) for n in (name, *(aliases or ()))}
    mentions: dict[str, list[Mentioned]] = {}
    unplaced: dict[str, list[str]] = {}
    columns = ("memory_id", "entity_id", "char_start", "char_end")
    for memory_id, entity_id, start, end in inputs.mentions.select(columns).sort(columns).iter_rows():
        if start is None:  # in the title, or who speaks
            unplaced.setdefault(memory_id, []).append(entity_id)
        else:
            mentions.setdefault(memory_id, []).append(Mentioned(entity_id, start, end))
    out = {}
    for memory_id, speaker, title in inputs.memories.select("memory_id", "speaker", "title").iter_rows():
        ids = unplaced.get(memory_id, ())
        who, about = (
            next((i for i in ids if label and fold(label) in names.get(i, ())), "") for label in (speaker, title)
        )
        if memory_id in mentions or who or about:
            out[memory_id] = Named(mentions.get(memory_id, ()), types, who, about)
    return out


def _extract(memories: pl.DataFrame, named: Mapping[str, Named]) -> pl.DataFrame:
    known = memories.filter(pl.col("memory_id").is_in(list(named)))
    texts, rows = known["text"].to_list(), []
    for (memory_id, *scope), text, parse in zip(
        known.select("memory_id", *SCOPE).iter_rows(), texts, parse_texts(texts), strict=True
    ):
        for f in extract_facts(text, parse, named[memory_id]):
            stated = (f.subject, f.predicate, f.object_entity or None, f.value or None, f.start, f.end)
            rows.append((memory_id, *scope, *stated, f.is_negated, f.modality, f.confidence))
    columns = empty("clause_facts").columns
    return conform("clause_facts", pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None))
