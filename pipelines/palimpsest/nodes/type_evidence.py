"""Evidence of what type an entity is: its name, the words at its mentions, its facts, and documents about it."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.entities.names.find_names import (
    COUNTED,
    DEMONYMS,
    FEMALE,
    HONORIFICS,
    LINKS,
    MALE,
    ONE,
    PARTICLES,
    is_full_name,
    word_set,
)
from palimpsest.entities.names.scope_evidence import find_people
from palimpsest.nodes.type_nouns import ending_type, head_noun, noun_type, singular
from palimpsest.text.words import CALENDAR_WORDS, fold

# What the words before and after a name show of it: `the guide Anders Moll`, `Basin is the database`, `in Brakel`.
#
# Every rule is a regular expression over a short window of text at each mention; polars applies it to all mentions at
# once, in linear time (the engine has no backtracking).

_BEFORE_CHARS, _AFTER_CHARS = 60, 160
_DETERMINER = r"(?i:a|an|the|our|my|his|her|their|its|your|one of the|one of our|one of my)"
_ASIDE = r"(?:\s*\([^()]*\))?"
_CALLED = "(?:called|named|known as)"
_SETTLED = "town|city|village|hamlet|island|isle|county|province|district|borough|parish|port|state|kingdom|region"
_TECHNICAL = (
    "database|server|service|gateway|probe|logger|app|portal|broker|software|modem|sensor|board|tool|firmware|library|"
    "framework|module|cluster|project|programme|program|campaign|initiative"
)
_PERSONAL = word_set(
    """
    said says asked asks told tells thinks thought wrote writes joined married lives lived laughed laughs smiled phoned
    wants wanted knows knew promised hopes hoped likes liked loves loved hates hated believes remembers forgot forgets
    explained cooks cooked sings sang painted retired studied studies taught teaches learned learnt drove drives sleeps
    slept ate eats born cried complained apologised apologized grew brought thanked reminded insisted admitted wondered
    """
)
_ADVERBS = "has|had|will|would|was|is|also|then|never|always|still|often|later|once|now|just|only|first"
_KIN = "wife|husband|daughter|son|mother|father|brother|sister|friend|boss|birthday|parents|children|family|widow|uncle"


class _Rule(NamedTuple):
    """A rule of contexts: what it captures is a phrase whose head noun shows the type, unless `type` is given."""

    name: str
    side: str
    pattern: str
    weight: float
    type: str = ""


_RULES = (
    _Rule(
        "defined",
        "after",
        rf"^{_ASIDE}(?:,?\s+(?:which|who))?,?\s+(?:is|was|are|were|remains|remained|became|becomes|means)\s+"
        rf"(?:now |still |also |today |once |then |only )?{_DETERMINER}\s+([^.;:!?\n]+)",
        3.0,
    ),
    _Rule(
        "apposed", "after", rf"^{_ASIDE},\s+(?:then |now |once )?{_DETERMINER}\s+([^.,;:!?()\n]+)(?:[.,;]|\s*$)", 1.0
    ),
    _Rule("listed", "after", rf"^{_ASIDE}\s*[:\u2013\u2014]\s+(?:{_DETERMINER}\s+)?([a-z][^.,;:!?\n]+)", 1.5),
    _Rule("gapped", "after", rf"^\s+{_DETERMINER}\s+([a-z][^.,;:!?\n]{{2,40}}?)(?:[.,;]|\s+and\s)", 0.8),
    _Rule("labelled", "before", rf"\b{_DETERMINER}\s+(?:[a-z][\w-]*\s+){{0,3}}([a-z][\w-]*)\s+$", 1.5),
    _Rule(
        "called",
        "before",
        r"\b([a-z][\w-]*),?\s+(?:(?:is|was|are)\s+)?(?:called|named|known as)\s+(?:the\s+)?[\"“']?$",
        2.5,
    ),
    _Rule("settled", "before", rf"\b(?i:({_SETTLED}))\s+of\s+$", 2.0),
    _Rule("compound", "after", rf"^\s+({_TECHNICAL})s?\b", 0.5),
    _Rule("where", "before", r"\b(?:[Ii]n|[Nn]ear|[Oo]utside|[Aa]round|[Tt]owards)\s+$", 0.5, "place"),
    _Rule("route", "before", r"\b(?:[Ff]rom|[Tt]o|[Aa]t|[Tt]hrough|[Aa]bove|[Bb]elow)\s+$", 0.15, "place"),
    _Rule("counted", "before", rf"\b(?i:{'|'.join(sorted(COUNTED | ONE))}|\d+)\s+$", 0.5, "product"),
    _Rule("acts", "after", rf"^(?:\s+(?:{_ADVERBS}))?\s+(?:{'|'.join(sorted(_PERSONAL))})\b", 1.0, "person"),
    _Rule("who", "after", r"^,?\s+who(?:se|m)?\b", 1.5, "person"),
    _Rule("kin", "after", rf"^['\u2019]s\s+(?:\w+\s+)?(?:{_KIN})\b", 1.5, "person"),
    _Rule("addressed", "before", r"\b(?:Dear|Hi|Hello|Hey|Thanks|Thank you|Mr|Mrs|Ms|Miss|Dr)[.,]?\s+$", 2.0, "person"),
)
_LINE_START = r"(?:^|\n)\s*(?:[-*+•]\s*)?[*_`\"“]*$"
_CONDITIONS = {
    "listed": pl.col("before").str.contains(_LINE_START),  # elsewhere a colon defines nothing
    "gapped": pl.col("before").str.contains(r"[^.!?:\s]\s+$"),  # `Ask the owner.` is an order
}


def name_contexts(mentions: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, type, rule, weight, noun, memory_id) for each mention and rule that shows a type, unsorted.

    Args:
        mentions: the mentions table; those with no place in the text show nothing.
        memories: the memories table.
    """
    rows = (
        mentions.drop_nulls("char_start")
        .select("entity_id", "memory_id", "char_start", "char_end")
        .unique()
        .join(memories.select("memory_id", "text"), on="memory_id")
    )
    start = pl.col("char_start")
    rows = rows.select(
        "memory_id",
        node_id="entity_id",
        before=pl.col("text").str.slice(
            pl.max_horizontal(start - _BEFORE_CHARS, 0), pl.min_horizontal(start, _BEFORE_CHARS)
        ),
        after=pl.col("text").str.slice(pl.col("char_end"), _AFTER_CHARS),
    )
    typed, phrased = pl.collect_all(
        [
            pl.concat([_with_type_shown(rows.lazy(), rule) for rule in _RULES if rule.type]),
            pl.concat([_with_phrase(rows.lazy(), rule) for rule in _RULES if not rule.type]),
        ]
    )
    return pl.concat([typed, with_noun_types(phrased, "phrase").select(typed.columns)])


def _with_type_shown(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    found = _meeting_condition(rows, rule).filter(pl.col(rule.side).str.contains(rule.pattern))
    return found.select("node_id", "memory_id", *_of_rule(rule), noun=pl.lit(""), type=pl.lit(rule.type))


def _with_phrase(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    phrase = pl.col(rule.side).str.extract(rule.pattern, 1)
    found = _meeting_condition(rows, rule).select("node_id", "memory_id", *_of_rule(rule), phrase=phrase)
    return found.drop_nulls("phrase")


def _meeting_condition(rows: pl.LazyFrame, rule: _Rule) -> pl.LazyFrame:
    condition = _CONDITIONS.get(rule.name)
    return rows if condition is None else rows.filter(condition)


def _of_rule(rule: _Rule) -> tuple[pl.Expr, pl.Expr]:
    return pl.lit(rule.name).alias("rule"), pl.lit(rule.weight, pl.Float64).alias("weight")


def with_noun_types(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Returns the rows whose phrase has a head noun that shows a type, with the columns `noun` and `type`."""
    phrases = frame[column].unique().drop_nulls().to_list()
    nouns = [head_noun(p) for p in phrases]
    known = pl.DataFrame(
        {column: phrases, "noun": nouns, "type": [noun_type(n) for n in nouns]},
        schema={column: pl.String, "noun": pl.String, "type": pl.String},
    )
    return frame.join(known.filter(pl.col("type") != ""), on=column)


# What a name's own words show of its type: `Grit Lane`, `Flood of 1874`, `Dr. Hallam`, `Calder (river)`, `Mondays`.

_HOLIDAYS = frozenset({"christmas", "easter", "pentecost", "ramadan", "hanukkah", "new year"})
_PARENTHESIS = re.compile(r"\(([^()]+)\)\s*$")
_CUT = re.compile(
    r"(?<!\s)\s++(?:of|for|in|at|on|from|with|without|and|by|to|under|round|about|that|which|who)\s+|[:,;(–—]|\s-\s"  # noqa: RUF001
)
_NUMBERS = re.compile(r"(?<!\s)(?:\s++#?[\dIVX][\d.\-/]*+)++(?P<is_last>$)?")
_SINGLE_WEIGHT, _HEAD_WEIGHT = 0.5, 2.0  # of a name that is one common noun; of the last noun of several words
_FIRST_WEIGHT = 1.0
_NAME_WORDS = r"^\p{Lu}[\p{L}'’-]+ \p{Lu}[\p{L}'’-]+$"  # noqa: RUF001


class NameType(NamedTuple):
    """A type, the word that shows it, and how much that weighs."""

    type: str
    noun: str
    weight: float


def name_type(name: str) -> NameType | None:
    """Returns what a name's own words show, or None.

    The last noun before a preposition or a mark counts, a noun in parentheses at the end more. Nouns for people show
    nothing: `The Salt Clerk` is a novel.
    """
    folded = [w.strip(".,") for w in fold(name).split()]
    if not folded:
        return None
    if all(w in CALENDAR_WORDS or singular(w) in CALENDAR_WORDS for w in folded):
        return NameType("date", "", 5.0)
    if fold(name) in _HOLIDAYS:
        return NameType("date", "", 3.0)
    if folded[0] in HONORIFICS | MALE | FEMALE and len(folded) > 1:
        return NameType("person", folded[0], 3.0)
    if len(folded) == 1 and folded[0] in DEMONYMS:
        return NameType("concept", "", 3.0)
    if (aside := _PARENTHESIS.search(name)) and (kind := noun_type(noun := fold(aside.group(1).split()[-1]))):
        return NameType(kind, noun, 4.0)
    before = _CUT.split(name.strip(), maxsplit=1)[0]
    numbers = next((m for m in _NUMBERS.finditer(before) if m["is_last"] is not None), None)
    words = before[: numbers.start() if numbers else None].split()
    kind = ending_type(words[-1]) if words else ""
    if kind in ("", "person"):
        return None if kind else _first_noun_type(words)
    has_more = len(words) > 1 or len(folded) > 1
    return NameType(kind, singular(words[-1].lower()), _HEAD_WEIGHT if has_more else _SINGLE_WEIGHT)


def _first_noun_type(words: list[str]) -> NameType | None:
    """Returns the type of `Hotel Patience`, `Lake Vann`: the first of two words is a noun for a place or a body."""
    kind = noun_type(words[0].lower()) if len(words) == 2 else ""
    return NameType(kind, words[0].lower(), _FIRST_WEIGHT) if kind in ("place", "organisation") else None


def full_name_shapes(entities: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (entity_id) of names with the shape of a person's full name whose words no text of the scope uses small.

    Args:
        entities: the entities table.
        memories: the memories table.
    """
    two_words = entities.filter(pl.col("name").str.contains(_NAME_WORDS)).select("entity_id", *SCOPE, "name")
    shaped = [is_full_name(fold(n).split()) and name_type(n) is None and not _is_counted(n) for n in two_words["name"]]
    names = two_words.filter(pl.Series(shaped, dtype=pl.Boolean))
    words = names.with_columns(word=pl.col("name").str.to_lowercase().str.split(" ")).explode("word")
    if words.is_empty():
        return names.select("entity_id")
    texts = memories.select(*SCOPE, word=pl.col("text").str.extract_all(r"\b\p{Ll}[\p{L}'’-]+")).explode("word")  # noqa: RUF001
    used = words.join(texts.unique(), on=[*SCOPE, "word"], how="semi")
    return names.join(used, on="entity_id", how="anti").select("entity_id")


def _is_counted(name: str) -> bool:
    return name.split()[0].split("-")[0].lower() in COUNTED


# Evidence of what type an entity is: its name, the words at its mentions, its facts, and documents about it.

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
