"""Events that facts date: `Brakel Grammar School was founded in 1588` becomes a node, dated, part of its subject."""

import datetime as dt
import json

import polars as pl

from palimpsest.core.ids import SCOPE, content_id, scope_parts
from palimpsest.memories.memory_times import own_clock
from palimpsest.nodes.descriptions import quotable, sentence_at
from palimpsest.store.tables import Schema
from palimpsest.text.date_mentions import DateMention, find_date_mentions, find_relative_dates, is_reference_day

_DATED = (
    r"\b(?:1\d{3}|20\d\d)\b|(?i)\b(?:january|february|march|april|may|june|july|august|september|october|november|"
    r"december)\b|\b\d{4}-\d\d-\d\d\b"
)
_STATES = frozenset({"be", "have", "located_in"})
"""Predicates that state no happening: `the Trust is a customer since 2014`."""
_MAX_NAME_CHARS = 80
_SCHEMA: Schema = {
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
    return pl.DataFrame(events, schema=_SCHEMA, orient="row").unique("node_id", keep="first").sort("node_id")


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
