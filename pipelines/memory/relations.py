"""Relations between a newer memory and an older one: the protocol of labelers, and the offline one that ships.

The offline labeler reads sentences by rule. It says UPDATE only where it can point at the evidence: the same subject, a
slot that holds one value at a time or words that announce the change, another value, a later date. Where it cannot, it
says NONE and notes that it abstained: a fact wrongly retired is worse than a stale one beside its successor.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Protocol

import polars as pl

from pipelines.memory.facts import read_sentences
from pipelines.memory.rules import LABELS, Reading, judge
from pipelines.memory.words import content_words
from pipelines.progress import tracked
from pipelines.store.ids import content_id
from pipelines.store.tables import conform, empty


@dataclass(frozen=True)
class LabelPair:
    """Two memories to compare. Context is `Title > Heading`; times are when they were observed, null where unknown.

    `by_place` says that only their places in one document tell which is newer.
    """

    newer_id: str
    older_id: str
    newer: str
    older: str
    newer_at: datetime | None = None
    older_at: datetime | None = None
    newer_context: str = ""
    older_context: str = ""
    newer_speaker: str | None = None
    older_speaker: str | None = None
    by_place: bool = False


@dataclass(frozen=True)
class Labelled:
    """A label with its confidence in [0, 1] and its evidence (rule, char spans in both texts, values); what it cost."""

    label: str
    confidence: float
    evidence: dict[str, object] = field(default_factory=dict)
    lm_calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class RelationLabeler(Protocol):
    """What labels pairs. A label is a pure function of the pair and the program (decision 15)."""

    @property
    def name(self) -> str:
        """Shown in relations: offline, dspy, cascade."""

    @property
    def program_hash(self) -> str:
        """Changes whenever the same pair could get another label."""

    def label(self, pairs: list[LabelPair]) -> list[Labelled]:
        """Returns one answer for each pair, in order."""


class OfflineLabeler:
    """Rules over sentences; no model, no network, no state."""

    name = "offline"
    program_hash = content_id("offline rules", 2)

    def label(self, pairs: list[LabelPair]) -> list[Labelled]:
        """Returns one answer for each pair, in order; labels with a confidence under 0.5 become NONE."""
        out = []
        for pair in tracked(pairs, "label", "pairs"):
            order = None
            if pair.newer_at is not None and pair.older_at is not None:
                order = (pair.newer_at > pair.older_at) - (pair.newer_at < pair.older_at)
            newer = _read(pair.newer, pair.newer_speaker, pair.newer_context)
            older = _read(pair.older, pair.older_speaker, pair.older_context)
            out.append(Labelled(*judge(newer, older, order, pair.by_place)))
        return out


@lru_cache(maxsize=65_536)
def _read(text: str, speaker: str | None, context: str) -> Reading:
    return Reading(text, read_sentences(text, speaker), content_words(text), content_words(context), context)


def label_pairs(
    pairs: pl.DataFrame, memories: pl.DataFrame, labeler: RelationLabeler, previous: pl.DataFrame | None = None
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Returns (relations, usage): one row for each candidate pair, NONE included, sorted by relation_id.

    A pair is asked once: a relation of `previous` made by the same program from the same inputs (`input_hash`: text,
    date, speaker, title and heading of both) is carried over. `decided_at` is null here: labels have no clock.

    Args:
        pairs: candidate_pairs.
        memories: the memories table.
        labeler: what to ask.
        previous: relations of an earlier build.
    """
    hashes = {r[0]: content_id(*r[1:]) for r in memories.select("memory_id", *_ASKED).iter_rows()}
    ids = pairs.select("newer_id", "older_id").rows()
    wanted = pairs.select("collection", "user_id", "newer_id", "older_id").with_columns(
        pl.Series("relation_id", [content_id(n, o, labeler.program_hash) for n, o in ids], pl.String),
        pl.Series("input_hash", [hashes[n] + hashes[o] for n, o in ids], pl.String),
        labeler=pl.lit(labeler.name), program_hash=pl.lit(labeler.program_hash),
    )  # fmt: skip
    known = empty("relations") if previous is None else previous
    answers = known.select("relation_id", "input_hash", "label", "confidence", "evidence", "decided_at")
    carried = wanted.join(answers, on=["relation_id", "input_hash"], how="inner")
    todo = wanted.join(carried, on="relation_id", how="anti").sort("relation_id")
    labelled = labeler.label(_label_pairs(todo, memories))
    fresh = todo.with_columns(
        pl.Series("label", [a.label for a in labelled], pl.String),
        pl.Series("confidence", [round(a.confidence, 3) for a in labelled], pl.Float64),
        pl.Series("evidence", [_json(a.evidence) for a in labelled], pl.String),
    )
    relations = pl.concat([conform("relations", carried), conform("relations", fresh)]).sort("relation_id")
    usage = {
        "asked": float(todo.height), "carried": float(carried.height),
        "lm_calls": float(sum(a.lm_calls for a in labelled)), "tokens": float(sum(a.tokens for a in labelled)),
        "cost": float(sum(a.cost for a in labelled)),
    }  # fmt: skip
    counts = dict(relations["label"].value_counts().iter_rows())
    return relations, usage | {label: float(counts.get(label, 0)) for label in LABELS}


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


_ASKED = ("text", "observed_at", "speaker", "title", "heading")


def _label_pairs(todo: pl.DataFrame, memories: pl.DataFrame) -> list[LabelPair]:
    ids = pl.concat([todo["newer_id"], todo["older_id"]]).unique()
    rows: dict[str, Sequence] = {
        r[0]: r
        for r in memories.filter(pl.col("memory_id").is_in(ids.to_list())).select("memory_id", *_ASKED).iter_rows()
    }
    out = []
    for newer_id, older_id in todo.select("newer_id", "older_id").iter_rows():
        _, newer, newer_at, newer_speaker, newer_title, newer_heading = rows[newer_id]
        _, older, older_at, older_speaker, older_title, older_heading = rows[older_id]
        out.append(
            LabelPair(
                newer_id, older_id, newer, older, newer_at, older_at, _context(newer_title, newer_heading),
                _context(older_title, older_heading), newer_speaker, older_speaker, newer_at == older_at,
            )
        )  # fmt: skip
    return out


def _context(title: str | None, heading: str | None) -> str:
    return " > ".join(p for p in (title, heading) if p)
