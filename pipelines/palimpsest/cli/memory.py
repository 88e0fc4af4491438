"""The commands `palimpsest memory show|source|edit`: one memory, by the id that a context cites."""

from pathlib import Path
from typing import Any

import click

from palimpsest.cli.scope_options import ScopeOptions, scope_options
from palimpsest.cli.shared import Output, common, visible
from palimpsest.core.errors import PalimpsestError


@click.group(short_help="Show one memory, its place in its source, or edit its words.")
def memory() -> None:
    """Show one memory, its place in its source, or edit its words."""


@memory.command()
@common
@click.argument("memory_id", metavar="ID")
@scope_options
def show(memory_id: str, **options: Any) -> None:
    """Show the memory with ID, superseded or not, and the versions of its fact."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.present import memory_text
    from palimpsest.query.result import history_json, memory_json

    given = ScopeOptions(**options)
    with given.open() as (reader, scopes):
        found = reader.memory_with_changes(scopes, memory_id)
        if found is None:
            raise PalimpsestError(_unknown(memory_id))
        versions = next(filter(None, (reader.history_of(s, memory_id) for s in scopes)), ())
        fields = {**memory_json(found), "history": list(history_json(versions))}
    given.output.text(visible(memory_text(found, versions)))
    given.output.result(fields)


@memory.command()
@common
@click.argument("memory_id", metavar="ID")
@scope_options
@click.option("--reach", type=click.IntRange(0, 100), default=12, show_default=True, help="Memories on each side.")
def source(memory_id: str, reach: int, **options: Any) -> None:
    """Show the memory with ID among those before and after it in its session or document."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.query.result import memory_json

    given = ScopeOptions(**options)
    with given.open() as (reader, scopes):
        found = reader.surroundings(scopes, memory_id, reach)
    if not found:
        raise PalimpsestError(_unknown(memory_id))
    for m in found:
        speaker = f"{m.speaker}: " if m.speaker else ""
        given.output.text(f"{'>' if m.memory_id == memory_id else ' '} {speaker}{m.text}  [memory:{m.memory_id}]")
    given.output.result({"memories": [memory_json(m) for m in found]})


@memory.command()
@common
@click.argument("memory_id", metavar="ID")
@click.argument("text")
@scope_options
def edit(memory_id: str, text: str, home_path: Path, as_json: bool, **options: Any) -> None:
    """Replace the words of the memory with ID by TEXT; the next build forms it, and what it was stays as history."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.export.edit_memory import edit_memory
    from palimpsest.store.home import Home

    given = ScopeOptions(home_path=home_path, as_json=as_json, **options)
    with given.open() as (reader, scopes):
        own = [s for s in scopes if reader.memory([s], memory_id, include_hidden=True, include_pii=True)]
    if not own:
        raise PalimpsestError(_unknown(memory_id))
    done = edit_memory(Home(home_path), (own[0].collection, own[0].user_id, own[0].project_id), memory_id, text)
    out = Output(as_json)
    out.text(f"{done.uri}: edited; the next palimpsest build forms the memory anew and keeps what it was as history")
    out.result(done.to_json())


def _unknown(memory_id: str) -> str:
    return f"{memory_id[:40]}: no such memory in this scope; name its --collection and --user"
