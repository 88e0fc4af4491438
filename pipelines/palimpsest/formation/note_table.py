"""The notes table: the items of each session, with the chunks that are their evidence.

An item whose words are not in its session, or in no chunk of it, is dropped and counted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from palimpsest.core.ids import BY_MODEL, REFLECTION, SCOPE, content_id, scope_parts
from palimpsest.formation.rules import form_items
from palimpsest.formation.session import LM, NoteItem, Session, read_sessions
from palimpsest.memories.form import text_ends
from palimpsest.memories.formed import stated_memories
from palimpsest.memories.recency import own_clock
from palimpsest.store.tables import SCHEMAS, conform, empty
from palimpsest.text.terms import summary_sentences
from palimpsest.text.tokenizer import count_tokens_batch

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
        **{name: getattr(item, name) for name in SCHEMAS["notes"] if name in NoteItem.__dataclass_fields__},
        "quote": document["text"][start:end],
        "char_start": start,
        "char_end": end,
        "chunk_ids": ids,
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


# Items of notes as memories: each takes place, time, privacy and trust from the memories it rests on.

TYPES = {
    "preference": "preference",
    "inference": "inference",
    "gap": "inference",
    "emotion": "inference",
    "summary": "summary",
}
"""Types of memories by kind of item; the rest is semantic."""
IMPORTANCE = {"preference": 0.7, "decision": 0.7, "fact": 0.6, "solution": 0.6}
_SAVED, _OTHER = 0.9, 0.4


def promoted_memories(notes: pl.DataFrame, memories: pl.DataFrame, kinds: Collection[str]) -> pl.DataFrame:
    """Returns a memory for each item of the kinds, sorted by memory_id.

    It is observed when the last of its evidence is, and retained as long as all of it is. It ends with the last of its
    evidence, where all of it ends, else when its own words say so. Its span is the quote's.

    Args:
        notes: the notes table.
        memories: the memories table, with or without formed ones.
        kinds: kinds of items that become memories.
    """
    items = notes.filter(pl.col("kind").is_in(sorted(kinds)))
    evidence = stated_memories(memories).explode("chunk_ids").rename({"chunk_ids": "chunk_id"})
    rows = (
        items.select("item_id", *SCOPE, chunk_id="chunk_ids")
        .explode("chunk_id")
        .join(evidence, on=["chunk_id", *SCOPE], how="inner")
        .sort("item_id", "observed_at", "ordinal", "memory_id")
        .group_by("item_id", maintain_order=True)
        .agg(
            pl.col("ordinal", "title", "heading", "page", "speaker", "observed_at", "utc_offset", "provenance").last(),
            pl.col("valid_from", "created_at", "updated_at").max(),
            pl.when(pl.col("valid_until").is_not_null().all()).then(pl.col("valid_until").max()),
            pl.col("retention_until").min(),
            pl.col("trust").min(),
            pl.col("pii").any(),
            pl.col("user_visible").all(),
            tags=pl.col("tags").explode(empty_as_null=True).drop_nulls().unique().sort(),
            stated_confidence=pl.col("confidence").min(),
            stated_importance=pl.when(pl.col("importance_source") == "turn").then("importance").max(),
        )
    )
    default = pl.col("item_kind").replace_strict(IMPORTANCE, default=_OTHER, return_dtype=pl.Float64)
    joined = rows.join(items.rename({"kind": "item_kind"}), on="item_id", how="inner")
    date = own_clock().dt.strftime("%-d %B %Y %Y-%m-%d").fill_null("")
    formed = joined.select(
        *SCOPE,
        *("session_id", "document_id", "ordinal", "title", "heading", "page", "speaker", "char_start", "char_end"),
        *("observed_at", "utc_offset", "valid_from", "valid_until", "tags", "provenance", "retention_until", "pii"),
        *("created_at", "updated_at"),
        *("user_visible", "trust", "chunk_ids"),
        pl.Series("memory_id", [content_id("memory", REFLECTION, i) for i in joined["item_id"]], pl.String),
        pl.lit(REFLECTION).alias("unit"),
        pl.col("item_kind").alias("kind"),
        pl.col("item_kind").replace_strict(TYPES, default="semantic", return_dtype=pl.String).alias("type"),
        pl.col("statement").alias("text"),
        pl.concat_str("statement", date, separator="\n").str.strip_chars("\n").alias("search_text"),
        pl.min_horizontal("confidence", "stated_confidence").alias("confidence"),
        pl.max_horizontal(pl.when("is_saved").then(_SAVED).otherwise(default), "stated_importance").alias("importance"),
        pl.Series("token_count", count_tokens_batch(joined["statement"].to_list()), pl.Int64),
        importance_source=pl.lit("formation"),
        confidence_source=pl.when(pl.col("extractor") == LM).then(pl.lit(BY_MODEL)).otherwise(pl.lit("formation")),
    )
    return conform("memories", formed.with_columns(text_ends(formed))).sort("memory_id")
