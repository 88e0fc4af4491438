"""Entities: names found in each memory alone, then resolved inside each scope, with the reason of every merge kept."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import polars as pl

from palimpsest.core.ids import entity_id
from palimpsest.core.scopes import SCOPE, ScopeKey
from palimpsest.entities.names.find_names import Surface, entity_key, find_names
from palimpsest.entities.names.lexicon import ORGANISATION
from palimpsest.entities.names.mentions import longest, stand_for
from palimpsest.entities.names.name_model import Resolution
from palimpsest.entities.names.name_scopes import resolutions
from palimpsest.entities.names.people import people_of
from palimpsest.entities.names.stated_names import find_statements
from palimpsest.entities.names.titles import FOUND, find_titles, phrase_mentions
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS, Schema, conform

__all__ = ["entity_key", "entity_tables", "find_mentions", "resolve_entities"]

_KEY = [*SCOPE, "key"]
_PLACE = attrgetter("char_start", "char_end", "kind", "key", "cue")
_NOTHING = Surface("", "", "none", False, "", None, None, 0, 0)


@dataclass(frozen=True)
class Resolved:
    """The tables entities, mentions and merges."""

    entities: pl.DataFrame
    mentions: pl.DataFrame
    merges: pl.DataFrame


def entity_tables(
    memories: pl.DataFrame,
    documents: pl.DataFrame,
    previous: pl.DataFrame | None = None,
    ner: str | None = None,
    decisions: Decisions | None = None,
) -> dict[str, pl.DataFrame]:
    """Returns entities, mentions, merges (why two names are one) and surfaces (what the next build carries over).

    Args:
        memories: the memories table.
        documents: the documents table; names in their metadata tell who is meant.
        previous: the surfaces of an earlier build made by the same code and the same `ner`.
        ner: name of an installed spaCy pipeline that finds names too.
        decisions: people's; names that they made one or set apart stay so.
    """
    surfaces = find_mentions(memories, previous, ner)
    done = resolve_entities(surfaces, memories, documents, decisions)
    return {"entities": done.entities, "mentions": done.mentions, "merges": done.merges, "surfaces": surfaces}


def find_mentions(memories: pl.DataFrame, previous: pl.DataFrame | None = None, ner: str | None = None) -> pl.DataFrame:
    """Returns what could be a name in each memory's text, sorted by memory and place.

    A pure function of each text and its speaker (see `names.Surface` for the columns); a memory without names has one
    row of kind `none`.

    Args:
        memories: the memories table.
        previous: the surfaces of an earlier build made by the same code; those of memories that are still here are
            carried over.
        ner: name of an installed spaCy pipeline that finds names too.
    """
    schema = SCHEMAS["surfaces"]
    carried = pl.DataFrame(schema=schema)
    todo = memories.select("memory_id", *SCOPE, "text", "speaker").sort("memory_id")
    if previous is not None:
        carried = previous.join(memories, on="memory_id", how="semi")
        todo = todo.join(previous, on="memory_id", how="anti")
    found = [find_names(text) for text in todo["text"]]
    if ner and todo.height:
        from palimpsest.entities.names.library import library_names

        found = [
            sorted({*a, *b}, key=_PLACE) for a, b in zip(found, library_names(todo["text"].to_list(), ner), strict=True)
        ]
    rows: list[tuple[Any, ...]] = []
    for (*at, text, speaker), names in zip(todo.iter_rows(), found, strict=True):
        names = [*names, *find_statements(text, names, speaker)]
        rows += [(*at, *s) for s in names or [_NOTHING]]
    fresh = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([carried, fresh]).sort("memory_id", "char_start", "char_end", "kind", "key", "same_as", "why")


def resolve_entities(
    surfaces: pl.DataFrame,
    memories: pl.DataFrame,
    documents: pl.DataFrame | None = None,
    decisions: Decisions | None = None,
) -> Resolved:
    """Returns entities, mentions and merges, each scope by itself, sorted by id.

    A title names an entity, and each memory of a document so titled mentions it, with no span where its text does not.
    One capitalised word at the start of a sentence counts only where the scope has it elsewhere: as a name inside a
    sentence, as a title, as a speaker, because a text says what it stands for, or as part of a person's name that it is
    short for. An office in small letters is its
    holder where one is stated, and nothing by itself.
    """
    titles = find_titles(memories)
    people = people_of(memories, documents)
    names = surfaces.filter(~pl.col("kind").is_in(["none", "role"]))
    stated = surfaces.filter(pl.col("same_as").is_not_null())
    inside = names.filter(~pl.col("initial")).select(_KEY).unique()
    said = stated.select(*SCOPE, key="same_as").unique()
    parts = pl.concat([names.filter(pl.col("cue") == "person").select(_KEY), people.select(_KEY)]).unique()
    parts = parts.with_columns(pl.col("key").str.split(" ")).filter(pl.col("key").list.len().is_between(2, 4))
    parts = pl.concat([parts.with_columns(pl.col("key").list.get(i)) for i in (0, -1)])
    known = pl.concat([inside, said, titles.select(_KEY), people.select(_KEY)]).unique()
    first = names.filter("initial")
    maybe = first.join(known, on=_KEY, how="anti").join(parts.unique(), on=_KEY, how="semi")
    sure = pl.concat([names.filter(~pl.col("initial")), first.join(known, on=_KEY, how="semi"), maybe])
    explained = names.filter((pl.col("kind") == "name") & ~pl.col("surface").str.contains(r"\p{Lu}")).select(
        *SCOPE, "surface", "key"
    )
    found = pl.concat([sure.select(list(FOUND)), phrase_mentions(memories, titles, explained.unique())])
    where = memories.select("memory_id", "document_id")
    found = found.join(where, on="memory_id", how="left")
    done = resolutions(found, stated, titles, people, memories, decisions or Decisions())
    offices = surfaces.filter(pl.col("kind") == "role").join(where, on="memory_id", how="left")
    found = stand_for(pl.concat([found, offices.select(found.columns)]), done)
    # A word that only starts sentences and is part of somebody's name is a name where it stands for theirs.
    unsure = maybe.select("memory_id", *SCOPE, "char_start", said="key", own=pl.lit(True))
    unsure = unsure.join(found.filter(~pl.col("own")).select(*SCOPE, said="key"), on=[*SCOPE, "said"], how="anti")
    found = found.join(unsure, on=unsure.columns, how="anti")
    hints = found.group_by(_KEY).agg(
        person=(pl.col("cue") == "person").any(),
        place=pl.col("cue").is_in(["in", "place"]).any(),
        organisation=(pl.col("cue") == "organisation").any(),
    )
    found = longest(found)
    entities = _entities(found, titles, people, hints)
    mentions = found.join(entities.select(*_KEY, "entity_id"), on=_KEY, how="inner").sort(
        "memory_id", "entity_id", "char_start", nulls_last=True
    )
    mentions = mentions.filter(
        pl.col("char_start").is_not_null() | pl.col("entity_id").is_first_distinct().over("memory_id")
    )
    return Resolved(
        conform("entities", entities.drop("key")),
        conform("mentions", mentions.select("memory_id", "entity_id", *SCOPE, "char_start", "char_end")),
        _merges(done, found, entities),
    )


def _entities(found: pl.DataFrame, titles: pl.DataFrame, people: pl.DataFrame, hints: pl.DataFrame) -> pl.DataFrame:
    """One row for each key of a scope that is mentioned: its commonest spelling is the name, the others are aliases."""
    spellings = found.group_by(*_KEY, "surface").agg(
        pl.col("own").any(), n=pl.len(), title=(pl.col("kind") == "title").any()
    )
    mentioned = spellings.select(_KEY).unique()
    told = people.join(mentioned, on=_KEY, how="semi").select(*_KEY, "surface").unique()
    told = told.join(spellings.filter("own").select(_KEY).unique(), on=_KEY, how="anti")
    known = told.with_columns(own=pl.lit(True), n=pl.lit(0, pl.UInt32), title=pl.lit(False))
    rows = (
        pl.concat([spellings, known.select(spellings.columns)])
        .sort(*_KEY, "own", "title", "n", "surface", descending=[False] * len(_KEY) + [True, True, True, False])
        .group_by(_KEY, maintain_order=True)
        .agg(name=pl.col("surface").first(), spellings=pl.col("surface").unique())
        .with_columns(aliases=pl.col("spellings").list.set_difference(pl.concat_list("name")).list.sort())
    )
    kinds = found.group_by(_KEY).agg(code=(pl.col("kind") == "code").all(), acronym=(pl.col("kind") == "acronym").all())
    rows = (
        rows.join(kinds, on=_KEY)
        .join(hints, on=_KEY)
        .join(people.select(*_KEY, spoken=pl.lit(True)).unique(), on=_KEY, how="left")
        .join(titles.select(*_KEY, titled=pl.lit(True)).unique(), on=_KEY, how="left")
    )
    organisation = (
        pl.col("organisation")
        | pl.col("key").str.split(" ").list.eval(pl.element().is_in(sorted(ORGANISATION))).list.any()
    )
    kind = (
        pl.when(pl.col("spoken"))
        .then(pl.lit("person"))
        .when(organisation)
        .then(pl.lit("organisation"))
        .when(pl.col("person"))
        .then(pl.lit("person"))
        .when(pl.col("titled"))
        .then(pl.lit("title"))
        .when(pl.col("code"))
        .then(pl.lit("code"))
        .when(pl.col("acronym"))
        .then(pl.lit("acronym"))
        .when(pl.col("place"))
        .then(pl.lit("place"))
        .otherwise(pl.lit("name"))
    )
    ids = [entity_id(*r) for r in rows.select(_KEY).iter_rows()]
    return rows.select(pl.Series("entity_id", ids, pl.String), *_KEY, "name", "aliases", type=kind).sort("entity_id")


def _merges(done: dict[ScopeKey, Resolution], found: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """The reasons: of each pair of names that were found to be one, in the whole scope or in one document."""
    rows = [
        (*at, e.alias, e.target, e.why, e.memory_id, document, to)
        for at, r in done.items()
        for document, e, to in r.reasons()
    ]
    schema: Schema = dict.fromkeys((*SCOPE, "alias", "name", "why", "memory_id", "document_id", "key"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row").join(
        entities.select(*_KEY, "entity_id", called="name"), on=_KEY, how="inner"
    )
    spelled = found.group_by(*_KEY, "said").agg(shown=pl.col("surface").mode().min())
    for column in ("alias", "name"):
        shown = spelled.select(*_KEY, pl.col("said").alias(column), pl.col("shown").alias(f"{column}_shown"))
        frame = frame.join(shown, on=[*_KEY, column], how="left")
    # A bare name that nobody says may join two that are said: it is shown as the entity is.
    frame = (
        frame.filter(pl.col("alias_shown").is_not_null())
        .with_columns(alias=pl.col("alias_shown"), name=pl.coalesce("name_shown", "called"))
        .filter(pl.col("alias") != pl.col("name"))
    )
    return conform("merges", frame.drop("key", "called", "alias_shown", "name_shown")).sort(
        "entity_id", "alias", "name", "why", "document_id", "memory_id", nulls_last=True
    )
