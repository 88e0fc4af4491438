"""The commands `palimpsest build`, which makes a home, and `palimpsest dev`, which opens the Dagster UI on it."""

import shutil
from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Call, CostParam, common, embedder_option
from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.core.files import SHIPPED, say
from palimpsest.store.home import DEFAULT_CORPUS, Home, is_installed


@click.command()
@common
@click.option(
    "--corpus",
    "corpora",
    type=FOLDER,
    multiple=True,
    help="Folder of collections. May be given again. [default: those of earlier builds of the home; of a new one "
    "data/corpora]",
)
@click.option("--collection", "only", multiple=True, help="Build only this collection. May be given again.")
@click.option("--allow-rejects", is_flag=True, help="Exit 0 although some sources could not be read.")
@click.option("--allow-removals", is_flag=True, help="Build although more sources vanished than max_removed allows.")
@click.option("--allow-lost", is_flag=True, help="Go on without what is damaged and cannot be read again.")
@click.option("--repair", is_flag=True, help="Read every file of the home first, and repair what is damaged.")
@click.option("--graph", is_flag=True, help="Load the published build into Neo4j as well.")
@click.option("--max-cost", type=CostParam(), help="The most that a language model may cost in all.")
@embedder_option
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def build(
    call: Call,
    corpora: tuple[Path, ...],
    only: tuple[str, ...],
    allow_rejects: bool,
    allow_removals: bool,
    allow_lost: bool,
    repair: bool,
    graph: bool,
    max_cost: float | None,
    embedder: str | None,
    dry_run: bool,
) -> None:
    """Run the asset graph: read, embed, relate, version, index, judge, publish."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli import summary as report
    from palimpsest.orchestration import run
    from palimpsest.pipeline.estimate import dry_run as estimate

    home = call.home
    if dry_run and embedder:
        raise PalimpsestError("--embedder: --dry-run estimates with the home's embedder; leave one of them out")
    if dry_run:
        plan = estimate(home, list(corpora) or demo_corpora(home), list(only) or None)
        call.show(report.dry_run_text(plan), plan.to_json())
        return
    if not corpora:
        copy_demo(home)
    done = run.build(
        home, list(corpora) or None, list(only) or None, graph, max_cost, allow_removals, embedder, allow_lost, repair
    )
    call.text(report.build_text(done))
    if done.redactions:
        call.text(report.redactions_text(home))
    call.result(done.to_json())
    if done.gate["status"] == "failed":
        why = done.gate.get("summary") or ["gate failed", *done.gate["reasons"]]
        raise Refused(f"{why[0]}; build {done.build_id} is staged, not published", why[1:])
    if done.not_built:
        raise PalimpsestError("; ".join(f"collection {name}: {why}" for name, why in done.not_built.items()))
    if done.rejects and not allow_rejects:
        listed = f"listed above; all in {home.builds / done.build_id}/*/rejects.parquet"
        raise PalimpsestError(f"{done.rejects} rejects ({listed}): fix those sources or lines, or pass --allow-rejects")


@click.command()
@common
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. The UI has no login: whoever reaches it can start builds.",
)
@click.option("--verbose", is_flag=True, help="Print what Dagster logs, too, instead of writing it to a file.")
def dev(call: Call, port: int, host: str, verbose: bool) -> None:
    """Open the Dagster UI on this home, on this machine alone unless --host says otherwise."""
    from palimpsest.orchestration.dev_server import serve_ui

    serve_ui(call.home, port, host, verbose)


# The demo that comes with the package: what `palimpsest build` builds where there is no corpus of one's own.

_PARTS = ("corpora", "golden", "baselines")


def demo_corpora(home: Home) -> list[Path] | None:
    """Returns the demo's corpora where a build that names none would copy them, else None; writes nothing."""
    return [SHIPPED / "corpora"] if _is_wanted(home) else None


def _is_wanted(home: Home) -> bool:
    return is_installed() and not home.sources and not DEFAULT_CORPUS.is_dir()


def copy_demo(home: Home) -> None:
    """Copies the demo to ./data where a build on a new home would find no corpus; does nothing in a checkout.

    A copy, because a home reads its sources again at each build and its owner may edit them: the installed
    package is not the place for that. What exists in ./data is kept.
    """
    if not _is_wanted(home):
        return
    data = DEFAULT_CORPUS.parent
    for part in _PARTS:
        shutil.copytree(
            SHIPPED / part,
            data / part,
            dirs_exist_ok=True,
            copy_function=_copy_new,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    say(f"no {DEFAULT_CORPUS} here: copied the demo corpus, its golden questions and baselines to {data}/")


def _copy_new(source: str, target: str) -> None:
    if not Path(target).exists():
        shutil.copyfile(source, target)
