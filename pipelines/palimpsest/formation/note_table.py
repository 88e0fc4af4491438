"""The notes table: the items of each session, with the chunks that are their evidence.

An item whose words are not in its session, or in no chunk of it, is dropped and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from palimpsest.core.ids import SCOPE, content_id, scope_parts
from palimpsest.formation.rules import form_items
from palimpsest.formation.session import NoteItem, Session, read_sessions
from palimpsest.store.tables import conform, empty
from palimpsest.text.extract_summary import summary_sentences

FormItems = Callable[[Sequence[Session]], Iterator[list[NoteItem]]]


@dataclass(frozen=True)
class NoteInputs:
    """The tables that notes are formed from."""

    documents: pl.DataFrame
    document_texts: pl.DataFrame
    chunks: pl.DataFrame


@dataclass
class Notes:
    """The notes table, and how many items were dropped, by reason."""

    table: pl.DataFrame
    dropped: Counter[str] = field(default_factory=Counter)
    sessions_read: int = 0


def note_table(now: NoteInputs, form_items: FormItems, previous: tuple[pl.DataFrame, pl.DataFrame] | None) -> Notes:
    """Returns one row for each item, sorted by session and place.

    Args:
        now: the build in the making.
        form_items: forms the items of sessions.
        previous: (chunks, notes) of an earlier build made by the same code; items of documents whose chunks are the
            same are carried over.
    """
    carried, todo = empty("notes"), now.documents.select("document_id")
    if previous is not None:
        same = _chunks_by_document(now.chunks).join(
            _chunks_by_document(previous[0]), on=["document_id", "chunk_ids"], how="inner"
        )
        carried = previous[1].join(same, on="document_id", how="semi")
        todo = todo.join(same, on="document_id", how="anti")
    places = _places(now.chunks)
    rows = _document_rows(now, todo, places)
    notes = Notes(carried)
    sessions = list(read_sessions(rows))
    notes.sessions_read = len(sessions)
    about = {r["document_id"]: r for r in rows}
    made = []
    for session, items in zip(sessions, form_items(sessions), strict=True):
        document = about[session.document_id]
        for item in items:
            row = _row(document, item, session, places.get(session.document_id, []), notes.dropped)
            made += [row] if row else []
    fresh = conform("notes", pl.DataFrame(made, schema=empty("notes").schema, orient="row"))
    everything = pl.concat([carried, fresh]).unique("item_id", keep="first", maintain_order=True)
    notes.table = everything.sort("document_id", "char_start", "item_id")
    return notes


def sessions_of(now: NoteInputs) -> list[Session]:
    """Returns the sessions among all documents, by document_id."""
    return list(read_sessions(_document_rows(now, now.documents, _places(now.chunks))))


def _document_rows(now: NoteInputs, todo: pl.DataFrame, places: Mapping[str, list["Place"]]) -> list[dict[str, Any]]:
    """Returns the documents of `todo` with their texts, notes, scopes and chunks."""
    rows = (
        now.documents.join(todo, on="document_id", how="semi")
        .select("document_id", *SCOPE, "session_id", "uri", "is_current")
        .join(now.document_texts, on="document_id", how="inner")
        .sort("document_id")
        .to_dicts()
    )
    for row in rows:
        row["scope"] = scope_parts(*(row[c] for c in SCOPE))
        row["note_id"] = content_id("note", *row["scope"], row["uri"], row["session_id"])
        row["chunk_ids"] = [chunk_id for *_, chunk_id in places.get(row["document_id"], [])]
    return rows


def _chunks_by_document(chunks: pl.DataFrame) -> pl.DataFrame:
    grouped = chunks.sort("chunk_id").group_by("document_id").agg(pl.col("chunk_id").str.join(" ").alias("chunk_ids"))
    return grouped


Place = tuple[int, int, str]


def _places(chunks: pl.DataFrame) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    columns = ("document_id", "char_start", "char_end", "chunk_id")
    for document_id, *place in chunks.select(columns).sort(columns).iter_rows():
        found.setdefault(document_id, []).append((place[0], place[1], place[2]))
    return found


def _row(
    document: dict[str, Any], item: NoteItem, session: Session, places: list[Place], dropped: Counter[str]
) -> dict[str, Any] | None:
    """Returns the row of an item; None where its evidence does not hold.

    An item on a chunk of a newer version of the document is that version's, and not counted as dropped.
    """
    spans = [item.span, *item.evidence]
    turns = [(t.start, t.start + len(t.text)) for t in session.turns]
    if not all(any(a <= start < end <= b for a, b in turns) for start, end in spans):
        dropped["evidence is not in a turn of the session"] += 1
        return None
    chunk_ids: list[str] = []
    for start, end in spans:
        covering = [c for a, b, c in places if a < end and start < b]
        if not covering:
            return None
        chunk_ids += covering
    start, end = item.span
    scope = [document[c] for c in SCOPE]
    return {
        "item_id": content_id("note item", item.kind, item.statement, *(ids := list(dict.fromkeys(chunk_ids)))),
        "note_id": document["note_id"],
        **dict(zip(SCOPE, scope, strict=True)),
        "session_id": document["session_id"],
        "document_id": document["document_id"],
        "kind": item.kind,
        "statement": item.statement,
        "quote": document["text"][start:end],
        "char_start": start,
        "char_end": end,
        "chunk_ids": ids,
        "confidence": item.confidence,
        "is_saved": item.is_saved,
        "alternatives": list(item.alternatives),
        "invalidation_conditions": list(item.invalidation_conditions),
        "related_note_ids": list(item.related_note_ids),
        "extractor": item.extractor,
    }


# The summary of a session as an item of its note: the sentences of people that sum it up, in their order.
#
# It is a function of the session alone, names every turn that it quotes, and becomes a memory of type summary where
# `promote` names it.

SENTENCES = 5
_MIN_SENTENCES = 10
"""A shorter session is read as fast as a summary of it."""
_CONFIDENCE = 0.7


def form_with_summaries(sessions: Sequence[Session]) -> Iterator[list[NoteItem]]:
    """Yields the items that rules form of each session, and its summary.

    Raises:
        ComponentFailed: the file of the model that judges sentences is missing or damaged.
    """
    for session, items in zip(sessions, form_items(sessions), strict=True):
        summary = session_summary(session)
        yield [*items, *([summary] if summary is not None else [])]


def session_summary(session: Session) -> NoteItem | None:
    """Returns the summary of a session; None where people say fewer than ten sentences."""
    said = [s for turn in session.turns if turn.is_person for s in turn.sentences]
    if len(said) < _MIN_SENTENCES:
        return None
    chosen = [said[i] for i in summary_sentences([s.text for s in said], SENTENCES)]
    if not chosen:
        return None
    statement = " ".join(f"{s.turn.name}: {s.text}" for s in chosen)
    return NoteItem("summary", statement, chosen[0].span, _CONFIDENCE, tuple(s.span for s in chosen[1:]))
