"""The tables of facts: what each memory states, and the same of all memories of a scope with its time."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from palimpsest.core.files import progress
from palimpsest.core.ids import SCOPE, content_id, scope_parts
from palimpsest.core.ids import entity_id as entity_id_of
from palimpsest.core.parallel import map_chunks
from palimpsest.entities.find_names import entity_key
from palimpsest.facts.document_facts import document_facts
from palimpsest.facts.extract_facts import ENDED, extract_facts
from palimpsest.facts.fact import Fact, Mentioned, Named
from palimpsest.facts.referents import may_refer
from palimpsest.facts.vocabulary import IS_A, SINGLE_VALUED
from palimpsest.store.tables import completed, conform, empty
from palimpsest.text.parse import parse_texts
from palimpsest.text.terms import name_words
from palimpsest.text.words import NO_PERSON_ROLES, USER_ROLES, fold

# The entities of each memory, as the extraction of facts needs them: names, who speaks, what the passage is about.

_IN_BRACKETS = re.compile(r"(?:(?<!\s)\s++)?\([^()]*+\)$")
_MAX_NAME_WORDS = 4


@dataclass(frozen=True)
class FactInputs:
    """What facts are read from.

    Attributes:
        memories: the memories table.
        mentions: where entities are named in them.
        entities: the entities table.
        documents: the documents table; without it the form of documents states nothing.
    """

    memories: pl.DataFrame
    mentions: pl.DataFrame
    entities: pl.DataFrame
    documents: pl.DataFrame | None = None


def named_entities(inputs: FactInputs) -> dict[str, Named]:
    """Returns the entities of each memory that names or is about any, by memory id."""
    types = {
        entity_id: _reference_type(kind, name)
        for entity_id, kind, name in inputs.entities.select("entity_id", "type", "name").iter_rows()
    }
    by_name = _entities_by_name(inputs.entities)
    first_persons = dict(first_person(inputs.memories).iter_rows())
    mentions: dict[str, list[Mentioned]] = {}
    placed = inputs.mentions.select("memory_id", "entity_id", "char_start", "char_end").drop_nulls("char_start")
    for memory_id, entity_id, start, end in placed.sort(placed.columns).iter_rows():
        mentions.setdefault(memory_id, []).append(Mentioned(entity_id, start, end))
    out = {}
    texts = inputs.memories.select("memory_id", *SCOPE, "unit", "title", "refers_to")
    for memory_id, collection, user, project, unit, title, opening in texts.iter_rows():
        scope = collection, user, project
        who = about = antecedent = None
        if speaker := first_persons.get(memory_id):
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


def first_person(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, name) of the memories in which `I` is somebody: a speaker by name, else the user.

    Turns of the role of a user, and turns that nobody is named for, are the user's. The user has the name of the
    speaker that matches the id, else of the only speaker of a scope, else the id is the name.
    """
    role = pl.col("speaker").fill_null("").str.strip_chars().str.to_lowercase()
    turns = memories.filter(~role.is_in(sorted(NO_PERSON_ROLES))).select(
        "memory_id", *SCOPE, "unit", "speaker", role=role
    )
    is_named = ~pl.col("role").is_in(sorted(USER_ROLES | {""}))
    named = turns.filter(is_named)
    speakers = named.group_by(SCOPE).agg(pl.col("speaker").unique().sort())
    users = (
        turns.filter(~is_named, (pl.col("unit") == "turn") | (pl.col("role") != ""), pl.col("user_id") != "")
        .select("memory_id", *SCOPE)
        .join(speakers, on=SCOPE, how="left", maintain_order="left")
    )
    names = [_own_name(user, known or []) for user, known in users.select("user_id", "speaker").iter_rows()]
    users = users.select("memory_id", name=pl.Series(names, dtype=pl.String))
    return pl.concat([named.select("memory_id", name="speaker"), users])


def _own_name(user: str, speakers: Sequence[str]) -> str:
    """Returns the name of a user among those who speak in the user's scope."""
    own = name_words(user)
    same = [s for s in speakers if name_words(s) == own] or [s for s in speakers if name_words(s).split(" ")[0] == own]
    return same[0] if same else speakers[0] if len(speakers) == 1 else user


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


def extraction_key(text: str, named: Named) -> tuple[object, ...]:
    """Returns what the facts of a memory depend on; equal keys have equal facts."""
    others = (named.speaker, named.topic, named.antecedent)
    names = tuple((m.start, m.end, m.entity_id) for m in named.mentions)
    types = tuple(named.types.get(e) for e in named.entities)
    return text, names, *others, types, named.topic_name, named.is_page


RULES, LM, FORM = "rules", "lm", "form"
"""Values of `extractor`."""
_TEXTS_PER_CHUNK = 512
_PLACE = ("memory_id", "char_start", "subject_id", "predicate", "object_id", "value")
_FACT = (*SCOPE, "subject_id", "predicate", "object_id", "folded_value", "is_negated")


def clause_facts(now: FactInputs, earlier: FactInputs | None = None, known: pl.DataFrame | None = None) -> pl.DataFrame:
    """Returns `clause_facts` by rules: what the clauses of each memory state, by memory and place.

    Args:
        now: the build in the making.
        earlier: an earlier build made by the same code.
        known: its clause_facts; those of memories whose text and names are the same are carried over.
    """
    named, carried = named_entities(now), empty("clause_facts")
    todo = _keys(now, named)
    if earlier is not None and known is not None:
        before = _keys(earlier, named_entities(earlier))
        same = [memory_id for memory_id, key in todo.items() if before.get(memory_id) == key]
        by_rules = completed("clause_facts", known).filter(pl.col("extractor") == RULES)
        carried = by_rules.filter(pl.col("memory_id").is_in(same))
        for memory_id in same:
            del todo[memory_id]
    found = _extract(now.memories.filter(pl.col("memory_id").is_in(list(todo))).sort("memory_id"), named)
    return pl.concat([carried, found, _of_form(now, named)]).sort(_PLACE)


def _of_form(inputs: FactInputs, named: Mapping[str, Named]) -> pl.DataFrame:
    """Returns what the form of documents states: it is read anew in each build, for their metadata are."""
    if inputs.documents is None:
        return empty("clause_facts")
    scopes = {memory_id: scope for memory_id, *scope in inputs.memories.select("memory_id", *SCOPE).iter_rows()}
    stated = document_facts(inputs.memories, inputs.documents, named)
    return clause_table([row for i, fact in stated for row in fact_rows((i, *scopes[i]), [fact], FORM)])


def join_extractors(by_rules: pl.DataFrame, by_lm: pl.DataFrame) -> pl.DataFrame:
    """Returns the clause_facts of both, each fact of a memory once, as the surer one states it."""
    return (
        pl.concat([by_rules, by_lm])
        .sort("confidence", "extractor", descending=True)
        .unique(["memory_id", "subject_id", "predicate", "object_id", "value", "is_negated"], keep="first")
        .sort(_PLACE)
    )


def facts(
    clauses: pl.DataFrame, versions: pl.DataFrame, memories: pl.DataFrame, ended_parts: pl.DataFrame
) -> pl.DataFrame:
    """Returns `facts`: one row for what several memories of a scope state, sorted by id.

    It is valid from the first of them on, and until the last one that is retired, unless one is still latest. What a
    part of a memory states that a newer one ended ends with that part. A fact also ends when a later memory says that
    it is so no longer, and where a subject has one at a time when a later memory states another.

    Args:
        clauses: clause_facts.
        versions: the versions table.
        memories: the memories table, for the day of those without a version's time.
        ended_parts: as `relations.versions.ended_parts` returns them.
    """
    times = memories.select("memory_id", "observed_at").join(
        versions.select("memory_id", "is_latest", "valid_from", "valid_until"), on="memory_id", how="left"
    )
    clauses = clauses.filter(pl.col("predicate") != IS_A).with_row_index("row")
    values = clauses["value"].to_list()
    middle = (pl.col("char_start") + pl.col("char_end")) / 2
    ended = (
        clauses.join(ended_parts, on="memory_id")
        .filter(middle.is_between("start", "end"))
        .group_by("row")
        .agg(pl.col("ended_at").min(), is_ended=pl.lit(True))
    )
    stated = (
        clauses.with_columns(
            folded_value=pl.Series([None if v is None else _ARTICLE.sub("", fold(v)) for v in values], dtype=pl.String)
        )
        .join(times, on="memory_id", how="left")
        .join(ended, on="row", how="left")
        .with_columns(
            is_latest=pl.col("is_latest").fill_null(True)
            & pl.col("is_ended").is_null()
            & (pl.col("modality") != "past"),
            valid_until=pl.min_horizontal("ended_at", "valid_until"),
        )
    )
    since = pl.coalesce("valid_from", "observed_at")
    grouped = (
        stated.filter(pl.col("modality") != ENDED)
        .sort("memory_id", "char_start")
        .group_by(_FACT, maintain_order=True)
        .agg(
            pl.col("value").first(),
            pl.col("modality").first(),
            valid_from=since.min(),
            stated_last=since.max(),
            valid_until=pl.when(pl.col("valid_until").is_null().any())
            .then(None)
            .otherwise(pl.col("valid_until").max()),
            is_latest=pl.col("is_latest").any(),
            memory_ids=pl.col("memory_id").unique().sort(),
            confidence=pl.col("confidence").max(),
        )
    )
    grouped = _ended(grouped, stated.filter(modality=ENDED).with_columns(since=since))
    ids = [
        content_id("fact", *scope_parts(*row[:3]), *row[3:6], row[6], str(row[7]))
        for row in grouped.select(_FACT).iter_rows()
    ]
    return conform("facts", grouped.drop("folded_value").with_columns(fact_id=pl.Series(ids, dtype=pl.String))).sort(
        "fact_id"
    )


def _ended(facts: pl.DataFrame, endings: pl.DataFrame) -> pl.DataFrame:
    """Returns facts with the end that later memories give them.

    Args:
        facts: with `valid_from` and `stated_last`, the time of the last memory that states them.
        endings: clauses that say that something is so no longer, with their time `since`; without a predicate whatever
            was stated of the two ends.
    """
    pair = (*SCOPE, "subject_id", "object_id", "folded_value")
    left = (
        facts.with_row_index("n")
        .join(endings.select(*pair, "since", ending="predicate"), on=pair, how="inner", nulls_equal=True)
        .filter((pl.col("ending") == "") | (pl.col("ending") == pl.col("predicate")))
        .filter(pl.col("since") > pl.col("stated_last"))
        .group_by("n")
        .agg(pl.col("since").min())
    )
    slot = (*SCOPE, "subject_id", "predicate")
    newest = facts.filter(pl.col("predicate").is_in(sorted(SINGLE_VALUED)) & pl.col("is_latest"))
    replaced = (
        facts.with_row_index("n")
        .join(newest.select(*slot, since="stated_last", other="value"), on=slot, how="inner", nulls_equal=True)
        .filter(pl.col("since") > pl.col("stated_last"))
        .group_by("n")
        .agg(pl.col("since").min())
    )
    ends = pl.concat([left, replaced]).group_by("n").agg(pl.col("since").min())
    is_over = pl.col("since").is_not_null()
    return (
        facts.with_row_index("n")
        .join(ends, on="n", how="left")
        .with_columns(
            is_latest=pl.col("is_latest") & ~is_over,
            valid_until=pl.when(is_over).then(pl.min_horizontal("valid_until", "since")).otherwise("valid_until"),
        )
        .drop("n", "since", "stated_last")
    )


_ARTICLE = re.compile(r"^(?:an?|the|my|our) ")
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)


def _without_headings(text: str) -> str:
    """Returns a text with spaces in place of its headings, which are no sentences, and all else where it was."""
    return _HEADING.sub(lambda m: " " * len(m[0]), text)


def _keys(inputs: FactInputs, named: Mapping[str, Named]) -> dict[str, tuple[object, ...]]:
    """Returns what the facts of each memory that has any depend on, by memory id."""
    rows = inputs.memories.select("memory_id", "text").iter_rows()
    return {memory_id: extraction_key(text, named[memory_id]) for memory_id, text in rows if memory_id in named}


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
        .join(memories.select("memory_id", *SCOPE), on="memory_id", how="inner")
        .join(first_person(memories), on="memory_id", how="inner")
        .group_by("entity_id", *SCOPE)
        .agg(pl.col("name").min(), memory_ids=pl.col("memory_id").sort())
    )
    return conform("speakers", found).sort("entity_id")


def _extract(memories: pl.DataFrame, named: Mapping[str, Named]) -> pl.DataFrame:
    items = [
        ((memory_id, *scope), text, named[memory_id].with_own_types())
        for memory_id, *scope, text in memories.select("memory_id", *SCOPE, "text").iter_rows()
        if may_refer(text, named[memory_id])  # the parser takes milliseconds a text
    ]
    found = list[tuple[object, ...]]()
    starts = range(0, len(items), _TEXTS_PER_CHUNK)
    with progress("extract facts", len(items), "memories") as advance:
        for start, rows in zip(starts, map_chunks(_rows_of_texts, items, _TEXTS_PER_CHUNK, "facts"), strict=True):
            found += rows
            advance(min(_TEXTS_PER_CHUNK, len(items) - start))
    return clause_table(found)


def _rows_of_texts(items: Sequence[tuple[tuple[str, ...], str, Named]]) -> list[tuple[object, ...]]:
    rows, texts = list[tuple[object, ...]](), [_without_headings(text) for _, text, _ in items]
    for (ids, _, named), text, parse in zip(items, texts, parse_texts(texts), strict=True):
        rows += fact_rows(ids, extract_facts(text, parse, named), RULES)
    return rows


def fact_rows(ids: Sequence[str], facts: Iterable[Fact], extractor: str) -> list[tuple[object, ...]]:
    """Returns rows of clause_facts; `ids` are the memory's and its scope's."""
    return [
        (
            *ids,
            *(f.subject, f.predicate, f.object_entity or None, f.value or None, f.start, f.end),
            *(f.is_negated, f.modality, f.confidence, extractor),
        )
        for f in facts
    ]


def clause_table(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    """Returns the rows as a clause_facts table."""
    columns = empty("clause_facts").columns
    return conform("clause_facts", pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None))
