"""Which memory is the newer one (decision 4), once, for candidate pairs and for versions.

A memory is *live* when its document version is current. Documents are followed over their versions by (uri, session),
here called the line. Newer means: a later `observed_at`; or, where both have none or the same and the line is the same,
a later version of the document, then a later place in it. Null or equal times of two documents order nothing.

Turns that are rows of one file and session are of one line, and in its order, where their uris count: `chat.jsonl#c7:9`
is before `chat.jsonl#c7:10`. Rows of a chat are often dated by the day alone.
"""

import re

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.memories.sequence import natural_key

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
