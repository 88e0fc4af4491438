"""What consolidation reads of one scope of a build: its memories, and which of them are looked at this time."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from palimpsest.core.ids import REFLECTION, SCOPE, ScopeKey, by_scope, content_id
from palimpsest.core.times import on_own_clock
from palimpsest.memories.recency import recency_columns
from palimpsest.relations.labelers.reading import Reading, read_memory
from palimpsest.store.collection_config import DEFAULT_TRUST

TABLES = (
    "memories",
    "versions",
    "documents",
    "relations",
    "facts",
    "clause_facts",
    "entities",
    "mentions",
    "speakers",
    "topics",
    "topic_memories",
)


@dataclass(frozen=True)
class Memory:
    """A memory as consolidation reads it; `observed_at` is on its speaker's clock, `at` in microseconds since 1970."""

    memory_id: str
    text: str
    document_id: str
    session_id: str | None
    speaker: str | None
    title: str | None
    heading: str | None
    unit: str
    is_latest: bool
    valid_until: dt.datetime | None
    superseded_by: str | None
    observed_at: dt.datetime | None
    ingested_at: dt.datetime | None
    at: int | None
    line: int | None
    seq: int
    ordinal: int
    confidence: float
    importance: float
    importance_source: str | None
    trust: float

    @cached_property
    def reading(self) -> Reading:
        """The memory as the rules of relations read it."""
        return read_memory(self.text, self.speaker, self.context)

    @property
    def context(self) -> str:
        """`Title > Heading` above it."""
        return " > ".join(p for p in (self.title, self.heading) if p)

    @property
    def is_formed(self) -> bool:
        """Whether it was formed from others."""
        return self.unit == REFLECTION

    def is_newer_than(self, other: "Memory") -> bool:
        """Returns whether it is known to be newer, by the order of `memories.recency`."""
        if self.at is not None and other.at is not None and self.at > other.at:
            return True
        is_tied = self.at == other.at and self.line == other.line
        return is_tied and (self.seq, self.ordinal) > (other.seq, other.ordinal)


@dataclass(frozen=True)
class ScopeMemories:
    """One scope.

    Attributes:
        scope: its columns.
        memories: all of them by id, ascending.
        tables: the rows of the build's tables in this scope.
        looked_at: ids of the memories that proposals must be about.
    """

    scope: ScopeKey
    memories: Mapping[str, Memory]
    tables: Mapping[str, pl.DataFrame]
    looked_at: frozenset[str]

    @cached_property
    def latest(self) -> list[Memory]:
        """The memories that are latest, formed ones left out, by id."""
        return [m for m in self.memories.values() if m.is_latest and not m.is_formed]

    @cached_property
    def linked(self) -> frozenset[frozenset[str]]:
        """Pairs of memories with a relation other than NONE."""
        rows = self.tables["relations"].filter(pl.col("label") != "NONE").select("newer_id", "older_id")
        return frozenset(frozenset(pair) for pair in rows.iter_rows())

    @cached_property
    def labelled(self) -> frozenset[frozenset[str]]:
        """Pairs of memories that have any label."""
        return frozenset(map(frozenset, self.tables["relations"].select("newer_id", "older_id").iter_rows()))

    @cached_property
    def rested_on(self) -> frozenset[str]:
        """Memories that a latest one was formed from, follows from or adds to."""
        rows = self.tables["relations"].filter(pl.col("label").is_in(["DERIVE", "EXTEND"]))
        pairs = rows.select("newer_id", "older_id").iter_rows()
        return frozenset(older for newer, older in pairs if (m := self.memories.get(newer)) and m.is_latest)

    def is_looked_at(self, *memory_ids: str) -> bool:
        """Returns whether one of the memories is looked at this time."""
        return not self.looked_at.isdisjoint(memory_ids)


@dataclass(frozen=True)
class Window:
    """Which memories are looked at: everything, or what came in since a time and a drawn sample of the rest."""

    everything: bool
    since: dt.datetime
    sample: int
    seed: str = ""

    def looked_at(self, scope: ScopeKey, memories: Mapping[str, Memory]) -> frozenset[str]:
        """Returns the ids of the memories that are looked at."""
        if self.everything:
            return frozenset(memories)
        new = {i for i, m in memories.items() if any(t and t >= self.since for t in (m.observed_at, m.ingested_at))}
        older = sorted(memories.keys() - new, key=lambda i: content_id("consolidate", self.seed, *scope, i))
        return frozenset(new | set(older[: self.sample]))


def scopes_of(tables: Mapping[str, pl.DataFrame], windows: Mapping[str, Window]) -> Iterator[ScopeMemories]:
    """Yields every scope, ascending.

    Args:
        tables: `TABLES` of a build.
        windows: by collection; a collection without one is left out.
    """
    rows = by_scope(_memory_rows(tables))
    others = {name: by_scope(frame) for name, frame in tables.items() if "project_id" in frame.columns}
    for scope, frame in rows.items():
        if scope[0] not in windows:
            continue
        memories = {row["memory_id"]: _memory(row) for row in frame.sort("memory_id").iter_rows(named=True)}
        mine = {name: parts.get(scope, tables[name].clear()) for name, parts in others.items()}
        yield ScopeMemories(scope, memories, mine, windows[scope[0]].looked_at(scope, memories))


def _memory_rows(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    order = recency_columns(tables["memories"], tables["documents"]).drop(*SCOPE, "ordinal", "live")
    versions = tables["versions"].select("memory_id", "is_latest", until="valid_until", by="superseded_by")
    documents = tables["documents"].select("document_id", "ingested_at")
    return (
        tables["memories"]
        .join(versions, on="memory_id", how="left")
        .join(order, on="memory_id", how="left")
        .join(documents, on="document_id", how="left")
    )


def _memory(row: Mapping[str, object]) -> Memory:
    taken = (
        *("memory_id", "text", "document_id", "session_id", "speaker", "title", "heading", "unit", "observed_at"),
        *("ingested_at", "at", "line", "importance_source"),
    )
    numbers = {
        name: default if row[name] is None else row[name]
        for name, default in (
            *(("is_latest", True), ("seq", 0), ("ordinal", 0), ("confidence", 1.0), ("importance", 0.5)),
            ("trust", DEFAULT_TRUST),
        )
    }
    values = {name: row[name] for name in taken}
    values["observed_at"] = on_own_clock(row["observed_at"], row["utc_offset"])  # type: ignore[arg-type]
    return Memory(**values, **numbers, valid_until=row["until"], superseded_by=row["by"])  # type: ignore[arg-type]
