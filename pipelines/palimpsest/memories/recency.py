"""Which memory is the newer one (decision 4), once, for candidate pairs and for versions.

A memory is *live* when its document version is current. Documents are followed over their versions by (uri, session),
here called the line. Newer means: a later `observed_at`; or, where both have none or the same and the line is the same,
a later version of the document, then a later place in it. Null or equal times of two documents order nothing.

Turns that are rows of one file and session are of one line, and in its order, where their uris count: `chat.jsonl#c7:9`
is before `chat.jsonl#c7:10`. Rows of a chat are often dated by the day alone.
"""

import re

import polars as pl

from palimpsest.core.ids import DOCUMENT, SCOPE, VERSION_ORDER
from palimpsest.memories.formed import stated_memories

# The order of turns in a conversation and of memories in a document: which memory follows each.

_DIGITS = 20


def turn_order(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, next_id) of each turn that another follows in its session; sorted by memory_id.

    Turns are the memories of unit `turn` whose document version is current. A session has one `session_id`, else is one
    file. In it turns are in the order of their sources, where numbers in a uri count as numbers, then of their places
    in them. Nothing crosses a scope.

    Args:
        memories: the memories table.
        documents: the documents table.
    """
    current = documents.filter("is_current").select("document_id", "uri")
    uris = current["uri"].unique()
    natural = pl.DataFrame(
        {"uri": uris, "natural": [natural_key(u) for u in uris]}, schema_overrides={"natural": pl.String}
    )
    file = pl.col("uri").str.split("#").list.first()
    turns = (
        memories.filter(pl.col("unit") == "turn")
        .select("memory_id", *SCOPE, "document_id", "session_id", "ordinal")
        .join(current.unique("document_id"), on="document_id", how="inner")
        .join(natural, on="uri", how="left")
        .with_columns(
            session=pl.when(pl.col("session_id").is_null())
            .then(pl.concat_str(pl.lit("f"), file))
            .otherwise(pl.concat_str(pl.lit("s"), "session_id"))
        )
        .sort(*SCOPE, "session", "natural", "uri", "ordinal", "memory_id")
    )
    return (
        turns.with_columns(next_id=pl.col("memory_id").shift(-1).over(*SCOPE, "session"))
        .filter(pl.col("next_id").is_not_null())
        .select("memory_id", "next_id")
        .sort("memory_id")
    )


def document_order(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, next_id) of each memory that another follows in its document version; sorted by memory_id.

    Turns are excluded: those of a session follow each other over files. So are formed memories.

    Args:
        memories: the memories table.
    """
    return (
        stated_memories(memories)
        .filter((pl.col("unit") != "turn") & pl.col("document_id").is_not_null())
        .sort(*SCOPE, "document_id", "ordinal", "memory_id")
        .with_columns(next_id=pl.col("memory_id").shift(-1).over(*SCOPE, "document_id"))
        .filter(pl.col("next_id").is_not_null())
        .select("memory_id", "next_id")
        .sort("memory_id")
    )


def natural_key(uri: str) -> str:
    """Returns a key under which `turn 9` comes before `turn 10`."""
    return _NUMBER.sub(lambda m: m.group().lstrip("0").zfill(_DIGITS), uri)


_NUMBER = re.compile(r"\d+")


def recency_columns(memories: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Returns the columns that the order of memories depends on, in the rows' order.

    Columns: memory_id, the scope columns, `at` (microseconds, null where undated), `line` (a number for each line of
    the build), `seq` (place of the document version in its line), `ordinal`, `live`.
    """
    turns = memories.filter(pl.col("unit") == "turn")["document_id"].unique()
    names = documents.select("uri", is_turn=pl.col("document_id").is_in(turns.implode()))
    places = [_place(uri) if is_turn else (uri, "") for uri, is_turn in names.iter_rows()]
    about = (
        documents.select("document_id", "seq", "is_current", *SCOPE, "session_id")
        .with_columns(
            pl.Series("name", [name for name, _ in places], pl.String),
            pl.Series("counted", [counted for _, counted in places], pl.String),
        )
        .with_columns(line=pl.struct(*SCOPE, "name", "session_id").rank("dense").cast(pl.Int64))
        .with_columns(seq=pl.struct("counted", "seq").rank("dense").over("line").cast(pl.Int64))
        .select("document_id", "seq", "is_current", "line")
    )
    return (
        memories.select("memory_id", *SCOPE, "document_id", "ordinal", at=pl.col("observed_at").dt.epoch("us"))
        .join(about, on="document_id", how="left", maintain_order="left")
        .select(
            "memory_id",
            *SCOPE,
            "at",
            "line",
            pl.col("seq").fill_null(0),
            pl.col("ordinal").fill_null(0),
            pl.col("is_current").fill_null(False).alias("live"),
        )
    )


def _place(uri: str) -> tuple[str, str]:
    """Returns what the uris of the turns of one line have in common, and what puts these in order."""
    file, mark, row = uri.partition("#")
    return file + mark + _NUMBER.sub("0", row), natural_key(row)


def is_newer(newer: str = "_newer", older: str = "_older") -> pl.Expr:
    """Returns whether the memory of columns `*<newer>` is newer than the one of `*<older>`, as an expression.

    Both sides need the columns of `recency_columns`, with those suffixes.
    """

    def a(column: str) -> pl.Expr:
        return pl.col(column + newer)

    def b(column: str) -> pl.Expr:
        return pl.col(column + older)

    later = (a("at") > b("at")).fill_null(False)
    tied = a("at").eq_missing(b("at")) & (a("line") == b("line")).fill_null(False)
    return later | (tied & ((a("seq") > b("seq")) | ((a("seq") == b("seq")) & (a("ordinal") > b("ordinal")))))


# When a memory was said, when the home first read it, and when it last changed what it has of it.

_STATED = ("title", "source_time", "utc_offset", "kind", "metadata", "trust")
"""What a document version states of all its memories."""


def stated_since(documents: pl.DataFrame) -> pl.DataFrame:
    """Returns (document_id, stated_since): when the version was read since which title, time and metadata are equal.

    Args:
        documents: the documents table, all versions.
    """
    ordered = documents.sort(VERSION_ORDER)
    runs = ordered.with_columns(run=pl.struct(_STATED).rle_id().over(DOCUMENT))
    return runs.select("document_id", stated_since=pl.col("ingested_at").min().over(*DOCUMENT, "run"))


def memory_times(memories: pl.DataFrame, documents: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """Returns (memory_id, known_from, created_at, updated_at), sorted by id; null where the home read no document.

    `created_at` is when a version of its document that has the memory was first read. `updated_at` is when its heading,
    what it states or what its document states changed, or, of a superseded memory, when the newer one or the version of
    its document that left it out was read, if that was later: a version that leaves a memory alone does not update it.
    `known_from` is `created_at` of memories without `observed_at` and `valid_from`: what was known before cannot
    include them, whenever they were written.

    Args:
        memories: the memories table.
        documents: the documents table, all versions.
        versions: the versions table.
    """
    read = documents.select(superseded_by="document_id", superseded_at="ingested_at").unique("superseded_by")
    newer = pl.concat([memories.select(superseded_by="memory_id", superseded_at="created_at"), read])
    return (
        memories.select("memory_id", "created_at", "updated_at", undated=is_undated())
        .join(versions.select("memory_id", "superseded_by"), on="memory_id", how="left")
        .join(newer, on="superseded_by", how="left")
        .select(
            "memory_id",
            pl.when("undated").then("created_at").alias("known_from"),
            "created_at",
            pl.max_horizontal("updated_at", "superseded_at"),
        )
        .sort("memory_id")
    )


def own_clock() -> pl.Expr:
    """Returns `observed_at` as the clock of the speaker showed it, for its day; UTC where `utc_offset` is null."""
    return pl.col("observed_at") + pl.duration(minutes=pl.col("utc_offset").fill_null(0))


def is_undated() -> pl.Expr:
    """Returns whether neither the source nor the text of a memory has a time."""
    return pl.col("observed_at").is_null() & pl.col("valid_from").is_null()
