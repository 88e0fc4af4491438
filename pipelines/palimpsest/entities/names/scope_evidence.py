"""Collects, from the tables of a collection, what resolution in each of its scopes depends on."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from palimpsest.core.scopes import SCOPE, ScopeKey, by_scope
from palimpsest.entities.names.clusters import Merge
from palimpsest.entities.names.name_model import NameEvidence, Resolution, ScopeEvidence
from palimpsest.entities.names.resolve_names import resolve
from palimpsest.store.decisions import Decisions

_KEY = [*SCOPE, "key"]
_MAX_MEMORY_CHARS = 2**32  # a place in a document is the memory's ordinal times this, plus the offset


def resolve_scopes(
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
        stated: mention candidates with `same_as`: names that a text says are one, and offices with their holders.
        titles: (scope, surface, key) of titles that name something.
        people: (scope, document_id, key) of speakers and people in metadata.
        memories: the memories table.
        decisions: people's, on which names are one.
    """
    stated = stated.join(memories.select("memory_id", "document_id"), on="memory_id", how="left")
    own = memories.select("document_id", *SCOPE, surface=pl.col("title").str.strip_chars()).unique()
    own = own.join(titles, on=[*SCOPE, "surface"], how="inner")
    parts = {"stated": stated, "people": people, "places": _places(found, people, memories), "titled": own}
    of_scope = {name: by_scope(frame) for name, frame in parts.items()}
    return {
        at: resolve(_build_evidence(at, names, decisions, **{n: frames.get(at) for n, frames in of_scope.items()}))
        for at, names in by_scope(_statistics(found, titles)).items()
    }


def _statistics(found: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
    """Returns how often each key is mentioned, by cue; the columns are the fields of `NameEvidence`."""
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
    """Returns, of keys that are long or may be short for long ones, their memories and first place in each document."""
    order = memories.select("memory_id", pl.col("ordinal").fill_null(0) * _MAX_MEMORY_CHARS)
    outside_text = people.select(*_KEY, "document_id", memory_id=pl.lit(None, pl.String), at=pl.lit(-1, pl.Int64))
    several = pl.col("key").str.contains(" ", literal=True)
    long = pl.concat([found.filter(several)["key"], people.filter(several)["key"]]).unique().str.split(" ")
    ends = pl.concat([long.list.first(), long.list.last(), people["key"]]).unique()
    needed = several | pl.col("key").is_in(ends.implode()) | (pl.col("kind") == "acronym") | (pl.col("cue") == "person")
    keys = found.filter(needed).select(_KEY).unique()
    named = found.join(keys, on=_KEY, how="semi").join(order, on="memory_id", how="left")
    at = (pl.col("ordinal") + pl.col("char_start")).fill_null(-1).alias("at")
    first = (
        pl.concat([named.select(*_KEY, "document_id", "memory_id", at), outside_text])
        .group_by(*_KEY, "document_id")
        .agg(pl.col("at").min(), pl.col("memory_id").drop_nulls().unique())
    )
    return first.group_by(_KEY).agg("document_id", "at", pl.col("memory_id").explode())


def _build_evidence(
    scope: ScopeKey,
    names: pl.DataFrame,
    decisions: Decisions,
    *,
    stated: pl.DataFrame | None,
    people: pl.DataFrame | None,
    places: pl.DataFrame | None,
    titled: pl.DataFrame | None,
) -> ScopeEvidence:
    documents, key_memories = {}, {}
    for key, document_ids, first_places, memory_ids in _rows(places, "key", "document_id", "at", "memory_id"):
        documents[key] = dict(zip(document_ids, first_places, strict=True))
        key_memories[key] = frozenset(memory_ids)
    known = {row["key"]: NameEvidence(**row) for row in names.drop(SCOPE).iter_rows(named=True)}
    persons = frozenset(people["key"]) if people is not None else frozenset()
    merges = [
        (document, kind, Merge(*fields))
        for document, kind, *fields in _rows(stated, "document_id", "kind", "key", "same_as", "why", "memory_id")
    ]
    same, apart = decisions.names_in(scope, {*known, *persons})
    return ScopeEvidence(
        names=known,
        stated=tuple(sorted({m for _, kind, m in merges if kind != "role"})),
        offices=tuple(sorted({(d, m) for d, kind, m in merges if kind == "role"})),
        people=persons,
        documents=documents,
        memories=key_memories,
        titles=dict(_rows(titled, "document_id", "key")),
        same=same,
        apart=apart,
    )


def _rows(frame: pl.DataFrame | None, *columns: str) -> Iterator[tuple[Any, ...]]:
    return iter(()) if frame is None else frame.select(columns).iter_rows()
