"""What a stage of a build declares: the tables it reads and writes, when it runs again, and what a delete does to it.

A stage is a pure function of tables (and of the ingest log, for the first). All else is derived from its declaration:
assets and their dependencies, the tables of the index, the digest, what a delete removes, the references that the
invariants check, and the dry run.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.lm.settings import Budget
from palimpsest.memories.embedders import configured_space
from palimpsest.memories.vector_space import Space
from palimpsest.store.builds import ONCE, Build, kept_builds
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.manifest import Work
from palimpsest.store.tables import SCHEMAS, Schema, empty

PreviousTable: TypeAlias = Callable[[str], pl.DataFrame]
"""Reads a table of the published build that the same code and settings wrote."""

Removed: TypeAlias = Literal["document", "chunk", "memory", "uri", "source"]
"""What a delete removes: documents that go whole, chunks of memories that go, memories, uris of which no document is
left, and sources (the same, and the file of a conversation of which no session is left)."""


@dataclass(frozen=True)
class StageContext:
    """What a stage runs on: one collection of a build in the making, or the whole build for a stage that runs once.

    Attributes:
        base: the published build, which the build in the making follows; None for a first build.
        collection_config: None for a stage that runs once.
        folder: where the collection's sources are.
        max_cost: money that a language model may cost in the whole build; None means no limit.
        allow_removals: build although too many sources or memories vanished.
        now: when sources are read, and what retention is counted by.
        is_dry_run: nothing that is paid may be called.
    """

    home: Home
    build: Build
    base: Build | None
    collection_config: CollectionConfig | None
    folder: Path
    decisions: Decisions
    max_cost: float | None = None
    allow_removals: bool = False
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    is_dry_run: bool = False

    @property
    def config(self) -> CollectionConfig:
        """The collection's settings.

        Raises:
            TypeError: the stage runs once, for all collections.
        """
        if self.collection_config is None:
            raise TypeError("a stage that runs once has no collection")
        return self.collection_config

    @property
    def budget(self) -> Budget:
        """What a language model may still cost in this build: `max_cost` less what it paid, in all collections."""
        return Budget(None if self.max_cost is None else max(0.0, self.max_cost - self.build.lm_cost))

    @property
    def space(self) -> Space:
        """The space of the vectors that the collection is searched with."""
        return configured_space(self.home, self.config, self.folder)

    @property
    def name(self) -> str:
        """The collection's name, or the name used for all collections."""
        return ONCE if self.collection_config is None else self.collection_config.name

    @property
    def log(self) -> IngestLog:
        """The collection's ingest log."""
        return IngestLog(self.home.log / self.config.name)

    def table(self, name: str) -> pl.DataFrame:
        """Returns a table of the build in the making: of the collection, or of all collections."""
        return self.build.tables([name])[name] if self.name == ONCE else self.build.table(self.name, name)

    def earlier_table(self, name: str) -> pl.DataFrame | None:
        """Returns a table of the collection as the build before has it; None for a first build.

        Where it is damaged or was removed there, the last older build that has it counts; empty where none has.
        """
        if self.base is None:
            return None
        older = (b for b in reversed(kept_builds(self.home)) if b.build_id < self.base.build_id)
        has_it = (b for b in (self.base, *older) if b.has_intact(self.name, name))
        return found.table(self.name, name) if (found := next(has_it, None)) else empty(name)


@dataclass(frozen=True)
class StageResult:
    """The tables a stage made, its work, and figures to show next to it."""

    tables: Mapping[str, pl.DataFrame]
    work: Work = field(default_factory=Work)
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Reference:
    """A column with ids of other tables' rows, or lists of them.

    Attributes:
        column: the column.
        tables: where the ids are, in any of these.
        may_dangle: the row that is named may be gone.
    """

    column: str
    tables: tuple[str, ...]
    may_dangle: bool = False


@dataclass(frozen=True)
class Digest:
    """Which columns of a table are part of a build's digest; never floats, times or nulls of older versions.

    Attributes:
        columns: only these; empty means all.
        skipped: not these.
        unless: not these while every row has this value: builds made before they existed keep their digest.
        with_project: the project too, which other tables need not repeat.
        unless_empty: the table is left out while it has no rows: builds made before it existed keep their digest.
    """

    columns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unless: Mapping[str, bool] = field(default_factory=dict)
    with_project: bool = False
    unless_empty: bool = False


@dataclass(frozen=True)
class Table:
    """A table that a stage writes.

    Attributes:
        key: columns that are unique together; a table that others refer to has one.
        references: columns that name rows of other tables.
        removed_by: what a delete removes rows by, by column; empty where the stage is run again instead.
        has_spans: `char_start` and `char_end` point into the text of `document_id`.
        is_indexed: the index is written from it.
        digest: its part of a build's digest; None where it has none.
        schema: columns and types, for a table that `store.tables` does not know.
    """

    name: str
    key: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    removed_by: Mapping[str, Removed] = field(default_factory=dict)
    has_spans: bool = False
    is_indexed: bool = True
    digest: Digest | None = None
    schema: Schema | None = None


Estimate: TypeAlias = Callable[[StageContext, Home], Mapping[str, int]]
"""Counts for a dry run, from a context with the tables of the stages that a dry run runs, and the real home."""


@dataclass(frozen=True)
class Stage:
    """A named step of a build. A change of its code, of `settings` or of what it reads makes it run again.

    Its code is the module of `run` and all of the project's modules that this one imports, lazily too.

    Attributes:
        name: also the name of its asset; a noun.
        description: what it makes, in a sentence for the UI.
        group: the asset's group.
        reads: names of tables.
        writes: the tables it makes.
        run: makes them; gets the previous tables where only the inputs changed, to update them.
        settings: what else of the collection the result depends on; its `repr` is hashed.
        environment: what the result depends on outside of the collection, such as a model.
        modules: packages whose code it runs and that are not imported by name, such as plug-ins.
        prepare: brings the stage's input up to date, before it is known whether the stage must run.
        is_intact: whether what the stage keeps outside the build is still there; None where it keeps nothing.
        after: stages, or other assets, of which it needs more than tables.
        runs: for each collection, or once for all of them, before the index is written.
        on_delete: rows are removed from its tables (`removed_by`), or it is run again, or its tables stay as they are.
        in_dry_run: a dry run runs it: it is cheap, and so are the stages before it.
        estimate: counts for a dry run.
        shown_tables: small tables that the UI shows whole.
        kinds: labels of the asset.
    """

    name: str
    description: str
    group: str
    reads: tuple[str, ...]
    writes: tuple[Table, ...]
    run: Callable[[StageContext, PreviousTable | None], StageResult]
    settings: Callable[[StageContext], object] = lambda _: ""
    environment: Callable[[], object] = lambda: ""
    modules: tuple[str, ...] = ()
    prepare: Callable[[StageContext], None] | None = None
    is_intact: Callable[[StageContext], bool] | None = None
    after: tuple[str, ...] = ()
    runs: Literal["by_collection", "once"] = "by_collection"
    on_delete: Literal["remove_rows", "recompute", "keep"] = "recompute"
    in_dry_run: bool = False
    estimate: Estimate | None = None
    shown_tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("parquet",)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables it writes."""
        return tuple(t.name for t in self.writes)

    @property
    def code(self) -> str:
        """Returns a hash of its code."""
        return code_hash((self.run.__module__, *self.modules))

    @property
    def schemas(self) -> list[str]:
        """Returns the columns and types of what it writes, part of its cache key."""
        return [f"{t}:{SCHEMAS[t]}" for t in self.tables]
