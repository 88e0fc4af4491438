"""The command `palimpsest housekeeping`: what a home no longer needs."""

from pathlib import Path

import click

from palimpsest.cli.shared import Output, common
from palimpsest.store.home import Home


@click.command(short_help="Remove what the home no longer needs: logs, vectors, runs, leftovers.")
@common
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
def housekeeping(home_path: Path, as_json: bool, backend: str, dry_run: bool) -> None:
    """Remove closed logs, vectors of no kept build, old runs of Dagster and leftovers, by the settings' policies."""
    from palimpsest.build.housekeeping import keep_house

    out = Output(as_json)
    done = keep_house(Home(home_path), dry_run)
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {r.items:,} {r.part}, {r.bytes / 2**20:,.1f} MiB" for r in done.removed]
    sizes = [f"{name:<14}{size / 2**20:>10,.1f} MiB" for name, size in sorted(done.sizes.items())]
    out.text("\n".join([*lines, f"{'left in':<14}", *sizes]))
    out.result(done.to_json())
