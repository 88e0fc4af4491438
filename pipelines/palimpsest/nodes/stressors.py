"""Stressors: what people say, of themselves, that it worries or strains them."""

import datetime as dt
import json
import re
from collections.abc import Iterator

import polars as pl

from palimpsest.core.ids import SCOPE, content_id, scope_parts
from palimpsest.memories.recency import own_clock
from palimpsest.nodes.descriptions import quotable, sentence_at
from palimpsest.nodes.node_edges import MAX_EVIDENCE, edge_rows
from palimpsest.store.graph_decisions import PROPERTIES
from palimpsest.store.tables import Schema
from palimpsest.text.date_mentions import DateMention, find_date_mentions, find_relative_dates, is_reference_day
from palimpsest.text.words import fold

# Edges of projects: to the events that a project or goal is reached by, and to the categories that a goal is about.

BY_NAME = 0.7
"""Weight of an edge that rests on a name in common."""


def milestone_edges(events: pl.DataFrame, projects: pl.DataFrame, goals: pl.DataFrame) -> list[pl.DataFrame]:
    """Returns `part_of` edges of events to projects.

    An event is part of a project that has a memory of it, and of a goal whose name has the name of its subject.

    Args:
        events: as `dated_events` returns them.
        projects: as `find_projects` returns them.
        goals: as `named_in_goals` returns them.
    """
    dated = events.select(*SCOPE, "subject_id", "memory_ids", source_id="node_id")
    stated = dated.explode("memory_ids").rename({"memory_ids": "memory_id"})
    own = stated.join(projects.select("memory_id", target_id="node_id"), on="memory_id")
    own = own.group_by("source_id", "target_id", *SCOPE).agg(
        memory_ids=pl.col("memory_id").unique().sort().head(MAX_EVIDENCE), weight=pl.lit(1.0)
    )
    named = dated.join(goals.select(subject_id="entity_id", target_id="node_id"), on="subject_id")
    named = named.with_columns(weight=pl.lit(BY_NAME))
    return [edge_rows(own, "part_of", "event of project"), edge_rows(named, "part_of", "event of a goal's subject")]


def goal_category_edges(goals: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Returns `related_to` edges of goals to the categories of what their names have; a goal is no member of one.

    Args:
        goals: as `named_in_goals` returns them.
        members: (node_id, entity_id) of categories.
    """
    of_category = members.select("entity_id", target_id="node_id").unique()
    rows = goals.rename({"node_id": "source_id"}).join(of_category, on="entity_id")
    rows = rows.group_by("source_id", "target_id", *SCOPE).agg(
        memory_ids=pl.col("memory_id").unique().sort().head(MAX_EVIDENCE), weight=pl.lit(BY_NAME)
    )
    return edge_rows(rows, "related_to", "goal names a member")


def named_in_goals(projects: pl.DataFrame, entities: pl.DataFrame, mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, memory_id, scope, entity_id) of entities whose name is in the name of a goal, as whole words.

    Args:
        projects: as `find_projects` returns them.
        entities: (entity_id, name).
        mentions: the mentions table; only an entity that the memory of the goal names counts.
    """
    named = (
        projects.filter(source="goal")
        .select("node_id", "memory_id", *SCOPE, goal=words_of("name"))
        .join(mentions.select("memory_id", "entity_id").unique(), on="memory_id")
        .join(entities.select("entity_id", entity=words_of("name")), on="entity_id")
    )
    is_in = pl.col("goal").str.contains(pl.col("entity"), literal=True)
    return named.filter(is_in).drop("goal", "entity").sort("node_id", "memory_id", "entity_id")


def words_of(column: str) -> pl.Expr:
    """Returns the words of a name in small letters, with a space before and after each."""
    words = pl.col(column).str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars()
    return pl.concat_str(pl.lit(" "), words, pl.lit(" "))


ROLE = "stressor"
"""Value of the property `role` of a node that is a stressor."""
_OFTEN = r"(?:\s++(?:really|still|always|often|constantly|also|just|now|so|very|very much|a lot|a bit|quite|too))*"
_BEGINS = r"(?:^|[.!?;:,\n][^\S\n]*+|\b(?:and|but|because)\s++)"
_SUBJECT = r"(?P<cause>[^\W_][^.,;:!?\n]{1,78}?)"
_CAUSE = r"(?P<cause>[^\W_][^.,;:!?\n]{1,78})"
_I = r"\bI(?:\s++am|['\u2019]m|(?:\s++have|['\u2019]ve)\s++been)"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"{_BEGINS}{_SUBJECT}{_OFTEN}\s++(?:(?:is|are|has been|have been)\s++)?(?:"
        r"(?:stress(?:es|ing)?|worr(?:y|ies|ying)|overwhelm(?:s|ing)?)\s++me\b"
        r"|(?:keeps?|keeping)\s++me\s++(?:awake|up\s++at\s++night)\b"
        r"|(?:(?:gets?|getting|grinds?|grinding)\s++me\s++down|(?:wears?|wearing)\s++me\s++(?:down|out))(?=\s*+(?:[.!,;]|$))"
        r"|makes?\s++me(?:\s++(?:so|very|really))?\s++(?:anxious|nervous|stressed)\b)",
        rf"{_I}{_OFTEN}\s++(?:worried|worrying|anxious|nervous|stressed(?:\s++out)?|stressing|overwhelmed|losing\s++sleep)"
        rf"\s++(?:about|over|by|with)\s++{_CAUSE}",
        rf"(?:{_I}{_OFTEN}\s*+|^(?:Still\s++|[^\S\n]*+)|[.!?]\s++(?:Still\s++)?)\bstruggling\s++with\s++{_CAUSE}",
        rf"\bI{_OFTEN}\s++(?:worry{_OFTEN}\s++(?:about|over)|stress{_OFTEN}\s++(?:about|over)"
        rf"|struggle{_OFTEN}\s++with|lose\s++sleep\s++over|dread)\s++{_CAUSE}",
    )
)
_NEEDED = (
    *("stress", "worr", "overwhelm", "anxious", "nervous", "sleep"),
    *("struggl", "dread", "awake", "night", "down", "wear"),
)
"""Each pattern needs one of these: most texts have none, and the patterns take ten times as long."""
_TAIL = re.compile(
    r"(?<!\s)\s++(?:any\s?more|lately|these\s++days|at\s++the\s++moment|right\s++now|again|still|a\s++lot|every\s++\w+|too|now|today"
    r"|this\s++(?:week|month|year)|all\s++the\s++time|really|though|and|but|because|when|since|so|if|as|which|that)\b.*",
    re.IGNORECASE,
)
_DETERMINER = re.compile(
    r"(?:and|but|because|the|my|our|a|an|all|these|those|this|that|having|doing)\s++", re.IGNORECASE
)
_UNSTATED = re.compile(
    r"\b(?:not?|never|n['\u2019]t|\w+n['\u2019]t|cannot|hardly|if|whether|no\s++longer|neither|nobody|nothing|used\s++to|would"
    r"|what|who|which|why|how|does|do|did|will|may|might|can|could|should|I|you)\b",
    re.IGNORECASE,
)
_VAGUE_LIST = """
it this that these those they them he him she her we us one some any all much many more less something anything
everything everyone someone things thing stuff people both myself yourself me
"""
_VAGUE = frozenset(_VAGUE_LIST.split())
_MAX_WORDS = 8
_SCHEMA: Schema = {
    "node_id": pl.String,
    **dict.fromkeys(SCOPE, pl.String),
    **dict.fromkeys(("name", "memory_id", "description"), pl.String),
    "is_entity": pl.Boolean,
}


def stated_stressors(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, start, end) of what strains the speaker of a text; the span is in characters.

    Denials, conditions, questions, and pronouns that stand for another clause are none.
    """
    if not any(map(text.casefold().__contains__, _NEEDED)):
        return
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            name = _TAIL.sub("", " ".join(match["cause"].split())).strip(" \"'")
            while (shorter := _DETERMINER.sub("", name, count=1)) != name and _DETERMINER.match(name):
                name = shorter
            words = fold(name).split()
            is_question = text[match.end("cause") :].lstrip(" \n").startswith("?")
            if not 0 < len(words) <= _MAX_WORDS or words[0] in _VAGUE or is_question or _UNSTATED.search(name):
                continue
            yield name, match.start("cause"), match.end("cause")


def find_stressors(memories: pl.DataFrame, entities: pl.DataFrame, mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, memory_id, description, is_entity), a row for each memory of a stressor, sorted.

    A stressor that has the name of an entity of its memory is that entity.

    Args:
        memories: the memories table; those that `quotable` leaves out state none.
        entities: (entity_id, name).
        mentions: the mentions table.
    """
    named = (
        mentions.select("memory_id", "entity_id").unique().join(entities.select("entity_id", "name"), on="entity_id")
    )
    entity_of = {(m, fold(n)): e for m, e, n in named.sort(pl.all(), descending=True).iter_rows()}
    rows = []
    for *scope, memory_id, text in quotable(memories).select(*SCOPE, "memory_id", "text").iter_rows():
        for name, start, end in stated_stressors(text):
            entity = entity_of.get((memory_id, fold(name)))
            node_id = entity or content_id("node", *scope_parts(*scope), ROLE, fold(name))
            rows.append((node_id, *scope, name, memory_id, sentence_at(text, start, end), entity is not None))
    found = pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort("node_id", "memory_id", "name")
    return found.unique(["node_id", "memory_id"], keep="first", maintain_order=True)


def stressor_nodes(stressors: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, name, description, metadata) of stressors that are no entities, sorted by id."""
    rows = stressors.filter(~pl.col("is_entity")).group_by("node_id", *SCOPE)
    nodes = rows.agg(pl.col("name").min(), pl.col("description").sort_by("memory_id").last()).sort("node_id")
    metadata = json.dumps({"source": ROLE, PROPERTIES: {"role": ROLE}})
    return nodes.with_columns(metadata=pl.lit(metadata))


def stressor_edges(
    stressors: pl.DataFrame,
    entities: pl.DataFrame,
    mentions: pl.DataFrame,
    categories: pl.DataFrame,
    members: pl.DataFrame,
) -> pl.DataFrame:
    """Returns `related_to` edges of stressors to entities that their names have, and to the categories of these.

    A category whose own name, or the singular of it, is in the name of a stressor is related too.

    Args:
        stressors: as `find_stressors` returns them.
        entities: (entity_id, name).
        mentions: the mentions table.
        categories: (node_id, scope, name).
        members: (node_id, entity_id) of categories.
    """
    of = stressors.select(*SCOPE, "memory_id", source_id="node_id", words=words_of("name"))
    in_memory = mentions.select("memory_id", target_id="entity_id").unique()
    named = of.join(in_memory, on="memory_id").join(
        entities.select(target_id="entity_id", part=words_of("name")), on="target_id"
    )
    named = named.filter(pl.col("words").str.contains(pl.col("part"), literal=True))
    by_member = named.rename({"target_id": "entity_id"}).join(
        members.select("entity_id", target_id="node_id").unique(), on="entity_id"
    )
    kinds = categories.select(*SCOPE, target_id="node_id", part=words_of("name"))
    kinds = pl.concat([kinds, kinds.with_columns(pl.col("part").str.replace(r"s $", " "))]).unique()
    by_kind = of.join(kinds, on=[*SCOPE]).filter(pl.col("words").str.contains(pl.col("part"), literal=True))
    columns = ("source_id", "target_id", *SCOPE, "memory_id")
    rows = pl.concat([frame.select(columns) for frame in (named, by_member, by_kind)])
    rows = rows.group_by("source_id", "target_id", *SCOPE).agg(
        memory_ids=pl.col("memory_id").unique().sort().head(MAX_EVIDENCE), weight=pl.lit(BY_NAME)
    )
    return edge_rows(rows, "related_to", "stressor names it")


# Events that facts date: `Brakel Grammar School was founded in 1588` becomes a node, dated, part of its subject.

_DATED = (
    r"\b(?:1\d{3}|20\d\d)\b|(?i)\b(?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december)\b|\b\d{4}-\d\d-\d\d\b"
)
_STATES = frozenset({"located_in", "dated"})
"""Predicates that state no happening: `the Trust is a customer since 2014`."""
_MAX_NAME_CHARS = 80
_EVENT_SCHEMA: Schema = {
    "node_id": pl.String,
    **dict.fromkeys(SCOPE, pl.String),
    **dict.fromkeys(("name", "subject_id", "date", "description"), pl.String),
    "memory_ids": pl.List(pl.String),
    "metadata": pl.String,
}


def dated_events(
    facts: pl.DataFrame, clauses: pl.DataFrame, names: pl.DataFrame, memories: pl.DataFrame
) -> pl.DataFrame:
    """Returns (node_id, scope, name, subject_id, date, description, memory_ids, metadata), sorted by id.

    `name` is the clause that states it, after the subject where the clause has a pronoun. `date` is the first day as
    ISO 8601; a date without a year counts from the day the memory was observed.

    Args:
        facts: the facts table.
        clauses: the clause_facts table.
        names: (node_id, name) of entities.
        memories: the memories table; those that `quotable` leaves out make no event.
    """
    shown = quotable(memories).select("memory_id", own_clock(), "text")
    fact = (*SCOPE, "subject_id", "predicate", "value")
    dated = facts.filter(
        pl.col("value").str.contains(_DATED)
        & ~pl.col("predicate").is_in(sorted(_STATES))
        & ~pl.col("is_negated").fill_null(False)
    )
    rows = (
        dated.select(*fact, "fact_id", "confidence", "memory_ids")
        .join(clauses.select("memory_id", *fact, "char_start", "char_end"), on=fact)
        .join(shown, on="memory_id")
        .join(names.rename({"node_id": "subject_id"}), on="subject_id")
        .sort("fact_id", "memory_id", "char_start")
        .unique("fact_id", keep="first", maintain_order=True)
    )
    columns = (*SCOPE, "fact_id", "subject_id", "name", "value", "observed_at", "text", "char_start", "char_end")
    events = []
    for (*scope, fact_id, subject, name, value, at, text, start, end), memory_ids, confidence in zip(
        rows.select(columns).iter_rows(), rows["memory_ids"], rows["confidence"], strict=True
    ):
        day = first_day(value, at)
        if day is None:
            continue
        node_id = content_id("node", *scope_parts(*scope), "event", fact_id)
        metadata = json.dumps({"date": day.isoformat(), "fact_id": fact_id, "confidence": confidence})
        label = event_name(name, text[start:end])
        described = sentence_at(text, start, end)
        events.append((node_id, *scope, label, subject, day.isoformat(), described, memory_ids, metadata))
    return pl.DataFrame(events, schema=_EVENT_SCHEMA, orient="row").unique("node_id", keep="first").sort("node_id")


def event_name(subject: str, clause: str) -> str:
    """Returns a short name for what a clause states of a subject, which it names unless the clause does."""
    words = " ".join(clause.rsplit("\n\n", 1)[-1].split()).strip(" .,;:!")  # a heading is no part of a clause
    name = words if any(w in words for w in subject.split() if len(w) > 2) else f"{subject}: {words}"
    return name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1].rsplit(" ", 1)[0] + "…"


def first_day(text: str, observed_at: dt.datetime | None) -> dt.date | None:
    """Returns the first day of the first date that a text states, or None; without a year, counted from a time."""
    return next((d.first or d.last for d in _dates(text, observed_at) if d.first or d.last), None)


def _dates(text: str, observed_at: dt.datetime | None) -> list[DateMention]:
    if (found := find_date_mentions(text)) or observed_at is None or not is_reference_day(observed_at.date()):
        return found
    return find_relative_dates(text, observed_at.date())


def dated_titles(typed: pl.DataFrame, titled: pl.DataFrame, mentions: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, scope, series, date, memory_ids) of events whose name has a date: `Operations meeting, 1 June`.

    `series` is the name before the date in small letters: events of one series follow one another. A date without a
    year counts from the day of the document.

    Args:
        typed: (entity_id, scope, name, type) of entities as nodes.
        titled: as `titled_entities` returns them.
        mentions: the mentions table; the first memory that names the event shows it.
    """
    times = titled.group_by("entity_id").agg(pl.col("source_time").min())
    events = typed.filter(type="event").join(times, on="entity_id", how="left").sort("entity_id")
    rows = []
    for node_id, name, at, *scope in events.select("entity_id", "name", "source_time", *SCOPE).iter_rows():
        found = _dates(name, at)
        if found and found[0].first is not None and (series := name[: found[0].start].strip(" ,:-").lower()):
            rows.append((node_id, *scope, series, found[0].first.isoformat()))
    schema = dict.fromkeys(("node_id", *SCOPE, "series", "date"), pl.String)
    shown = mentions.group_by(node_id="entity_id").agg(memory_ids=pl.col("memory_id").sort().head(1))
    return pl.DataFrame(rows, schema=schema, orient="row").join(shown, on="node_id", how="left")
