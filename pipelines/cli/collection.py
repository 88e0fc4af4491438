"""The commands `palimpsest collection list|info|create`; `collections` is another name of the group."""

from pathlib import Path
from typing import Literal

import click

from palimpsest.cli.shared import FOLDER, Output, common
from palimpsest.core.counted import counted
from palimpsest.store.home import Home

_UNITS = ["chunk", "turn", "statement"]  # as in collection.yaml, whose module the base install does not have


@click.group(short_help="List collections, show one, make one.")
def collection() -> None:
    """List the collections of a home, show how much is in one, or make a new one."""


@collection.command("list")
@common
def list_(home_path: Path, as_json: bool, backend: str) -> None:
    """List the collections of a home, with the number of their documents and memories."""
    from palimpsest.build.collection_info import list_collections

    found, out = list_collections(Home(home_path)), Output(as_json)
    for info in found:
        counts = info.counts
        out.text(
            f"{info.name}: {counted(counts.get('documents', 0), 'document')}, "
            f"{counted(counts.get('memories', 0), 'memory')}, {counted(counts.get('users', 0), 'user')}, "
            f"{counted(info.size_bytes, 'byte')}, since {info.created_at or 'unknown'} "
            f"- {info.description}"
        )
    out.result({"collections": [info.to_json() for info in found]})


@collection.command()
@common
@click.argument("name")
@click.option("--sources", "with_sources", is_flag=True, help="List its sources: type, size, when read and changed.")
def info(home_path: Path, as_json: bool, backend: str, name: str, with_sources: bool) -> None:
    """Show settings, dates, sizes and statistics of a collection."""
    from palimpsest.build.collection_info import collection_info
    from palimpsest.build.source_info import list_sources

    found, out = collection_info(Home(home_path), name), Output(as_json)
    out.text(f"{found.name}: {found.description}")
    included = f", includes documents of {', '.join(found.include)}" if found.include else ""
    out.text(f"folder {found.folder}, unit {found.unit}, strategy {found.strategy or 'not built'}{included}")
    out.text(f"created {found.created_at or 'unknown'}, last read {found.updated_at or 'never'}")
    out.text(", ".join(f"{number} {what.replace('_', ' ')}" for what, number in found.counts.items()))
    for media_type, (documents, size) in found.types.items():
        out.text(f"  {media_type}: {counted(documents, 'document')}, {counted(size, 'byte')}")
    for month, memories in found.months.items():
        out.text(f"  {month or 'undated'}: {counted(memories, 'memory')}")
    sources = list_sources(Home(home_path), name) if with_sources else []
    for s in sources:
        known = "size unknown" if s.size_bytes is None else f"{s.size_bytes:,} bytes"
        out.text(f"  {s.uri}: {s.media_type or 'not built'}, {known}, read {s.created_at}, changed {s.updated_at}")
    out.result(found.to_json() | ({"source_list": [s.to_json() for s in sources]} if with_sources else {}))


@collection.command()
@common
@click.argument("name")
@click.option("--description", required=True, help="What it contains, in one sentence.")
@click.option("--unit", type=click.Choice(_UNITS), default="chunk", show_default=True, help="What a memory is.")
@click.option("--user", "user_id", help="Owner of memories whose source names no user. [default: shared]")
@click.option("--corpus", type=FOLDER, help="Folder to make it in. [default: collections, in the home]")
def create(
    home_path: Path,
    as_json: bool,
    backend: str,
    name: str,
    description: str,
    unit: Literal["chunk", "turn", "statement"],
    user_id: str | None,
    corpus: Path | None,
) -> None:
    """Make a collection: a folder with its collection.yaml, to put sources in."""
    from palimpsest.store.create_collection import create_collection

    folder, out = create_collection(Home(home_path), name, description, unit, user_id, corpus), Output(as_json)
    out.text(f"made {folder}: put sources there, or palimpsest remember --collection {name}; then palimpsest build")
    out.result({"name": name, "folder": str(folder)})
