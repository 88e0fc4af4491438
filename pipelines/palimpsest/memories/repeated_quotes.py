"""Quotes in mails: a quote makes memories only where the quoted mail is not a source itself."""

import polars as pl

from palimpsest.sources.records.extracted import QUOTED_IN


def without_repeated_quotes(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns document versions without the quotes whose words another current document of the scope contains.

    A mail and a reply that quotes it would make the same memories twice. Of equal quotes the one with the lowest id is
    kept.

    Args:
        rows: document versions with document_id, user_id, project_id, metadata, text and is_current.
    """
    is_quote = pl.col("metadata").fill_null("").str.contains(f'"{QUOTED_IN}"', literal=True)
    words = pl.col("text").fill_null("").str.replace_all(r"[\s>]+", " ").str.strip_chars().str.to_lowercase()
    state = rows.select("document_id", "user_id", "project_id", "is_current", quote=is_quote, words=words)
    if not state["quote"].any():
        return rows
    repeated: set[str] = set()
    for _, scope in state.group_by("user_id", "project_id", maintain_order=True):
        whole = [f" {text} " for text in scope.filter(pl.col("is_current") & ~pl.col("quote"))["words"]]
        quotes = scope.filter("quote").sort("is_current", "document_id", descending=[True, False])
        seen: set[str] = set()
        for document_id, text in quotes.select("document_id", "words").iter_rows():
            if text in seen or any(f" {text} " in other for other in whole):
                repeated.add(document_id)
            seen.add(text)
    return rows.filter(~pl.col("document_id").is_in(sorted(repeated)))
