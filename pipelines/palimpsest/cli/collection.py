"""The commands `palimpsest collection ...`; `collections` is another name of the group."""

import json
from pathlib import Path
from typing import Literal

import click

from palimpsest.cli.shared import FOLDER, Call, common, confirm
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted

_UNITS = ["chunk", "turn", "statement"]  # as in collection.yaml, whose module the base install does not have


@click.group()
def collection() -> None:
    """List the collections of a home, show how much is in one, make, change or delete one."""


@collection.command("list", short_help="List the collections of a home, with their size.")
@common
def list_(call: Call) -> None:
    """List the collections of a home, with the number of their documents and memories."""
    from palimpsest.pipeline.collection_info import list_collections

    found = list_collections(call.home)
    for info in found:
        counts = info.counts
        call.text(
            f"{info.name}: {counted(counts.get('documents', 0), 'document')}, "
            f"{counted(counts.get('memories', 0), 'memory')}, {counted(counts.get('users', 0), 'user')}, "
            f"{counted(info.size_bytes, 'byte')}, since {info.created_at or 'unknown'} "
            f"- {info.description}"
        )
    call.result({"collections": [info.to_json() for info in found]})


@collection.command()
@common
@click.argument("name")
@click.option("--sources", "with_sources", is_flag=True, help="List its sources: type, size, when read and changed.")
def info(call: Call, name: str, with_sources: bool) -> None:
    """Show settings, dates, sizes and statistics of a collection."""
    from palimpsest.pipeline.collection_info import collection_info, list_sources

    found = collection_info(call.home, name)
    call.text(f"{found.name}: {found.description}")
    included = f", includes documents of {', '.join(found.include)}" if found.include else ""
    call.text(f"folder {found.folder}, unit {found.unit}, strategy {found.strategy or 'not built'}{included}")
    call.text(f"created {found.created_at or 'unknown'}, last read {found.updated_at or 'never'}")
    call.text(", ".join(f"{number} {what.replace('_', ' ')}" for what, number in found.counts.items()))
    for media_type, (documents, size) in found.types.items():
        call.text(f"  {media_type}: {counted(documents, 'document')}, {counted(size, 'byte')}")
    for month, memories in found.months.items():
        call.text(f"  {month or 'undated'}: {counted(memories, 'memory')}")
    sources = list_sources(call.home, name) if with_sources else []
    for s in sources:
        known = "size unknown" if s.size_bytes is None else f"{s.size_bytes:,} bytes"
        call.text(f"  {s.uri}: {s.media_type or 'not built'}, {known}, read {s.created_at}, changed {s.updated_at}")
    call.result(found.to_json() | ({"source_list": [s.to_json() for s in sources]} if with_sources else {}))


@collection.command(short_help="List the texts that are hidden because they recur.")
@common
@click.argument("name")
def boilerplate(call: Call, name: str) -> None:
    """List the texts of a collection that are hidden because many of its documents have them.

    Each is listed once, with the number of documents. palimpsest query --include-hidden --tag boilerplate searches
    them.
    """
    from palimpsest.pipeline.collection_info import list_boilerplate

    found = list_boilerplate(call.home, name)
    for text in found:
        call.text(f"{text.documents:6}  {' '.join(text.text.split())}  ({text.uri}, {text.memory_id})")
    hidden = sum(text.memories for text in found)
    call.text(f"{name}: {counted(hidden, 'memory', 'is')} hidden, of {counted(len(found), 'text')} that recur")
    call.result({"name": name, "hidden": hidden, "texts": [text.to_json() for text in found]})


@collection.command(short_help="Make a collection: a folder with its collection.yaml.")
@common
@click.argument("name")
@click.option("--description", required=True, help="What it contains, in one sentence.")
@click.option(
    "--unit",
    type=click.Choice(_UNITS),
    default="chunk",
    show_default=True,
    help="What a memory is: paragraphs, a message, or a sentence (for notes whose facts change).",
)
@click.option("--user", "user_id", help="Owner of memories whose source names no user. [default: shared]")
@click.option("--corpus", type=FOLDER, help="Folder that has its folder. [default: collections, in the home]")
def create(
    call: Call,
    name: str,
    description: str,
    unit: Literal["chunk", "turn", "statement"],
    user_id: str | None,
    corpus: Path | None,
) -> None:
    """Make a collection: writes a collection.yaml into CORPUS/NAME, which may have sources already."""
    from palimpsest.store.edit_collection import create_collection

    folder = create_collection(call.home, name, description, unit, user_id, corpus)
    call.text(f"made {folder}: put sources there, or palimpsest remember --collection {name}; then palimpsest build")
    call.result({"name": name, "folder": str(folder)})


@collection.command(short_help="Print the schema of the documents' metadata.")
@common
@click.argument("name")
def schema(call: Call, name: str) -> None:
    """Print the JSON Schema that the metadata of a collection's documents must satisfy."""
    from palimpsest.pipeline.collection_info import collection_schema

    found = collection_schema(call.home, name)
    none = f"{name} has no metadata_schema: any metadata is stored; collection update {name} --schema FILE sets one"
    call.text(none if found is None else json.dumps(found, indent=2, ensure_ascii=False, sort_keys=True))
    call.result({"name": name, "metadata_schema": found})


@collection.command(short_help="Change settings of a collection.")
@common
@click.argument("name")
@click.option("--description", help="What it contains, in one sentence.")
@click.option("--schema", "schema_file", type=FOLDER, metavar="FILE", help="JSON Schema of its documents' metadata.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A field of collection.yaml. [repeatable]"
)
@click.option("--unset", multiple=True, metavar="FIELD", help="Remove a field: its default counts again. [repeatable]")
def update(
    call: Call,
    name: str,
    description: str | None,
    schema_file: Path | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
) -> None:
    """Change the collection.yaml of a collection; comments stay, and the next build applies it.

    VALUE is YAML: 30, true, [turn, reflection].
    """
    from palimpsest.store.edit_collection import update_collection

    changes: dict[str, object] = {**_fields(settings), **dict.fromkeys(unset)}
    if description is not None:
        changes["description"] = description
    if schema_file is not None:
        changes["metadata_schema"] = _read_yaml(schema_file)
    after = update_collection(call.home, name, changes)
    call.text(f"changed {', '.join(sorted(changes))} of {name}; palimpsest build applies it")
    call.result({"name": name, "changed": sorted(changes), "settings": after.model_dump(mode="json")})


@collection.command(short_help="Delete a collection with all of its memories, and prove it.")
@common
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")
def delete(call: Call, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a collection from every build and log as `palimpsest delete --collection` does; its source files stay."""
    from palimpsest.pipeline.deletion.delete import delete as delete_from

    if not dry_run:
        confirm(f"Delete collection {name} with all of its memories from home {call.home_path}?", yes)
    done = delete_from(call.home, collection=name, dry_run=dry_run)
    call.show(done.text, done.to_json())


def _fields(settings: tuple[str, ...]) -> dict[str, object]:
    """Returns the fields of `--set`.

    Raises:
        UsageError: one has no value, or is no YAML.
    """
    import yaml

    found = {}
    for text in settings:
        field, equals, value = text.partition("=")
        if not equals or not field.strip():
            raise click.UsageError(f"--set {text[:80]!r}: write FIELD=VALUE")
        try:
            found[field.strip()] = yaml.safe_load(value)
        except (yaml.YAMLError, RecursionError):
            raise click.UsageError(f"--set {text[:80]!r}: the value is no YAML") from None
        if found[field.strip()] is None:
            raise click.UsageError(f"--set {text[:80]!r}: has no value; --unset {field.strip()} removes it")
    return found


def _read_yaml(path: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise PalimpsestError(f"{path}: cannot be read: {e.strerror}; name a file with a JSON Schema") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise PalimpsestError(f"{path}: is no JSON or YAML; name a file with a JSON Schema") from None
