"""The stages of a build in the order they run, and what follows from their declarations.

To add a stage: write a file in this folder that exports `STAGE`, and name it in `_FILES`.
"""

from collections.abc import Iterator
from importlib import import_module

from palimpsest.pipeline.stage import Reference, Stage, Table
from palimpsest.store.tables import SCHEMAS

_FILES = (
    "documents",
    "chunks",
    "notes",
    "memories",
    "embeddings",
    "entities",
    "candidate_pairs",
    "topics",
    "relations",
    "versions",
    "facts",
    "nodes",
    "layout",
)

STAGES: dict[str, Stage] = {}


def register(stage: Stage) -> None:
    """Adds a stage after those there are.

    Raises:
        ValueError: the stage or a table of it has the name of another, it reads a table that no stage writes, or a
            delete would not know which rows of a table to remove.
    """
    written = {t.name for t in tables()}
    if stage.name in STAGES or written.intersection(stage.tables):
        raise ValueError(f"stage {stage.name}: it, or a table that it writes, has the name of another")
    if unknown := set(stage.reads) - written:
        raise ValueError(f"stage {stage.name}: reads {sorted(unknown)}, which no stage before it writes")
    if stage.runs == "by_collection" and any(producer(t).runs == "once" for t in stage.reads):
        raise ValueError(f"stage {stage.name}: reads what is only there once every collection is complete")
    for table in stage.writes:
        if stage.on_delete == "remove_rows" and not table.removed_by:
            raise ValueError(f"stage {stage.name}: {table.name} does not say which rows a delete removes (removed_by)")
        if table.schema is not None:
            SCHEMAS[table.name] = table.schema
        elif table.name not in SCHEMAS:
            raise ValueError(f"stage {stage.name}: {table.name} has no schema")
    STAGES[stage.name] = stage


def tables() -> Iterator[Table]:
    """Yields every table of a build, in the order in which they are written."""
    return (table for stage in STAGES.values() for table in stage.writes)


def indexed_tables() -> tuple[str, ...]:
    """Returns the names of the tables that the index is written from."""
    return tuple(t.name for t in tables() if t.is_indexed)


def references() -> Iterator[tuple[Table, Reference]]:
    """Yields every column that names rows of other tables."""
    return ((table, reference) for table in tables() for reference in table.references)


def key_of(table: str) -> str:
    """Returns the column that other tables name a table's rows by."""
    (key,) = next(t.key for t in tables() if t.name == table)
    return key


def producer(table: str) -> Stage:
    """Returns the stage that writes a table."""
    return next(s for s in STAGES.values() if table in s.tables)


def upstream(stage: Stage) -> list[str]:
    """Returns the names of the stages and other assets that a stage needs, in the order in which stages run."""
    needed = {producer(t).name for t in stage.reads} | set(stage.after)
    return [*(s for s in STAGES if s in needed), *sorted(needed - STAGES.keys())]


def last_stages() -> list[str]:
    """Returns the names of the stages that no other stage needs: what the index waits for."""
    needed = {name for stage in STAGES.values() for name in upstream(stage)}
    return [name for name in STAGES if name not in needed]


def collection_stages() -> list[Stage]:
    """Returns the stages that run for each collection."""
    return [s for s in STAGES.values() if s.runs == "by_collection"]


def once_stages() -> list[Stage]:
    """Returns the stages that run once, when every collection is complete."""
    return [s for s in STAGES.values() if s.runs == "once"]


for _name in _FILES:
    register(import_module(f"{__name__}.{_name}").STAGE)
