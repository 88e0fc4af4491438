"""Memories from chunks: one memory a chunk, with the texts that are embedded and that word search indexes."""

import datetime as dt
import json
from typing import TypedDict

import polars as pl

from palimpsest.core.ids import REFLECTION, VERSION_ORDER, content_id, text_hash
from palimpsest.memories.embed import MAX_TOKENS
from palimpsest.memories.recency import own_clock, stated_since
from palimpsest.memories.source_trust import attribute_columns, memory_trust
from palimpsest.memories.text_batches import SPECIAL_TOKENS, window_texts
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import SCHEMAS, conform, empty
from palimpsest.text.dates import DateOrder, parse_stated_end, parse_stated_time
from palimpsest.text.document_status import ended_status_heading
from palimpsest.text.markup import MARKS
from palimpsest.text.sentences import memory_sentence_spans
from palimpsest.text.stated_ends import ENDS_PATTERN, stated_end

# Until when memories hold by their own words, where neither a turn nor a document states it in a field.

_SAME = ("memory_id", "observed_at", "utc_offset", "valid_from")


def text_ends(rows: pl.DataFrame, previous: pl.DataFrame | None = None) -> pl.Series:
    """Returns `valid_until` of some memories: the stated one, else the end of the last day that the text states.

    Days are those of the speaker's clock, UTC where that is unknown. A text states no end of a memory without a day,
    and none that is not after `valid_from`.

    Args:
        rows: memory_id, text, observed_at, utc_offset, and the stated valid_from and valid_until.
        previous: memories of an earlier build made by the same code: what had no end then has none in its text.
    """
    open_rows = rows.select(*_SAME, "text", "valid_until").filter(
        pl.col("valid_until").is_null()
        & pl.col("observed_at").is_not_null()
        & pl.col("text").str.contains(ENDS_PATTERN)
    )
    if previous is not None:
        endless = previous.filter(pl.col("valid_until").is_null())
        open_rows = open_rows.join(endless, on=_SAME, how="anti", nulls_equal=True)
    said = open_rows.select("text", own_clock(), pl.col("utc_offset").fill_null(0)).iter_rows()
    found_ends = [_end_of(stated_end(text, at.date()), offset) for text, at, offset in said]
    ends = open_rows.select("memory_id", text_end=pl.Series(found_ends, dtype=_TIME))
    found = rows.select("memory_id", "valid_from", "valid_until").join(
        ends, on="memory_id", how="left", maintain_order="left"
    )
    is_after = pl.col("valid_from").is_null() | (pl.col("text_end") > pl.col("valid_from"))
    return found.select(pl.coalesce("valid_until", pl.when(is_after).then("text_end")))["valid_until"]


def _end_of(day: dt.date | None, utc_offset: int) -> dt.datetime | None:
    """Returns the first instant after a day of a clock so many minutes east of UTC."""
    after = dt.timedelta(days=1, minutes=-utc_offset)
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC) + after if day else None


_TYPES = {"turn": "episodic", "chunk": "document", "statement": "semantic"}
_CONTEXT_FIELDS = (
    "unit",
    "title",
    "heading",
    "speaker",
    "refers_to",
)  # with the text: all that the embedded text depends on
_TIME = pl.Datetime("us", "UTC")


def form_memories(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    config: CollectionConfig,
    previous: tuple[pl.DataFrame, pl.DataFrame] | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (memories, embed_inputs): one memory for each chunk, sorted by memory_id.

    A chunk that several versions of a document have is one memory, of the newest of them. The embedded text has
    speaker, title, headings, list items above it and what an opening pronoun refers to, but neither addresses nor a
    date; the text for word search has the date too. A text over 256 tokens of the embedder is embedded as windows of
    at most 250 that overlap.

    Args:
        documents: the documents table, all versions.
        chunks: the chunks table.
        config: the collection; its unit decides the memories' type, its retention_days bound their end,
            its trust says how far each is trusted.
        previous: (memories, embed_inputs) of an earlier build made by the same code; embedded texts are carried over.
    """
    rows = _join_documents(documents, chunks, config)
    rows = rows.with_columns(text_ends(rows, previous[0] if previous else None))
    rows = rows.with_columns(attribute_columns(rows, _TYPES[config.unit], config.retention_days))
    rows = rows.with_columns(memory_trust(rows, config.trust))
    rows = rows.with_columns(
        unit=pl.lit(config.unit),
        search_text=_search_text(),
        chunk_ids=pl.concat_list("chunk_id"),
        provenance="uri",
        language=pl.lit(None, pl.String),  # see `memory_languages`
        updated_at=pl.max_horizontal("updated_at", "stated_since"),
    )
    memories = conform("memories", rows.select(*SCHEMAS["memories"]))
    return memories, embed_inputs(memories, previous)


def _join_documents(documents: pl.DataFrame, chunks: pl.DataFrame, config: CollectionConfig) -> pl.DataFrame:
    valid = [_valid_times(m, config.dates) for m in documents["metadata"]]
    about = documents.select(
        "document_id",
        "session_id",
        "uri",
        "title",
        "source_time",
        "seq",
        "is_current",
        "kind",
        "metadata",
        document_trust="trust",
        source_offset="utc_offset",
    ).with_columns(
        pl.Series("valid_from", [v["valid_from"] for v in valid], _TIME),
        pl.Series("valid_until", [v["valid_until"] for v in valid], _TIME),
        pl.Series("status_heading", [_status_heading(m) for m in documents["metadata"]], pl.String),
    )
    about = about.join(stated_since(documents), on="document_id", how="left")
    rows = (
        chunks.join(about, on="document_id", how="inner")
        .sort("chunk_id", *VERSION_ORDER)
        .unique("chunk_id", keep="last", maintain_order=True)
    )
    ids = [content_id("memory", chunk_id) for chunk_id in rows["chunk_id"]]
    return rows.with_columns(
        pl.Series("memory_id", ids, pl.String),
        pl.concat_str("heading", "status_heading", separator=" > ", ignore_nulls=True)
        .replace("", None)
        .alias("heading"),
        pl.coalesce("said_at", "source_time").alias("observed_at"),
        pl.when(pl.col("said_at").is_null()).then("source_offset").otherwise("utc_offset").alias("utc_offset"),
        pl.col("title").fill_null(""),
        pl.coalesce(_stated_by_turn("valid_from"), "valid_from").alias("valid_from"),
        pl.coalesce(_stated_by_turn("valid_until"), "valid_until").alias("valid_until"),
    ).sort("memory_id")


def _stated_by_turn(name: str) -> pl.Expr:
    """Returns the time that a turn or a row of a table states itself."""
    stated = pl.col("stated").str.json_path_match(f"$.{name}")
    return stated.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="us", time_zone="UTC")


class _ValidTimes(TypedDict):
    valid_from: dt.datetime | None
    valid_until: dt.datetime | None


def _valid_times(metadata: str | None, order: DateOrder | None) -> _ValidTimes:
    """Returns the time in which a document's memories are valid, by its metadata."""
    fields = _fields(metadata)
    starts = parse_stated_time(fields.get("valid_from"), order)
    ends = parse_stated_end(fields.get("valid_until"), order)
    if starts and ends and ends <= starts:  # the reader listed it
        return {"valid_from": None, "valid_until": None}
    return {"valid_from": starts, "valid_until": ends}


def _status_heading(metadata: str | None) -> str | None:
    """Returns the heading by which a document's memories say that it is not in force, null where it may be."""
    return ended_status_heading(_fields(metadata)) or None


def _fields(metadata: str | None) -> dict[str, object]:
    try:
        data = json.loads(metadata or "{}")
    except ValueError:
        data = {}
    return data if isinstance(data, dict) else {}


def _heading_path() -> pl.Expr:
    """Returns `Title > Heading`, without the title where the heading path or the text starts with it."""
    title, heading = pl.col("title").fill_null(""), pl.col("heading").fill_null("")
    opens = pl.col("text").str.strip_chars_start("#* \n").str.starts_with(title + "\n")
    repeated = (title == "") | heading.str.to_lowercase().str.starts_with(title.str.to_lowercase()) | opens
    return (
        pl.when(repeated)
        .then(heading)
        .when(heading == "")
        .then(title)
        .otherwise(pl.concat_str(title, pl.lit(" > "), heading))
    )


def _shown_words() -> pl.Expr:
    """Returns texts as `text.markup.shown_words` does; one of nothing but addresses stays as it is."""
    shown = pl.col("text")
    for pattern, replacement in MARKS:
        shown = shown.str.replace_all(pattern, replacement)
    return pl.when(shown.str.contains(r"[\p{L}\p{N}]")).then(shown).otherwise("text")


def _search_text() -> pl.Expr:
    date = own_clock().dt.strftime("%-d %B %Y %Y-%m-%d").fill_null("")
    context = [pl.col(c).fill_null("") for c in ("speaker", "refers_to")]
    parts = [_heading_path(), *context, _shown_words(), date]
    return pl.concat_str(parts, separator="\n").str.replace_all(r"\n{2,}", "\n").str.strip_chars("\n")


def _prefix() -> pl.Expr:
    """Returns what precedes a memory's text where it is embedded: the speaker of a turn, the headings of a passage."""
    speaker = pl.when(pl.col("unit") == REFLECTION).then(pl.lit("")).otherwise(pl.col("speaker").fill_null(""))
    head = _heading_path()
    refers_to = pl.col("refers_to") + ": "
    before = (
        pl.when(speaker != "")
        .then(speaker + ": ")
        .when(pl.col("unit").is_in(["turn", REFLECTION]) | (head == ""))
        .then(pl.lit(""))
        .when(head.str.contains(r"[.!?:]\s*$"))
        .then(head + " ")
        .otherwise(head + ". ")
    )
    return before + refers_to.fill_null("")


def embed_inputs(memories: pl.DataFrame, previous: tuple[pl.DataFrame, pl.DataFrame] | None = None) -> pl.DataFrame:
    """Returns what is embedded for memories, by memory; a formed memory's statement alone.

    Args:
        memories: rows of the memories table.
        previous: (memories, embed_inputs) of an earlier build made by the same code; its texts are carried over.
    """
    carried = empty("embed_inputs")
    todo = memories
    if previous is not None:
        same = memories.join(previous[0], on=["memory_id", *_CONTEXT_FIELDS], how="semi", nulls_equal=True).select(
            "memory_id"
        )
        carried = previous[1].join(same, on="memory_id", how="semi")
        todo = memories.join(carried, on="memory_id", how="anti")
    rows = todo.select("memory_id", "token_count", text=_shown_words(), prefix=_prefix())
    # A prefix has no more tokens than bytes: only what could be too long is counted exactly.
    bound = pl.col("token_count").fill_null(MAX_TOKENS) + pl.col("prefix").str.len_bytes() + SPECIAL_TOKENS
    rows = rows.with_columns(maybe_long=bound > MAX_TOKENS)
    short = rows.filter(~pl.col("maybe_long")).select(
        "memory_id", kind=pl.lit("memory"), ordinal=pl.lit(0), text=pl.col("prefix") + pl.col("text")
    )
    suspects = rows.filter("maybe_long")
    pieces = window_texts(suspects["prefix"].to_list(), suspects["text"].to_list())
    long = pl.DataFrame(
        [
            (memory_id, "window" if len(texts) > 1 else "memory", i, text)
            for memory_id, texts in zip(suspects["memory_id"], pieces, strict=True)
            for i, text in enumerate(texts)
        ],
        schema={"memory_id": pl.String, "kind": pl.String, "ordinal": pl.Int32, "text": pl.String},
        orient="row",
    )
    fresh = pl.concat([short, long])
    fresh = fresh.with_columns(pl.Series("text_hash", [text_hash(t) for t in fresh["text"]], pl.String))
    return pl.concat([carried, conform("embed_inputs", fresh)]).sort("memory_id", "ordinal")


# The context_inputs table: sentences of memories, in collections where names link one memory to the next.
#
# The vector of a long passage shows what it is about; which of its sentences answers a question, and so which of its
# names to follow, only the vectors of the sentences show.

_KEY = ["memory_id", "kind", "ordinal"]


def context_inputs(
    memories: pl.DataFrame, strategy: str, embedded: bool, previous: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Returns a row for each sentence of each memory of a collection searched over names, no row for any other.

    Args:
        memories: the memories table.
        strategy: the strategy that `auto` is in the collection.
        embedded: whether the sentences of passages get vectors; `text_hash` is null where not. Statements get none:
            they are single sentences.
        previous: the same table of an earlier build made by the same code; a memory's rows are carried over.
    """
    if strategy not in ("graph", "statements"):
        return empty("context_inputs")
    embedded = embedded and strategy == "graph"
    carried = empty("context_inputs")
    if previous is not None:
        carried = previous.filter(pl.col("text_hash").is_not_null() == embedded)
        carried = carried.join(memories, on="memory_id", how="semi")
    todo = memories.select("memory_id", "text").join(carried, on="memory_id", how="anti")
    rows = [
        (memory_id, "sentence", i, text[start:end], text_hash(text[start:end]) if embedded else None, start, end)
        for memory_id, text in todo.iter_rows()
        for i, (start, end) in enumerate(memory_sentence_spans(text))
    ]
    fresh = pl.DataFrame(rows, schema=SCHEMAS["context_inputs"], orient="row")
    return conform("context_inputs", pl.concat([carried, fresh])).sort(_KEY)
