"""From the mentions of a collection to what resolution in each of its scopes depends on, and back."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from palimpsest.core.scopes import SCOPE, ScopeKey, by_scope
from palimpsest.entities.names.clusters import Edge
from palimpsest.entities.names.name_model import Name, Resolution, Scope
from palimpsest.entities.names.resolve_names import resolve
from palimpsest.store.decisions import Decisions

_KEY = [*SCOPE, "key"]
_LONGEST = 2**32  # characters of a memory: places are its ordinal times this, plus the offset


def resolutions(
    found: pl.DataFrame,
    stated: pl.DataFrame,
    titles: pl.DataFrame,
    people: pl.DataFrame,
    memories: pl.DataFrame,
    decisions: Decisions,
) -> dict[ScopeKey, Resolution]:
    """Resolves each scope that has names, by itself.

    Args:
        found: mentions that count as names, with `document_id`.
        stated: surfaces with `same_as`: names that a text says are one, and offices with their holders.
        titles: (scope, surface, key) of titles that name something.
        people: (scope, document_id, key) of speakers and people in metadata.
        memories: the memories table.
        decisions: people's, on which names are one.
    """
    stated = stated.join(memories.select("memory_id", "document_id"), on="memory_id", how="left")
    own = memories.select("document_id", *SCOPE, surface=pl.col("title").str.strip_chars()).unique()
    own = own.join(titles, on=[*SCOPE, "surface"], how="inner")
    names = by_scope(_statistics(found, titles))
    told, persons, places, titled = (by_scope(f) for f in (stated, people, _places(found, people, memories), own))
    return {
        at: resolve(_scope(at, rows, told.get(at), persons.get(at), places.get(at), titled.get(at), decisions))
        for at, rows in names.items()
    }


def _statistics(found: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """How often each key is mentioned, and beside what; the columns are the fields of `Name`."""
    cue, kind = pl.col("cue"), pl.col("kind")
    counts = found.group_by(_KEY).agg(
        n=(kind != "title").sum(),
        person=(cue == "person").sum(),
        definite=(cue == "the").sum(),
        one=(cue == "one").sum(),
        many=(cue == "many").sum(),
        inside=cue.is_in(["in", "place"]).sum(),
        acts=cue.is_in(["acts", "organisation"]).sum(),
        code=(kind == "code").any() & (kind != "name").all(),
        acronym=(kind == "acronym").any() & (kind != "name").all(),
        memory_id=pl.col("memory_id").min(),
    )
    titled = titles.select(*_KEY, titled=pl.lit(True)).unique()
    return counts.join(titled, on=_KEY, how="left").with_columns(pl.col("titled").fill_null(False))


def _places(found: pl.DataFrame, people: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Of keys that are long, or may be short for long ones: their memories, and where a document first names them."""
    order = memories.select("memory_id", pl.col("ordinal").fill_null(0) * _LONGEST)
    told = people.select(*_KEY, "document_id", memory_id=pl.lit(None, pl.String), at=pl.lit(-1, pl.Int64))
    several = pl.col("key").str.contains(" ", literal=True)
    long = pl.concat([found.filter(several)["key"], people.filter(several)["key"]]).unique().str.split(" ")
    ends = pl.concat([long.list.first(), long.list.last(), people["key"]]).unique()
    needed = several | pl.col("key").is_in(ends.implode()) | (pl.col("kind") == "acronym") | (pl.col("cue") == "person")
    keys = found.filter(needed).select(_KEY).unique()
    named = found.join(keys, on=_KEY, how="semi").join(order, on="memory_id", how="left")
    at = (pl.col("ordinal") + pl.col("char_start")).fill_null(-1).alias("at")
    first = (
        pl.concat([named.select(*_KEY, "document_id", "memory_id", at), told])
        .group_by(*_KEY, "document_id")
        .agg(pl.col("at").min(), pl.col("memory_id").drop_nulls().unique())
    )
    return first.group_by(_KEY).agg("document_id", "at", pl.col("memory_id").explode())


def _scope(
    at: ScopeKey,
    names: pl.DataFrame,
    stated: pl.DataFrame | None,
    people: pl.DataFrame | None,
    places: pl.DataFrame | None,
    titled: pl.DataFrame | None,
    decisions: Decisions,
) -> Scope:
    documents, texts = {}, {}
    for key, there, first, inside in _rows(places, "key", "document_id", "at", "memory_id"):
        documents[key] = dict(zip(there, first, strict=True))
        texts[key] = frozenset(inside)
    known = {row["key"]: Name(**row) for row in names.drop(SCOPE).iter_rows(named=True)}
    persons = frozenset(people["key"]) if people is not None else frozenset()
    edges = [
        (d, kind, Edge(*e))
        for d, kind, *e in _rows(stated, "document_id", "kind", "key", "same_as", "why", "memory_id")
    ]
    same, apart = decisions.names_in(at, {*known, *persons})
    return Scope(
        names=known,
        stated=tuple(sorted({e for _, kind, e in edges if kind != "role"})),
        offices=tuple(sorted({(d, e) for d, kind, e in edges if kind == "role"})),
        people=persons,
        documents=documents,
        memories=texts,
        titles=dict(_rows(titled, "document_id", "key")),
        same=same,
        apart=apart,
    )


def _rows(frame: pl.DataFrame | None, *columns: str) -> Iterator[tuple[Any, ...]]:
    return iter(()) if frame is None else frame.select(columns).iter_rows()
