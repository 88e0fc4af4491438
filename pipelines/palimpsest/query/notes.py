"""The notes of sessions: their values, and how they are read from a build."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palimpsest.core.errors import ArgumentError
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.query.request.types import Memory, Scope, cited_line, one_line
from palimpsest.query.scope.served_scope import ServedScope

SECTIONS = {
    "fact": "facts",
    "preference": "preferences",
    "decision": "decisions",
    "solution": "solutions",
    "inference": "inferences",
    "gap": "knowledge_gaps",
    "emotion": "emotional_context",
    "topic": "potential_topics",
    "connection": "connections",
    "summary": "summaries",
}
"""Names of the lists of a note, by kind of item, in the order in which they are shown."""


@dataclass(frozen=True)
class NoteLine(JsonRecord):
    """An item of a note that may be shown.

    Attributes:
        kind: one of `SECTIONS`.
        statement: a sentence that can be read alone.
        quote: the words of the session that state it.
        evidence: ids of the memories it rests on, in the order of the session.
        confidence: 0 to 1.
        is_saved: a person requests that it is remembered.
        alternatives: what else the evidence could mean.
        invalidation_conditions: what would make it wrong.
        related_note_ids: notes that it is connected with.
        extractor: `rules` or `lm`.
    """

    json_decimals = 6

    kind: str
    statement: str
    quote: str
    evidence: tuple[str, ...]
    confidence: float
    is_saved: bool
    alternatives: tuple[str, ...]
    invalidation_conditions: tuple[str, ...]
    related_note_ids: tuple[str, ...]
    extractor: str

    @property
    def cited(self) -> str:
        """The statement with its citations."""
        return cited_line(one_line(self.statement), self.evidence, None)

    def to_json(self) -> JsonObject:
        """Returns the item as JSON values; lists that are empty are left out but for the evidence."""
        return {n: v for n, v in super().to_json().items() if n != "kind" and (n == "evidence" or v != [])}


@dataclass(frozen=True)
class Note(JsonRecord):
    """What one session says that is worth keeping.

    Attributes:
        note_id: the same for each version of the session.
        session_id: empty for a conversation without one.
        scope: of the session.
        time: when the last of the evidence was observed.
        items: in the order of the session.
    """

    json_decimals = 6

    note_id: str
    session_id: str
    scope: Scope
    time: dt.datetime | None
    items: tuple[NoteLine, ...]

    @property
    def confidence_avg(self) -> float:
        """The mean confidence of the items."""
        return sum(item.confidence for item in self.items) / len(self.items) if self.items else 0.0

    def of_kind(self, kind: str) -> tuple[NoteLine, ...]:
        """Returns the items of a kind."""
        return tuple(item for item in self.items if item.kind == kind)

    def to_json(self) -> JsonObject:
        """Returns the note as JSON values, a list for each kind of item."""
        fields = super().to_json() | {"confidence_avg": round(self.confidence_avg, 6)}
        del fields["items"]
        return fields | {name: [i.to_json() for i in self.of_kind(kind)] for kind, name in SECTIONS.items()}


# Reads the notes of a build for some scopes. An item is shown where all memories that it rests on may be shown.

MAX_NOTES = 1_000
"""Notes of an answer."""

_ITEMS = """
SELECT n.item_id, n.note_id, coalesce(n.session_id, '') AS session_id, n.kind, n.statement, n.quote, n.char_start,
    n.confidence, n.is_saved, n.alternatives, n.invalidation_conditions, n.related_note_ids, n.extractor,
    list(DISTINCT m.memory_id) AS evidence
FROM (SELECT *, unnest(chunk_ids) AS chunk_id FROM read_parquet($notes)
      WHERE collection = $collection AND user_id = $user_id AND project_id = $project_id
        AND ($session IS NULL OR coalesce(session_id, '') = $session)) n
JOIN (SELECT memory_id, unnest(chunk_ids) AS chunk_id FROM read_parquet($memories)
      WHERE collection = $collection AND user_id = $user_id AND project_id = $project_id
        AND unit <> $formed) m USING (chunk_id)
GROUP BY ALL
ORDER BY n.note_id, n.char_start, n.item_id
"""


def read_notes(build: Path, scopes: Sequence[ServedScope], session_id: str | None, limit: int) -> list[Note]:
    """Returns the notes of the sessions of some scopes, the newest first, ties to the lower id.

    Args:
        build: folder of the build.
        scopes: their filters say what is shown.
        session_id: only of this session; None for all.
        limit: how many, 1 to 1,000.

    Raises:
        ArgumentError: `limit` is out of range.
    """
    if not 1 <= limit <= MAX_NOTES:
        raise ArgumentError("limit", f"must be 1 to {MAX_NOTES:,}", str(limit))
    notes = [note for served in scopes for note in _scope_notes(build, served, session_id)]
    return sorted(notes, key=lambda n: (-n.time.timestamp() if n.time else 0.0, n.note_id))[:limit]


def _scope_notes(build: Path, served: ServedScope, session_id: str | None) -> list[Note]:
    rows = _read_items(build, served, session_id)
    named = sorted({i for row in rows for i in row["evidence"]})
    passing = served.passing(named) if named else set()
    memories = served.memories(sorted(passing))
    items: dict[tuple[str, str], list[NoteLine]] = {}
    for row in rows:
        if all(i in memories for i in row["evidence"]):
            items.setdefault((row["note_id"], row["session_id"]), []).append(_line(row, memories))
    return [
        Note(note_id, session, served.scope, _newest(lines, memories), tuple(lines))
        for (note_id, session), lines in items.items()
    ]


def _read_items(build: Path, served: ServedScope, session_id: str | None) -> list[dict[str, Any]]:
    import duckdb

    from palimpsest.core.ids import REFLECTION

    folder = build / served.scope.collection
    tables = {name: str(folder / f"{name}.parquet") for name in ("notes", "memories")}
    if not all(Path(path).is_file() for path in tables.values()):
        return []  # a build made before there were notes
    values = tables | served.scope._asdict() | {"session": session_id, "formed": REFLECTION}
    with duckdb.connect() as db:
        found = db.execute(_ITEMS, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _line(row: Mapping[str, Any], memories: Mapping[str, Memory]) -> NoteLine:
    def place(memory_id: str) -> tuple[int, int, str]:
        memory = memories[memory_id]
        return memory.ordinal or 0, memory.span[0] if memory.span else 0, memory_id

    return NoteLine(
        kind=row["kind"],
        statement=row["statement"],
        quote=row["quote"],
        evidence=tuple(sorted(row["evidence"], key=place)),
        confidence=row["confidence"],
        is_saved=row["is_saved"],
        alternatives=tuple(row["alternatives"] or ()),
        invalidation_conditions=tuple(row["invalidation_conditions"] or ()),
        related_note_ids=tuple(row["related_note_ids"] or ()),
        extractor=row["extractor"],
    )


def _newest(lines: Sequence[NoteLine], memories: Mapping[str, Memory]) -> dt.datetime | None:
    return max((t for line in lines for i in line.evidence if (t := memories[i].observed_at)), default=None)
