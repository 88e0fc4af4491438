"""The commands `palimpsest service ...`: the service of a home as a process in the background."""

from pathlib import Path

import click

from palimpsest.cli.serve import PORT_OPTION
from palimpsest.cli.shared import Output, common, visible
from palimpsest.core.errors import ComponentFailed
from palimpsest.store.home import Home


@click.group(short_help="Run the service of a home in the background.")
def service() -> None:
    """Run `palimpsest serve` for a home in the background, on the loopback address."""


@service.command(short_help="Start it, and wait until it is ready.")
@common
@PORT_OPTION
def start(home_path: Path, as_json: bool, backend: str, port: int) -> None:
    """Start the service of a home unless it runs, and wait until it can answer.

    Exit code 2: a setting is missing or wrong. Exit code 3: it did not come up, and nothing is left running.
    """
    from palimpsest.instances.service_process import start_service

    out, status = Output(as_json), start_service(Home(home_path), port, backend)
    out.text(f"serving build {status.build_id} at {status.record.url if status.record else ''}")
    out.result({**status.to_json(), "home": str(home_path)})


@service.command()
@common
def stop(home_path: Path, as_json: bool, backend: str) -> None:
    """Stop the service of a home; requests under way are answered first."""
    from palimpsest.instances.service_process import stop_service

    out, ran = Output(as_json), stop_service(Home(home_path))
    out.text("the service is stopped" if ran else "no service ran")
    out.result({"ran": ran})


@service.command(short_help="Show whether it runs and answers.")
@common
def status(home_path: Path, as_json: bool, backend: str) -> None:
    """Show whether the service of a home runs and answers; exit code 3 where it does not."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.instances.service_process import service_status

    out, found = Output(as_json), service_status(Home(home_path))
    where = f": build {found.build_id} at {found.record.url}, process {found.record.pid}" if found.record else ""
    out.text(f"{found.state}{where}")
    out.result({**found.to_json(), "home": str(home_path)})
    if found.state != "running":
        raise ComponentFailed(f"service: {found.state}; palimpsest service start starts it")


@service.command(short_help="Show the last lines that it wrote.")
@common
@click.option("-n", "shown", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, at most.")
def logs(home_path: Path, as_json: bool, backend: str, shown: int) -> None:
    """Show the last lines that the service wrote; `palimpsest logs` has the events of the home."""
    from palimpsest.instances.service_process import service_log

    out, lines = Output(as_json), service_log(Home(home_path), shown)
    out.text(visible("\n".join(lines)) or "no lines; palimpsest service start writes them")
    out.result({"lines": lines})


@service.command(hidden=True)
@common
@PORT_OPTION
def run(home_path: Path, as_json: bool, backend: str, port: int) -> None:
    """Serve in this process, and write what it prints into the home: what `start` runs in the background."""
    from palimpsest.instances.service_process import run_service

    run_service(Home(home_path), port, backend)
