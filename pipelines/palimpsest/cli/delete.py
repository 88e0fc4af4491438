"""The command `palimpsest delete`: its options, and the call of `build/delete`, which does the work."""

import datetime as dt
import sys
from functools import partial
from pathlib import Path

import click

from palimpsest.cli.shared import Output, common, confirm
from palimpsest.store.home import Home


@click.command(short_help="Delete memories from every build and log, and prove it.")
@common
@click.option("--memory", "memories", multiple=True, help="This memory, by its id. [repeatable]")
@click.option("--document", help="A source, by its path inside the collection, or path#session.")
@click.option("--user", help="What belongs to this user.")
@click.option("--session", help="What belongs to this session.")
@click.option("--project", help="What belongs to this project.")
@click.option("--tag", help="Memories with this tag.")
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Memories observed before this date (UTC), such as 2026-03-01.",
)
@click.option("--collection", help="Only in this collection. Alone: the whole collection.")
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="At a terminal: do not list and prompt first.")
def delete(
    home_path: Path,
    as_json: bool,
    backend: str,
    memories: tuple[str, ...],
    document: str | None,
    user: str | None,
    session: str | None,
    project: str | None,
    tag: str | None,
    before: dt.datetime | None,
    collection: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete what matches all options given, from every build and log, and prove that nothing of it is left.

    At a terminal it lists what would be deleted and prompts for confirmation first; in a script it does not.
    """
    from palimpsest.build.delete import delete as delete_from

    out = Output(as_json)
    run = partial(
        delete_from,
        Home(home_path),
        memories=memories,
        document=document,
        user=user,
        session=session,
        project=project,
        tag=tag,
        before=before.replace(tzinfo=dt.UTC) if before else None,
        collection=collection,
    )
    if not (dry_run or yes) and sys.stdin.isatty():
        out.text(run(dry_run=True).text)
        confirm("Delete this for good?", yes=False)
    done = run(dry_run=dry_run)
    out.text(done.text)
    out.result(done.to_json())
