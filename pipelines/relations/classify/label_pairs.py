"""Candidate pairs in, relations out: who is asked what, what is carried over, what people decided, what it cost."""

import datetime as dt
import json
from collections.abc import Sequence

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE
from palimpsest.relations.classify.label_types import LABELS, UNPAID, LabelPair, RelationLabeler
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import conform, empty

_ASKED = ("text", "observed_at", "speaker", "title", "heading")
_ANSWER = ("label", "confidence", "labeler", "evidence", "decided_at")


def relation_id(newer_id: str, older_id: str) -> str:
    """Returns the name of the relation of a pair: the same whoever labels it, so that what people say of it stays."""
    return content_id("relation", newer_id, older_id)


def label_pairs(
    pairs: pl.DataFrame,
    memories: pl.DataFrame,
    labeler: RelationLabeler,
    previous: pl.DataFrame | None = None,
    decisions: Decisions | None = None,
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Returns (relations, usage): one row for each candidate pair, NONE included, sorted by relation_id.

    A pair is asked once: a relation of `previous` made by the same program from the same inputs (`input_hash`: text,
    date, speaker, title and heading of both) is carried over. What a person decided of a pair is its label, and the
    pair stays although it may be no candidate any more. `decided_at` is when a person did: labels have no clock.

    Args:
        pairs: candidate_pairs.
        memories: the memories table.
        labeler: what to ask.
        previous: relations of an earlier build.
        decisions: what people said.
    """
    hashes = {r[0]: content_id(*r[1:]) for r in memories.select("memory_id", *_ASKED).iter_rows()}
    asked = pairs.select(*SCOPE, "newer_id", "older_id")
    said = _said(decisions or Decisions(), memories)
    scope = [*SCOPE, "newer_id", "older_id"]
    asked = pl.concat([asked, said.filter(pl.col("label") != "NONE").select(scope)]).unique(scope)
    ids = asked.select("newer_id", "older_id").rows()
    wanted = asked.with_columns(
        pl.Series("relation_id", [relation_id(n, o) for n, o in ids], pl.String),
        pl.Series("input_hash", [hashes[n] + hashes[o] for n, o in ids], pl.String),
        program_hash=pl.lit(labeler.program_hash),
    )
    decided = said.select("newer_id", "older_id", "label", "decided_at")
    by_person = conform(
        "relations",
        wanted.join(decided, on=["newer_id", "older_id"]).with_columns(
            confidence=pl.lit(1.0),
            labeler=pl.lit("person"),
            program_hash=pl.lit("person"),
            evidence=pl.lit(_json({"rule": "person"})),
        ),
    )
    open_pairs = wanted.join(by_person, on="relation_id", how="anti")
    known = empty("relations") if previous is None else previous
    answers = known.filter(~pl.col("evidence").str.contains(f'"rule": "{UNPAID}"', literal=True))
    answers = answers.select("relation_id", "input_hash", "program_hash", *_ANSWER)
    carried = open_pairs.join(answers, on=["relation_id", "input_hash", "program_hash"], how="inner")
    todo = open_pairs.join(carried, on="relation_id", how="anti").sort("relation_id")
    labelled = labeler.label(_label_pairs(todo, memories)) if todo.height else []
    fresh = todo.with_columns(
        pl.Series("label", [a.label for a in labelled], pl.String),
        pl.Series("confidence", [round(a.confidence, 3) for a in labelled], pl.Float64),
        pl.Series("labeler", [a.labeler or labeler.name for a in labelled], pl.String),
        pl.Series("evidence", [_json(a.evidence) for a in labelled], pl.String),
    )
    parts = [by_person, conform("relations", carried), conform("relations", fresh)]
    relations = pl.concat(parts).sort("relation_id")
    usage = {
        "asked": float(todo.height),
        "carried": float(carried.height),
        "decided_by_people": float(by_person.height),
        "lm_calls": float(sum(a.lm_calls for a in labelled)),
        "tokens": float(sum(a.tokens for a in labelled)),
        "cost": float(sum(a.cost for a in labelled)),
        "abstained": float(sum(not a.decided for a in labelled)),
        "unpaid": float(sum(a.evidence.get("rule") == UNPAID for a in labelled)),
        "lm_failures": float(sum("failed" in a.evidence for a in labelled)),
    }
    counts = dict(relations["label"].value_counts().iter_rows())
    return relations, usage | {label: float(counts.get(label, 0)) for label in LABELS}


def _said(decisions: Decisions, memories: pl.DataFrame) -> pl.DataFrame:
    """What people decided of pairs whose memories are both here, and in one scope."""
    frame = pl.DataFrame(
        [(d.newer_id, d.older_id, d.label, _moment(d.at)) for d in decisions.relations],
        schema={
            "newer_id": pl.String,
            "older_id": pl.String,
            "label": pl.String,
            "decided_at": pl.Datetime("us", "UTC"),
        },
        orient="row",
    )
    place = memories.select("memory_id", *SCOPE)
    return frame.join(place, left_on="newer_id", right_on="memory_id", how="inner").join(
        place.rename({"memory_id": "older_id"}), on=["older_id", *SCOPE], how="inner"
    )


def _moment(written: str) -> dt.datetime | None:
    """Returns the UTC moment of a line of the decisions file, None where it tells none."""
    try:
        when = dt.datetime.fromisoformat(written)
    except ValueError:
        return None
    return when.replace(tzinfo=dt.UTC) if when.tzinfo is None else when.astimezone(dt.UTC)


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _label_pairs(todo: pl.DataFrame, memories: pl.DataFrame) -> list[LabelPair]:
    ids = pl.concat([todo["newer_id"], todo["older_id"]]).unique()
    rows: dict[str, Sequence] = {
        r[0]: r
        for r in memories.filter(pl.col("memory_id").is_in(ids.to_list())).select("memory_id", *_ASKED).iter_rows()
    }
    return [pair_from_memories(rows[n], rows[o]) for n, o in todo.select("newer_id", "older_id").iter_rows()]


def pair_from_memories(newer: Sequence, older: Sequence) -> LabelPair:
    """Returns the pair of two memories, each as (memory_id, text, observed_at, speaker, title, heading)."""
    newer_id, newer_text, newer_at, newer_speaker, newer_title, newer_heading = newer
    older_id, older_text, older_at, older_speaker, older_title, older_heading = older
    return LabelPair(
        newer_id,
        older_id,
        newer_text,
        older_text,
        newer_at,
        older_at,
        _context(newer_title, newer_heading),
        _context(older_title, older_heading),
        newer_speaker,
        older_speaker,
        newer_at == older_at,
    )


def _context(title: str | None, heading: str | None) -> str:
    return " > ".join(p for p in (title, heading) if p)
