"""Evidence of what type an entity is: its name, the words at its mentions, its facts, and documents about it."""

from collections.abc import Mapping

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.lexicon import LINKS, PARTICLES
from palimpsest.entities.names.people import find_people
from palimpsest.nodes.name_contexts import name_contexts, with_noun_types
from palimpsest.nodes.name_types import full_name_shapes, name_type
from palimpsest.nodes.type_nouns import noun_type, singular

_SCHEMA = ("node_id", "type", "rule", "weight", "noun", "memory_id")
_OF_ENTITY_TYPE = {"person": 0.8, "organisation": 1.5, "place": 0.5}
_OF_PREDICATE = {
    "subject_id": {
        "person": "works_for lives_in born_in died_in studied_at reports_to teaches_at plays_for married_to wrote",
        "organisation": "supplies employs",
        "product": "made_by costs",
        "event": "scheduled_for",
    },
    "object_id": {
        "person": "made_by reports_to married_to",
        "organisation": "works_for",
        "place": "located_in born_in died_in lives_in",
        "product": "uses wrote",
    },
}
_PREDICATE_WEIGHT, _DEFINED_WEIGHT = 0.8, 2.0
_MODEL_WEIGHT = 1.0  # more than a guess by its shape, less than what a text or a folder calls it
_DEFINING = ("be",)
_LINE_BEGIN = r"(?:^|\n)[#*\s]*$"
_SHAPE_WEIGHT = 0.75
_ALIAS_SHARE = 0.6  # of the weight of what a name shows, for its aliases


def type_evidence(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (node_id, type, rule, weight, noun, memory_id), a row for each thing that shows a type, unsorted.

    Args:
        tables: entities, mentions, memories, documents, facts and stated_entities.
    """
    entities, memories = tables["entities"], tables["memories"]
    own = headings(tables)
    parts = [
        name_contexts(tables["mentions"], memories),
        _of_names(entities),
        _of_shapes(entities, memories),
        _of_entity_types(entities),
        _of_people(entities, memories, tables["documents"]),
        _of_facts(tables["facts"]),
        _of_models(tables["stated_entities"]),
        _of_folders(tables, own),
    ]
    found = pl.concat([p.select(_cast(c) for c in _SCHEMA) for p in parts])
    is_own = pl.col("node_id").is_in(own["entity_id"].implode())
    return found.filter(~is_own | (pl.col("type") == "event"))


def headings(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (entity_id) of titles that name their document alone, such as `How we release`: no sentence uses them."""
    titles = tables["entities"].filter(type="title")
    spans = tables["mentions"].drop_nulls("char_start").join(titles.select("entity_id"), on="entity_id", how="semi")
    spans = spans.join(tables["memories"].select("memory_id", "text"), on="memory_id")
    start = pl.col("char_start")
    before = pl.col("text").str.slice(pl.max_horizontal(start - 8, 0), pl.min_horizontal(start, 8))
    fills_line = before.str.contains(_LINE_BEGIN) & pl.col("text").str.slice("char_end", 4).str.contains(
        r"^\s*(?:\n|$)"
    )
    unused = titles.join(spans.filter(~fills_line).select("entity_id"), on="entity_id", how="anti")
    words = pl.col("name").str.replace(r"\s*\([^()]*\)$", "").str.split(" ")
    is_small = pl.element().str.contains(r"^\p{Ll}") & ~pl.element().is_in(sorted(LINKS | PARTICLES))
    return unused.filter(words.list.eval(is_small).list.any()).select("entity_id")


def _cast(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Float64 if column == "weight" else pl.String)


def _rows(rows: list[tuple[str, str, str, float, str]]) -> pl.DataFrame:
    columns = ("node_id", "type", "rule", "weight", "noun")
    schema = {c: pl.Float64 if c == "weight" else pl.String for c in columns}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(memory_id=pl.lit(None, pl.String))


def _of_names(entities: pl.DataFrame) -> pl.DataFrame:
    """Returns what the words of names and aliases show: the last noun, an honorific, a day of the week."""
    rows = []
    for node_id, name, aliases in entities.select("entity_id", "name", "aliases").iter_rows():
        for spelling, share in ((name, 1.0), *((a, _ALIAS_SHARE) for a in aliases or ())):
            if found := name_type(spelling):
                rows.append(
                    (node_id, found.type, "name" if share == 1.0 else "alias", found.weight * share, found.noun)
                )
    return _rows(rows)


def _of_shapes(entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    found = full_name_shapes(entities, memories)
    return _rows([(i, "person", "shape", _SHAPE_WEIGHT, "") for i in found["entity_id"].sort()])


def _of_entity_types(entities: pl.DataFrame) -> pl.DataFrame:
    known = entities.filter(pl.col("type").is_in(list(_OF_ENTITY_TYPE)))
    return known.select(
        "type",
        node_id="entity_id",
        rule=pl.lit("names"),
        weight=pl.col("type").replace_strict(_OF_ENTITY_TYPE, return_dtype=pl.Float64),
        noun=pl.lit(""),
        memory_id=pl.lit(None, pl.String),
    )


def _of_people(entities: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns persons: speakers, and people whom metadata names as authors and the like."""
    people = find_people(memories, documents).select(*SCOPE, spelling="surface").unique()
    found = spellings(entities).join(people, on=[*SCOPE, "spelling"], how="semi")
    return _rows([(i, "person", "people", 4.0, "") for i in found["entity_id"].unique().sort()])


def spellings(entities: pl.DataFrame) -> pl.DataFrame:
    """Returns (entity_id, scope, spelling) for the name and the aliases of each entity."""
    names = pl.concat_list(pl.concat_list("name"), pl.col("aliases").fill_null([]))
    return entities.select("entity_id", *SCOPE, spelling=names).explode("spelling").drop_nulls("spelling").unique()


def _of_facts(facts: pl.DataFrame) -> pl.DataFrame:
    stated = facts.filter(~pl.col("is_negated").fill_null(False)).with_columns(
        memory_id=pl.col("memory_ids").list.min()
    )
    parts = [
        with_noun_types(
            stated.filter(pl.col("predicate").is_in(_DEFINING)).drop_nulls("value").rename({"value": "phrase"}),
            "phrase",
        ).select("type", "noun", "memory_id", node_id="subject_id", rule=pl.lit("fact"), weight=pl.lit(_DEFINED_WEIGHT))
    ]
    for end, kinds in _OF_PREDICATE.items():
        for kind, predicates in kinds.items():
            of_kind = stated.filter(pl.col("predicate").is_in(predicates.split())).drop_nulls(end)
            parts.append(
                of_kind.select(
                    "memory_id",
                    node_id=end,
                    type=pl.lit(kind),
                    noun="predicate",
                    rule=pl.lit("predicate"),
                    weight=pl.lit(_PREDICATE_WEIGHT),
                )
            )
    return pl.concat([p.select(_cast(c) for c in _SCHEMA) for p in parts])


def _of_models(stated: pl.DataFrame) -> pl.DataFrame:
    """Returns what a language model takes the entities of each memory for."""
    return stated.select(
        "type", "memory_id", node_id="entity_id", rule=pl.lit("model"), noun=pl.lit(""), weight=pl.lit(_MODEL_WEIGHT)
    )


def _of_folders(tables: Mapping[str, pl.DataFrame], own: pl.DataFrame) -> pl.DataFrame:
    """Returns what the folder of a document shows of the entity that its title names: `people/`, `suppliers/`.

    Of titles that name their document alone only events count: minutes in `meetings/` are of a meeting.
    """
    titled = titled_entities(tables)
    folders = {f: singular(f.lower().split()[-1]) for f in titled["folder"].unique() if f.strip()}
    types = {f: noun_type(noun) for f, noun in folders.items()}
    placed = titled.with_columns(
        noun=pl.col("folder").replace_strict(folders, default="", return_dtype=pl.String),
        type=pl.col("folder").replace_strict(types, default="", return_dtype=pl.String),
    ).filter(pl.col("type") != "")
    is_own = pl.col("entity_id").is_in(own["entity_id"].implode())
    return (
        placed.filter(~is_own | (pl.col("type") == "event"))
        .select("type", "noun", node_id="entity_id", rule=pl.lit("folder"), weight=pl.lit(2.0))
        .with_columns(memory_id=pl.lit(None, pl.String))
        .unique()
    )


def titled_entities(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns (entity_id, document_id, scope, folder, metadata, source_time) of entities that documents are titled by.

    `folder` is the last folder of the document's uri as words, empty at the top.
    """
    documents = (
        tables["documents"]
        .filter("is_current")
        .select(
            "document_id",
            *SCOPE,
            "metadata",
            "source_time",
            spelling=pl.col("title").str.strip_chars(),
            folder=pl.col("uri").str.extract(r"([^/#]+)/[^/]+$").str.replace_all(r"[-_\s]+", " ").fill_null(""),
        )
    )
    return (
        spellings(tables["entities"])
        .join(documents.filter(pl.col("spelling").fill_null("") != ""), on=[*SCOPE, "spelling"])
        .drop("spelling")
        .unique(["entity_id", "document_id"])
    )
