"""The tables of facts: what each memory states, and the same of all memories of a scope with its time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.ids import entity_id as entity_id_of
from palimpsest.core.scopes import SCOPE, scope_parts
from palimpsest.entities.names.find_names import entity_key
from palimpsest.facts.extract_facts import extract_facts
from palimpsest.facts.fact import Mentioned, Named
from palimpsest.relations.classify.features.parse import parse_texts
from palimpsest.store.tables import completed, conform, empty
from palimpsest.text.chat_roles import ASSISTANT_ROLES, INSTRUCTION_ROLES, TOOL_ROLES
from palimpsest.text.normalize import fold

_SEEDS = (1, 2)
_NO_SPEAKERS = ASSISTANT_ROLES | INSTRUCTION_ROLES | TOOL_ROLES
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)$")
_MAX_NAME_WORDS = 4
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


_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)


def _without_headings(text: str) -> str:
    """Returns a text with spaces in place of its headings, which are no sentences, and all else where it was."""
    return _HEADING.sub(lambda m: " " * len(m[0]), text)


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


def speakers(clauses: pl.DataFrame, entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns `speakers`: who says `I` in facts and is no entity, because no text names them; sorted by id.

    Args:
        clauses: clause_facts.
        entities: the entities table.
        memories: the memories table.
    """
    found = (
        pl.concat([clauses.select("memory_id", entity_id=end) for end in ("subject_id", "object_id")])
        .drop_nulls("entity_id")
        .unique()
        .join(entities, on="entity_id", how="anti")
        .join(memories.select("memory_id", *SCOPE, name="speaker"), on="memory_id", how="inner")
        .group_by("entity_id", *SCOPE)
        .agg(pl.col("name").min(), memory_ids=pl.col("memory_id").sort())
    )
    return conform("speakers", found).sort("entity_id")


def _named(inputs: FactInputs) -> dict[str, Named]:
    """Returns the entities of each memory that names any, by memory id."""
    types = {
        entity_id: _reference_type(kind, name)
        for entity_id, kind, name in inputs.entities.select("entity_id", "type", "name").iter_rows()
    }
    by_name = _entities_by_name(inputs.entities)
    mentions: dict[str, list[Mentioned]] = {}
    placed = inputs.mentions.select("memory_id", "entity_id", "char_start", "char_end").drop_nulls("char_start")
    for memory_id, entity_id, start, end in placed.sort(placed.columns).iter_rows():
        mentions.setdefault(memory_id, []).append(Mentioned(entity_id, start, end))
    out = {}
    texts = inputs.memories.select("memory_id", *SCOPE, "unit", "speaker", "title", "refers_to")
    for memory_id, collection, user, project, unit, speaker, title, opening in texts.iter_rows():
        scope = collection, user, project
        who = about = antecedent = None
        if speaker and speaker.casefold() not in _NO_SPEAKERS:
            who = by_name.get((*scope, fold(speaker))) or entity_id_of(*scope, entity_key(speaker))
            types[who] = "person"
        if title:
            mentioned = {m.entity_id for m in mentions.get(memory_id, ())}
            bare = by_name.get((*scope, fold(_IN_BRACKETS.sub("", title))))
            about = bare if bare in mentioned else by_name.get((*scope, fold(title)))
        if opening:
            antecedent = by_name.get((*scope, fold(opening)), "")
        if memory_id in mentions or who or about or antecedent:
            is_page = unit == "chunk"
            names = mentions.get(memory_id, ())
            out[memory_id] = Named(names, types, who or "", about or "", title or "", antecedent, is_page)
    return out


def _entities_by_name(entities: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """Returns the id of each entity by scope and folded name; an own name counts before an alias of another."""
    found: dict[tuple[str, ...], str] = {}
    rows = entities.select("entity_id", *SCOPE, "name", "aliases").sort("entity_id").rows()
    for entity_id, *scope, name, _ in rows:
        found.setdefault((*scope, fold(name)), entity_id)
    for entity_id, *scope, _, aliases in rows:
        for alias in aliases or ():
            found.setdefault((*scope, fold(alias)), entity_id)
    return found


def _reference_type(kind: str, name: str) -> str:
    """Returns the type of an entity as pronouns need it: `name` where it may be a person or a thing."""
    if kind == "person":
        return kind if " " in name and " of " not in name else "name"
    if kind in ("title", "name"):
        words = name.split()
        is_like_person = all(w[0].isupper() and not any(c.isdigit() for c in w) for w in words) and words[0] != "The"
        return "name" if is_like_person and 1 < len(words) <= _MAX_NAME_WORDS else "thing"
    return kind


def _extract(memories: pl.DataFrame, named: Mapping[str, Named]) -> pl.DataFrame:
    known = memories.filter(pl.col("memory_id").is_in(list(named)))
    texts, rows = [_without_headings(t) for t in known["text"]], []
    for (memory_id, *scope), text, parse in zip(
        known.select("memory_id", *SCOPE).iter_rows(), texts, parse_texts(texts), strict=True
    ):
        for f in extract_facts(text, parse, named[memory_id]):
            stated = (f.subject, f.predicate, f.object_entity or None, f.value or None, f.start, f.end)
            rows.append((memory_id, *scope, *stated, f.is_negated, f.modality, f.confidence))
    columns = empty("clause_facts").columns
    return conform("clause_facts", pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None))
