"""Documents that state to replace others: which memories that retires, and which are trusted too much to be retired."""

from collections.abc import Iterable

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.store.trust_config import DEFAULT_TRUST

_LINK = [*SCOPE, "newer_uri", "older_uri"]


def replaced_memories(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame
) -> pl.DataFrame:
    """Returns (memory_id, replaced_by): memories of documents that a current document states to replace.

    A uri means all its sessions. Of several that replace one, the earliest dated is the closest, then by id. A document
    retires no memory that is trusted more than itself.
    """
    stated = _stated_replacements(memories, documents, document_relations)
    return (
        stated.filter(pl.col("older_trust") <= pl.col("newer_trust"))
        .sort("memory_id", "date", "replaced_by", nulls_last=True)
        .unique("memory_id", keep="first", maintain_order=True)
        .select("memory_id", "replaced_by")
    )


def refused_replacements(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame
) -> pl.DataFrame:
    """Returns stated replacements that do not retire all they name, because it is trusted more, sorted.

    Columns: the scope columns, newer_uri, older_uri, newer_trust, older_trust (the highest) and memories (how many of
    the older document stay).
    """
    stated = _stated_replacements(memories, documents, document_relations, with_refused=True)
    return (
        stated.filter("is_current", pl.col("older_trust") > pl.col("newer_trust"))
        .group_by(_LINK)
        .agg(
            pl.col("newer_trust").min(),
            pl.col("older_trust").max(),
            pl.col("memory_id").n_unique().cast(pl.Int64).alias("memories"),
        )
        .sort(_LINK)
    )


def refusal_lines(refused: pl.DataFrame) -> list[str]:
    """Returns a line for people about each row of `refused_replacements`."""
    columns = refused.select("newer_uri", "older_uri", "newer_trust", "older_trust", "memories")
    return [
        f"not retired: {n} memories of {older}, which {newer} states to replace: trusted more ({high:g} and {low:g})"
        for newer, older, low, high, n in columns.iter_rows()
    ]


def _stated_replacements(
    memories: pl.DataFrame, documents: pl.DataFrame, document_relations: pl.DataFrame, with_refused: bool = False
) -> pl.DataFrame:
    """Returns a row for each memory and each current document that states to replace its own.

    Documents that state to replace each other in a circle replace nothing of each other; a link to what is trusted more
    closes no circle.
    """
    documents = documents.with_columns(pl.col("trust").fill_null(DEFAULT_TRUST))
    stated = document_relations.filter((pl.col("label") == "UPDATE") & (pl.col("newer_uri") != pl.col("older_uri")))
    current = documents.filter("is_current").select(
        *SCOPE, newer_uri="uri", replaced_by="document_id", date="source_time", newer_trust="trust"
    )
    of_older = documents.group_by(*SCOPE, older_uri="uri").agg(pl.col("trust").min().alias("least_trust"))
    of_newer = current.group_by(*SCOPE, "newer_uri").agg(pl.col("newer_trust").max().alias("most_trust"))
    links = (
        stated.select(_LINK)
        .unique()
        .sort(_LINK)
        .join(of_newer, on=[*SCOPE, "newer_uri"], how="inner", maintain_order="left")
        .join(of_older, on=[*SCOPE, "older_uri"], how="inner", maintain_order="left")
    )
    is_trusted = pl.col("least_trust") <= pl.col("most_trust")
    trusted = links.filter(is_trusted).select(_LINK)
    found = trusted.filter(pl.Series(_is_acyclic(trusted.rows()), dtype=pl.Boolean))
    if with_refused:
        found = pl.concat([found, links.filter(~is_trusted).select(_LINK)])
    older = memories.select("memory_id", "document_id", pl.col("trust").fill_null(DEFAULT_TRUST).alias("older_trust"))
    replaced = documents.select(*SCOPE, "document_id", "is_current", older_uri="uri")
    return (
        found.join(current, on=[*SCOPE, "newer_uri"], how="inner")
        .join(replaced, on=[*SCOPE, "older_uri"], how="inner")
        .join(older, on="document_id", how="inner")
    )


def _is_acyclic(links: Iterable[tuple[str, ...]]) -> list[bool]:
    """Returns for each (*scope, newer, older) whether no chain of replacements leads from the older to the newer."""
    links = list(links)
    older: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for *scope, new, old in links:
        older.setdefault((*scope, new), []).append((*scope, old))

    def reaches(start: tuple[str, ...], goal: tuple[str, ...]) -> bool:
        seen, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            if node == goal:
                return True
            unseen = [n for n in older.get(node, []) if n not in seen]
            seen.update(unseen)
            waiting.extend(unseen)
        return False

    return [not reaches((*scope, old), (*scope, new)) for *scope, new, old in links]
