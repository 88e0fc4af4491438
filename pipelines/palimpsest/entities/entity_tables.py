"""The tables of entities: mention candidates of each memory alone, then entities, mentions and merges of each scope."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import polars as pl

from palimpsest.core.ids import SCOPE, ScopeKey, entity_id
from palimpsest.entities.find_names import (
    MAX_NAME_CHARS,
    ORDINARY,
    ORGANISATION,
    MentionCandidate,
    entity_key,
    find_names,
)
from palimpsest.entities.gazetteers import is_city, is_first_name, is_person_name
from palimpsest.entities.name_model import Resolution
from palimpsest.entities.scope_evidence import (
    MENTION_SCHEMA,
    find_people,
    find_title_mentions,
    find_titles,
    resolve_scopes,
    written_small,
)
from palimpsest.entities.stated_names import find_stated_names
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS, Schema, conform
from palimpsest.text.markup import WEB_ADDRESS

_KEY = [*SCOPE, "key"]
_SPAN = ["memory_id", "char_start", "char_end"]
BY_MODEL = "model"
"""Kind of a mention candidate that a language model names."""
_MODEL_CUES = {"person": "person", "place": "place", "organisation": "organisation"}
_LINK = re.compile(WEB_ADDRESS + r"|(?<=\]\()[^()\s]+|^\[[^\]\n]+\]:\s+\S+", re.MULTILINE)

# Assigns each mention to the name that it refers to, and chooses among mentions that overlap.

_AT = ["memory_id", "char_start"]


def assign_names(found: pl.DataFrame, resolved: dict[ScopeKey, Resolution]) -> pl.DataFrame:
    """Returns mentions with the key that each refers to, in its document or everywhere; offices without a holder go.

    Args:
        found: mentions with the columns of `MENTION_SCHEMA` and `document_id`.
        resolved: what resolution found, by scope.

    Returns:
        The same columns, with `key` of the name that it refers to, `written_key` of the name that the text has, and
        `is_own_name` where both are the same name.
    """
    everywhere = [(*at, k, to) for at, r in resolved.items() for k, to in r.canonical.items()]
    here = [(*at, d, k, to, article) for at, r in resolved.items() for (d, k), (to, article) in r.local.items()]
    scope: Schema = dict.fromkeys(SCOPE, pl.String)
    by_scope = pl.DataFrame(everywhere, schema=scope | {"key": pl.String, "scope_key": pl.String}, orient="row")
    by_document = pl.DataFrame(
        here,
        schema=scope | {"document_id": pl.String, "key": pl.String, "document_key": pl.String, "article": pl.Boolean},
        orient="row",
    )
    acronyms = [(*at, k) for at, r in resolved.items() for k in r.acronyms]
    capitals = pl.DataFrame(acronyms, schema=scope | {"key": pl.String}, orient="row").with_columns(capitals=True)
    joined = (
        found.join(by_scope, on=_KEY, how="left")
        .join(capitals, on=_KEY, how="left")
        .join(by_document, on=[*SCOPE, "document_id", "key"], how="left")
    )
    # A place of that name is not the person whom this document calls so; a body needs its article.
    allowed = pl.when("article").then(pl.col("cue") == "the").otherwise(pl.col("cue") != "in")
    joined = joined.with_columns(document_key=pl.when(allowed).then("document_key"))
    # Ice is no acronym, though ICE is one.
    letters = pl.col("surface").str.replace(r"(?:'s|s|’s)$", "")  # noqa: RUF001
    joined = joined.with_columns(
        scope_key=pl.when(pl.col("capitals").is_null() | (letters == letters.str.to_uppercase())).then("scope_key")
    )
    target = pl.coalesce("scope_key", "document_key")
    return (
        joined.filter((pl.col("kind") != "role") | target.is_not_null())
        .with_columns(is_own_name=target.is_null(), written_key="key", key=pl.coalesce(target, "key"))
        .drop("scope_key", "document_key", "article", "capitals")
    )


def keep_longest(found: pl.DataFrame) -> pl.DataFrame:
    """Returns, of mentions that begin or end at one place, the longest; of one span, one."""
    spans = found.filter(pl.col("char_start").is_not_null())
    rank = pl.when(pl.col("kind") == "title").then(0).otherwise(1)
    order = [*_AT, "length", "rank", "key", "kind", "written_key"]
    spans = (
        spans.with_columns(rank=rank, length=pl.col("char_end") - pl.col("char_start"))
        .sort(order, descending=[column == "length" for column in order])
        .unique(_AT, keep="first", maintain_order=True)
    )
    reach = pl.col("char_end").cum_max().shift(1).over("memory_id").fill_null(-1)
    spans = spans.filter((pl.col("char_end") > reach) | (pl.col("kind") == "title")).drop("rank", "length")
    return pl.concat([spans, found.filter(pl.col("char_start").is_null())])


# Entities from mention candidates: what counts as a name, which names are one, what each mention refers to.


@dataclass(frozen=True)
class ResolvedEntities:
    """The tables entities, mentions and merges."""

    entities: pl.DataFrame
    mentions: pl.DataFrame
    merges: pl.DataFrame


def resolve_entities(
    candidates: pl.DataFrame,
    memories: pl.DataFrame,
    documents: pl.DataFrame | None = None,
    decisions: Decisions | None = None,
) -> ResolvedEntities:
    """Returns entities, mentions and merges, each scope by itself, sorted by id.

    What a language model names is a name, whatever its letters. A title names an entity, and each memory of a
    document with it mentions it, with no span where its text does not. One capitalised word at the start of a
    sentence counts only where the scope has it elsewhere: as a name inside a sentence, as a title, as a speaker,
    because a text says what it refers to, or as part of a person's name that it is short for. A name that the scope
    has as often in small letters is a word. An office in small letters is its holder where one is stated, and nothing
    by itself.

    Args:
        candidates: the surfaces table, see `entity_tables.find_mention_candidates`.
        memories: the memories table.
        documents: the documents table, or none.
        decisions: people's; names that they joined or set apart stay so.
    """
    titles = find_titles(memories)
    people = find_people(memories, documents)
    by_model = candidates.filter(kind=BY_MODEL)
    names = candidates.filter(~pl.col("kind").is_in(["none", "role", BY_MODEL]))
    stated = candidates.filter(pl.col("same_as").is_not_null())
    names = names.join(written_small(names, memories, [titles, people]), on=_KEY, how="anti")
    sure, unsure = _split_names(names, stated, titles, people)
    sure = pl.concat([sure, by_model.join(sure, on=_SPAN, how="anti")])
    unsure = unsure.join(by_model, on=_SPAN, how="anti")
    found = pl.concat(
        [
            pl.concat([sure, unsure]).select(list(MENTION_SCHEMA)),
            find_title_mentions(memories, titles, _explained_in_small_letters(names)),
        ]
    )
    where = memories.select("memory_id", "document_id")
    found = found.join(where, on="memory_id", how="left")
    resolved = resolve_scopes(found, stated, titles, people, memories, decisions or Decisions())
    offices = candidates.filter(pl.col("kind") == "role").join(where, on="memory_id", how="left")
    assigned = assign_names(pl.concat([found, offices.select(found.columns)]), resolved)
    assigned = _without_unsure(assigned, unsure)
    cues = assigned.group_by(_KEY).agg(
        person=(pl.col("cue") == "person").any(),
        place=pl.col("cue").is_in(["in", "place"]).any(),
        organisation=(pl.col("cue") == "organisation").any(),
    )
    assigned = keep_longest(assigned)
    entities = _entities(assigned, titles, people, cues)
    return ResolvedEntities(
        conform("entities", entities.drop("key")), _mentions(assigned, entities), _merges(resolved, assigned, entities)
    )


def _split_names(
    names: pl.DataFrame, stated: pl.DataFrame, titles: pl.DataFrame, people: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns names that count, and words that only start sentences but are part of a person's name."""
    is_initial = pl.col("initial")
    first = [w for w in names.filter(is_initial)["key"].unique() if is_first_name(w)]
    inside = names.filter(~is_initial | pl.col("key").is_in(first)).select(_KEY).unique()
    stated_targets = stated.select(*SCOPE, key="same_as").unique()
    known = pl.concat([inside, stated_targets, titles.select(_KEY), people.select(_KEY)]).unique()
    persons = pl.concat([names.filter(pl.col("cue") == "person").select(_KEY), people.select(_KEY)]).unique()
    words = persons.with_columns(pl.col("key").str.split(" ")).filter(pl.col("key").list.len().is_between(2, 4))
    first_and_last = pl.concat([words.with_columns(pl.col("key").list.get(i)) for i in (0, -1)])
    initial = names.filter("initial")
    sure = pl.concat([names.filter(~is_initial), initial.join(known, on=_KEY, how="semi")])
    unsure = initial.join(known, on=_KEY, how="anti").join(first_and_last.unique(), on=_KEY, how="semi")
    return sure, unsure


def _explained_in_small_letters(names: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, surface, key) of long forms of acronyms that have no capital."""
    is_small = (pl.col("kind") == "name") & ~pl.col("surface").str.contains(r"\p{Lu}")
    return names.filter(is_small).select(*SCOPE, "surface", "key").unique()


def _without_unsure(assigned: pl.DataFrame, unsure: pl.DataFrame) -> pl.DataFrame:
    """Drops mentions by a word that only starts sentences, unless it refers to another name or another refers to it."""
    dropped = unsure.select("memory_id", *SCOPE, "char_start", written_key="key", is_own_name=pl.lit(True))
    referred_to = assigned.filter(~pl.col("is_own_name")).select(*SCOPE, written_key="key")
    dropped = dropped.join(referred_to, on=[*SCOPE, "written_key"], how="anti")
    return assigned.join(dropped, on=dropped.columns, how="anti")


def _mentions(assigned: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns the mentions table; a mention without a span counts only where its memory has no other of the entity."""
    rows = assigned.join(entities.select(*_KEY, "entity_id"), on=_KEY, how="inner").sort(
        "memory_id", "entity_id", "char_start", nulls_last=True
    )
    rows = rows.filter(pl.col("char_start").is_not_null() | pl.col("entity_id").is_first_distinct().over("memory_id"))
    return conform("mentions", rows.select("memory_id", "entity_id", *SCOPE, "char_start", "char_end"))


def _entities(assigned: pl.DataFrame, titles: pl.DataFrame, people: pl.DataFrame, cues: pl.DataFrame) -> pl.DataFrame:
    """Returns a row for each key of a scope that is mentioned: its commonest spelling is the name, others aliases."""
    spellings = assigned.group_by(*_KEY, "surface").agg(
        pl.col("is_own_name").any(), n=pl.len(), title=(pl.col("kind") == "title").any()
    )
    outside_text = people.join(spellings.select(_KEY).unique(), on=_KEY, how="semi").select(*_KEY, "surface").unique()
    outside_text = outside_text.join(spellings.filter("is_own_name").select(_KEY).unique(), on=_KEY, how="anti")
    outside_text = outside_text.with_columns(is_own_name=pl.lit(True), n=pl.lit(0, pl.UInt32), title=pl.lit(False))
    order = [False] * len(_KEY) + [True, True, True, False]
    rows = (
        pl.concat([spellings, outside_text.select(spellings.columns)])
        .sort(*_KEY, "is_own_name", "title", "n", "surface", descending=order)
        .group_by(_KEY, maintain_order=True)
        .agg(name=pl.col("surface").first(), spellings=pl.col("surface").unique())
        .with_columns(aliases=pl.col("spellings").list.set_difference(pl.concat_list("name")).list.sort())
    )
    kinds = assigned.group_by(_KEY).agg(
        code=(pl.col("kind") == "code").all(), acronym=(pl.col("kind") == "acronym").all()
    )
    rows = (
        rows.join(kinds, on=_KEY)
        .join(cues, on=_KEY)
        .join(people.select(*_KEY, known_person=pl.lit(True)).unique(), on=_KEY, how="left")
        .join(titles.select(*_KEY, titled=pl.lit(True)).unique(), on=_KEY, how="left")
    )
    ids = [entity_id(*r) for r in rows.select(_KEY).iter_rows()]
    rows = rows.select(pl.Series("entity_id", ids, pl.String), *_KEY, "name", "aliases", type=_entity_type())
    return rows.sort("entity_id")


def _entity_type() -> pl.Expr:
    head = pl.col("key").str.replace(r"^(.+?) (?:of|for|in|at|on|to) .*$", "${1}").str.extract(r"(\S+)$")
    has_organisation_word = head.str.strip_chars(".").is_in(sorted(ORGANISATION))  # an Office Guide is no office
    is_person = pl.col("name").map_elements(is_person_name, pl.Boolean)
    is_place = pl.col("name").map_elements(is_city, pl.Boolean)
    return (
        pl.when(pl.col("known_person") | is_person)
        .then(pl.lit("person"))
        .when(is_place)
        .then(pl.lit("place"))
        .when(pl.col("organisation") | has_organisation_word)
        .then(pl.lit("organisation"))
        .when("person")
        .then(pl.lit("person"))
        .when("titled")
        .then(pl.lit("title"))
        .when("code")
        .then(pl.lit("code"))
        .when("acronym")
        .then(pl.lit("acronym"))
        .when("place")
        .then(pl.lit("place"))
        .otherwise(pl.lit("name"))
    )


def _merges(resolved: dict[ScopeKey, Resolution], assigned: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns the merges table: each pair of names that are one, in the whole scope or in one document, with why."""
    rows = [
        (*scope, merge.alias, merge.target, merge.why, merge.memory_id, document, key)
        for scope, resolution in resolved.items()
        for document, merge, key in resolution.reasons()
    ]
    schema: Schema = dict.fromkeys((*SCOPE, "alias", "name", "why", "memory_id", "document_id", "key"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row").join(
        entities.select(*_KEY, "entity_id", entity_name="name"), on=_KEY, how="inner"
    )
    spelled = assigned.group_by(*_KEY, "written_key").agg(spelling=pl.col("surface").mode().min())
    for column in ("alias", "name"):
        spelling = spelled.select(
            *_KEY, pl.col("written_key").alias(column), pl.col("spelling").alias(f"{column}_spelling")
        )
        frame = frame.join(spelling, on=[*_KEY, column], how="left")
    # A bare name that no text has may join two others: it is shown as the entity is.
    frame = (
        frame.filter(pl.col("alias_spelling").is_not_null())
        .with_columns(alias=pl.col("alias_spelling"), name=pl.coalesce("name_spelling", "entity_name"))
        .filter(pl.col("alias") != pl.col("name"))
    )
    return conform("merges", frame.drop("key", "entity_name", "alias_spelling", "name_spelling")).sort(
        "entity_id", "alias", "name", "why", "document_id", "memory_id", nulls_last=True
    )


_SURFACE_ORDER = ("memory_id", "char_start", "char_end", "kind", "key", "same_as", "why")
_PLACE = attrgetter("char_start", "char_end", "kind", "key", "cue")
_NO_CANDIDATE = MentionCandidate("", "", "none", False, "", None, None, 0, 0)


def entity_tables(
    memories: pl.DataFrame,
    documents: pl.DataFrame,
    previous: pl.DataFrame | None = None,
    ner: str | None = None,
    decisions: Decisions | None = None,
    by_model: Sequence[tuple[str, int, int, str]] = (),
) -> dict[str, pl.DataFrame]:
    """Returns entities, mentions, merges (why two names are one) and surfaces (the candidates, for the next build).

    Args:
        memories: the memories table.
        documents: the documents table; names of people in their metadata are evidence.
        previous: the surfaces of an earlier build made by the same code and the same `ner`.
        ner: name of an installed spaCy pipeline that finds names too.
        decisions: people's; names that they joined or set apart stay so.
        by_model: (memory_id, start, end, type) of what a language model names; the type may be empty.
    """
    candidates = find_mention_candidates(memories, previous, ner)
    if by_model:
        candidates = pl.concat([candidates, _model_candidates(memories, by_model)]).sort(_SURFACE_ORDER)
    resolved = resolve_entities(candidates, memories, documents, decisions)
    return {
        "entities": resolved.entities,
        "mentions": resolved.mentions,
        "merges": resolved.merges,
        "surfaces": candidates,
    }


def find_mention_candidates(
    memories: pl.DataFrame, previous: pl.DataFrame | None = None, ner: str | None = None
) -> pl.DataFrame:
    """Returns what could be a name in each memory's text, sorted by memory and place.

    A pure function of each text and its speaker, with the columns of `MentionCandidate`. A memory without names has one
    row of kind `none`.

    Args:
        memories: the memories table.
        previous: the surfaces of an earlier build made by the same code; those of memories that still exist are carried
            over.
        ner: name of an installed spaCy pipeline that finds names too.
    """
    schema = SCHEMAS["surfaces"]
    carried = pl.DataFrame(schema=schema)
    todo = memories.select("memory_id", *SCOPE, "text", "speaker").sort("memory_id")
    if previous is not None:
        previous = previous.filter(pl.col("kind") != BY_MODEL)
        carried = previous.join(memories, on="memory_id", how="semi")
        todo = todo.join(previous, on="memory_id", how="anti")
    rows: list[tuple[object, ...]] = []
    for (*ids, text, speaker), names in zip(todo.iter_rows(), _names_of(todo["text"].to_list(), ner), strict=True):
        links = [m.span() for m in _LINK.finditer(text)]
        found = [*names, *find_stated_names(text, names, speaker)]
        candidates = [c for c in found if not any(a <= (c.char_start or 0) < b for a, b in links)]
        rows += [(*ids, *candidate) for candidate in candidates or [_NO_CANDIDATE]]
    fresh = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([carried, fresh]).sort(_SURFACE_ORDER)


def _model_candidates(memories: pl.DataFrame, stated: Sequence[tuple[str, int, int, str]]) -> pl.DataFrame:
    """Returns the surfaces of what a model names; a common noun is of many where it is in the plural."""
    texts = {i: ((i, *scope), text) for i, *scope, text in memories.select("memory_id", *SCOPE, "text").iter_rows()}
    rows = []
    for memory_id, start, end, kind in stated:
        ids, text = texts[memory_id]
        surface, key = text[start:end], entity_key(text[start:end])
        if key and key not in ORDINARY and len(surface) <= MAX_NAME_CHARS:
            cue = _MODEL_CUES.get(kind) or ("many" if key.endswith("s") else "one")
            rows.append((*ids, surface, key, BY_MODEL, False, cue, None, None, start, end))
    return pl.DataFrame(rows, schema=SCHEMAS["surfaces"], orient="row")


def _names_of(texts: list[str], ner: str | None) -> list[list[MentionCandidate]]:
    by_rule = [find_names(text) for text in texts]
    if not ner or not texts:
        return by_rule
    from palimpsest.entities.spacy_names import find_library_names

    by_library = find_library_names(texts, ner)
    return [sorted({*a, *b}, key=_PLACE) for a, b in zip(by_rule, by_library, strict=True)]
