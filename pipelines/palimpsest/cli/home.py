"""The commands `palimpsest home ...`, which are about a home as a whole."""

from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Output, common
from palimpsest.store.home import Home


@click.group(short_help="Upgrade a home that an earlier version wrote.")
def home() -> None:
    """About a home as a whole."""


@home.command()
@common
@click.option(
    "--corpus",
    "corpora",
    type=FOLDER,
    multiple=True,
    help="Folder of collections, where the home does not have their settings. May be given again.",
)
def upgrade(home_path: Path, as_json: bool, backend: str, corpora: tuple[Path, ...]) -> None:
    """Make the build of a home again from its log as this version makes it, and publish it if the gate agrees."""
    from palimpsest_eval.runs.upgrade_home import upgrade_home

    out = Output(as_json)
    done = upgrade_home(Home(home_path), list(corpora) or None)
    if done.before == done.format:
        out.text(f"home {home_path}: has format {done.format} already; nothing to do")
    else:
        out.text(
            f"home {home_path}: upgraded from format {done.before} to {done.format}; build {done.build_id}, "
            f"{done.memories:,} memories, digest {done.digest}"
        )
    out.result(done.to_json())
