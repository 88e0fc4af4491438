"""Commands that make or change a home: build, delete, dev."""

import datetime as dt
from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Output, common, why_closed
from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.store.home import Home


@click.command(short_help="Read the sources, build the graph, judge it, publish it.")
@common
@click.option(
    "--corpus",
    "corpora",
    type=FOLDER,
    multiple=True,
    help="Folder of collections. May be given again. [default: data/corpora]",
)
@click.option("--collection", "only", multiple=True, help="Build only this collection. May be given again.")
@click.option("--allow-rejects", is_flag=True, help="Exit 0 although some sources could not be read.")
@click.option("--allow-removals", is_flag=True, help="Build although more sources vanished than max_removed allows.")
@click.option("--graph", is_flag=True, help="Load the published build into Neo4j as well.")
@click.option(
    "--max-cost", type=click.FloatRange(0), help="What labels by an LM may cost; pairs beyond it are not labelled."
)
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def build(
    home_path: Path,
    as_json: bool,
    backend: str,
    corpora: tuple[Path, ...],
    only: tuple[str, ...],
    allow_rejects: bool,
    allow_removals: bool,
    graph: bool,
    max_cost: float | None,
    dry_run: bool,
) -> None:
    """Run the asset graph: read, embed, relate, version, index, judge, publish."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.build.dry_run import dry_run as estimate
    from palimpsest.cli import summary as report
    from palimpsest.cli.demo import copy_demo, demo_corpora
    from palimpsest.orchestration import run

    out, home = Output(as_json), Home(home_path)
    if dry_run:
        plan = estimate(home, list(corpora) or demo_corpora(home), list(only) or None)
        out.text(report.dry_run_text(plan))
        out.result(plan.to_json())
        return
    if not corpora:
        copy_demo(home)
    done = run.build(home, list(corpora) or None, list(only) or None, graph, max_cost, allow_removals)
    out.text(report.build_text(done))
    if done.rejects:
        out.text(report.rejects_text(home))
    out.result(done.to_json())
    if done.gate["status"] == "failed":
        why = why_closed(done.gate.get("settings_changed", ()), done.gate["reasons"])
        raise Refused(f"gate: {why}; build {done.build_id} is staged, not published")
    if done.rejects and not allow_rejects:
        raise PalimpsestError(
            f"{done.rejects} rejects (listed above): fix those sources or lines, or pass --allow-rejects"
        )


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
) -> None:
    """Delete what matches all options given, from every build and log, and prove that nothing of it is left."""
    from palimpsest.build.delete import delete as delete_from

    out = Output(as_json)
    done = delete_from(
        Home(home_path),
        memories=memories,
        document=document,
        user=user,
        session=session,
        project=project,
        tag=tag,
        before=before.replace(tzinfo=dt.UTC) if before else None,
        collection=collection,
        dry_run=dry_run,
    )
    out.text(done.text)
    out.result(done.to_json())


@click.command()
@common
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
def dev(home_path: Path, as_json: bool, backend: str, port: int) -> None:
    """Open the Dagster UI on this home, on 127.0.0.1."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.orchestration.run import serve_ui

    raise SystemExit(serve_ui(Home(home_path), port))
