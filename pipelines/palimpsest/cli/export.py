"""The commands `palimpsest export`, which writes all that is stored about a person, and `palimpsest import`."""

from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Output, common
from palimpsest.core.counted import counted
from palimpsest.store.home import Home

_MAX_SHOWN = 20


@click.command(short_help="Write all that is stored about a user to a folder.")
@common
@click.option("--user", required=True, help="Whose.")
@click.option("--out", type=FOLDER, required=True, help="A new folder.")
@click.option("--collection", help="Only of this collection. [default: all]")
def export(home_path: Path, as_json: bool, backend: str, user: str, out: Path, collection: str | None) -> None:
    """Write all that is stored about a user: JSON with a schema, original files, Markdown that can be edited."""
    from palimpsest.export.export_user import export_user

    done, output = export_user(Home(home_path), user, out, collection), Output(as_json)
    for left in done.left_out[:_MAX_SHOWN]:
        output.text(f"original left out: {left['uri']} of {left['collection']}: {left['reason']}")
    pages, originals = done.counts["pages"], done.counts["originals"]
    output.text(
        f"exported {counted(done.counts['memories'], 'memory')} of "
        f"{counted(done.counts['documents'], 'document')} to {out}: {counted(pages, 'page')}, "
        f"{counted(originals, 'original file')}; it has everything, also what is hidden: keep it private"
    )
    output.result(done.to_json())


@click.command("import", short_help="Import an export, or what was edited in its Markdown pages.")
@common
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--rename", "renames", multiple=True, metavar="OLD=NEW", help="Another name of a collection. [repeatable]"
)
@click.option("--allow-removals", is_flag=True, help="Apply the removal of more pages than max_removed allows.")
def import_(
    home_path: Path, as_json: bool, backend: str, folder: Path, renames: tuple[str, ...], allow_removals: bool
) -> None:
    """Make collections of an export, or apply the edits of its pages where the home has them; then build."""
    from palimpsest.export.import_export import import_export

    done = import_export(
        Home(home_path), folder, rename=dict(map(_parse_rename, renames)), allow_removals=allow_removals
    )
    output = Output(as_json)
    made = f"made {', '.join(done.collections)} of {counted(done.documents, 'document')}; " if done.collections else ""
    more = f", {counted(done.decisions, 'decision')}" if done.decisions else ""
    more += f", {counted(done.operations, 'operation')} of the inbox" if done.operations else ""
    left = f", {len(done.problems)} left as they are" if done.problems else ""
    is_new = done.collections or done.edited or done.removed or done.operations
    edited = f"{counted(len(done.edited), 'page')} edited, {len(done.removed)} removed, {done.unchanged} unchanged"
    output.text(
        f"{made}{edited}{left}{more}" + ("; the next palimpsest build reads them" if is_new else "; nothing to build")
    )
    output.result(done.to_json())


def _parse_rename(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise click.BadParameter(f"{text!r} must be OLD=NEW, such as diary=diary-2", param_hint="--rename")
    return old, new
