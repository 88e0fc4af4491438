"""Commands of the service: run it, keep it in the background, make a token for development."""

import datetime as dt
from functools import partial

import click
from click.core import ParameterSource

from palimpsest.cli.shared import Call, CostParam, common, visible
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.home import Home, home_option

PORT_OPTION = click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8765,
    envvar="PALIMPSEST_SERVE_PORT",
    show_default=True,
    help="0 means any free port.",
)

BUILD_OPTION = click.option(
    "--build-every",
    type=click.FloatRange(0),
    envvar="PALIMPSEST_SERVE_BUILD_EVERY",
    metavar="MINUTES",
    help="Build what was sent or changed, this often; 0 never. [default: 10; 0 where others build: of a home on object "
    "storage, and where other machines reach the address]",
)
COST_OPTION = click.option(
    "--max-cost",
    type=CostParam(),
    envvar="PALIMPSEST_SERVE_MAX_COST",
    help="The most that a language model may cost in each of these builds.",
)


@click.group(invoke_without_command=True)
@common
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@PORT_OPTION
@BUILD_OPTION
@COST_OPTION
@click.pass_context
def serve(
    context: click.Context, call: Call, host: str, port: int, build_every: float | None, max_cost: float | None
) -> None:
    """Serve a home over HTTP, until it is stopped: its published build, the inbox, deletes. A new home is made.

    Whose memories are read follows from the token of a request alone: PALIMPSEST_JWT_SECRET, or
    PALIMPSEST_JWT_PUBLIC_KEY or PALIMPSEST_JWKS_URL of an identity provider. On the loopback address, the home has a
    secret of its own where none is set.
    """
    if context.invoked_subcommand is not None:
        return
    from palimpsest.serve.run_server import run_server
    from palimpsest.serve.settings import BuildTerms

    run_server(call.home, call.backend, host, port, builds=BuildTerms(build_every, max_cost))


@serve.command(short_help="Make a token for development.")
@common
@click.option("--user", required=True, help="Whose memories it gives access to.")
@click.option("--project", "projects", multiple=True, help="A project of theirs. May be given again.")
@click.option("--permission", "permissions", multiple=True, help="read, write or delete. [default: all]")
@click.option(
    "--hours", type=click.FloatRange(0.01, 24 * 30), default=1.0, show_default=True, help="How long it is valid."
)
def token(call: Call, user: str, projects: tuple[str, ...], permissions: tuple[str, ...], hours: float) -> None:
    """Print a token that is signed with PALIMPSEST_JWT_SECRET, else with the secret of a home whose service ran."""
    from palimpsest.serve.guard import PERMISSIONS, make_token
    from palimpsest.serve.settings import read_secret, token_settings

    settings = token_settings(own_secret=partial(read_secret, call.home_path))
    made = make_token(settings, user, projects, permissions or PERMISSIONS, dt.timedelta(hours=hours))
    call.show(made, {"token": made})


@serve.command(short_help="Serve one user's memories to a program, by MCP over its pipes.")
@common
def mcp(call: Call) -> None:
    """Speak the Model Context Protocol over stdin and stdout, for a program that starts this command.

    Whose memories it reads follows from the token in PALIMPSEST_TOKEN. Over HTTP, serve answers at /mcp.
    """
    from palimpsest.serve.run_server import run_stdio

    run_stdio(call.home, call.backend)


# The commands `palimpsest service ...`: the service of a home, and its nightly builds, in the background.


@click.group()
def service() -> None:
    """Run `palimpsest serve` for a home in the background, on the loopback address."""


@service.command(short_help="Start it, and wait until it is ready.")
@common
@PORT_OPTION
@BUILD_OPTION
@COST_OPTION
@click.option("--builds", "with_builds", is_flag=True, help="Also run the nightly builds and the Dagster UI.")
@click.pass_context
def start(
    context: click.Context, call: Call, port: int, build_every: float | None, max_cost: float | None, with_builds: bool
) -> None:
    """Start the service of a home unless it runs, and wait until it can answer. A new home is made.

    Exit code 2: a setting is missing or wrong, or it runs with other options than the named ones. Exit code 3: it did
    not come up, and nothing is left running.
    """
    from palimpsest.cli.processes import start_builds, start_service
    from palimpsest.serve.settings import BuildTerms

    if with_builds and build_every is None:
        build_every = 0  # Dagster builds
    found = start_service(call.home, port, call.backend, builds=BuildTerms(build_every, max_cost))
    if found.record is not None:
        names = ("port", "backend", "build_every", "max_cost")
        _check_same(context, call.home, **{name: getattr(found.record, name) for name in names})
    call.text(f"serving {_build_text(found.answer)} at {found.record.url if found.record else ''}")
    builds = start_builds(call.home) if with_builds else None
    if builds is not None and builds.record is not None:
        call.text(f"nightly builds run; the Dagster UI is at {builds.record.url}")
    extra = {} if builds is None else {"builds": builds.to_json()}
    call.result({**found.to_json(), "build_id": found.answer, "home": str(call.home_path), **extra})


def _build_text(build_id: str | None) -> str:
    return f"build {build_id}" if build_id else "a home without a build"


def _check_same(context: click.Context, home: Home, **running: object) -> None:
    """Checks that a service runs with the options that were named, by the command, a variable or a file.

    Raises:
        PalimpsestError: it does not.
    """
    for name, value in running.items():
        wanted, source = context.params[name], context.get_parameter_source(name)
        if source is not ParameterSource.DEFAULT and wanted != value and (name, wanted) != ("port", 0):  # 0: any
            runs = f"{name.replace('_', '-')} {'of the default' if value is None else value}"
            raise PalimpsestError(
                f"service: runs with {runs}, not {wanted}; palimpsest service stop{home_option(home)}, then start it"
            )


@service.command(short_help="Stop it, and its nightly builds.")
@common
def stop(call: Call) -> None:
    """Stop the service of a home, and its nightly builds; requests in progress are answered first."""
    from palimpsest.cli.processes import BUILDS, SERVICE
    from palimpsest.cli.processes import stop as stop_component

    builds_ran, ran = stop_component(call.home, BUILDS), stop_component(call.home, SERVICE)
    call.text("the service is stopped" if ran else "no service ran")
    if builds_ran:
        call.text("the nightly builds are stopped")
    call.result({"ran": ran, "builds_ran": builds_ran})


@service.command(short_help="Show whether it runs and answers.")
@common
def status(call: Call) -> None:
    """Show whether the service of a home runs and answers; exit code 3 where it does not."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli.processes import BUILDS, SERVICE
    from palimpsest.cli.processes import status as status_of

    found, builds = status_of(call.home, SERVICE), status_of(call.home, BUILDS)
    where = f": {_build_text(found.answer)} at {found.record.url}, process {found.record.pid}" if found.record else ""
    call.text(f"{found.state}{where}")
    call.text(f"nightly builds: {builds.state}{f', the Dagster UI is at {builds.record.url}' if builds.record else ''}")
    rest = {"build_id": found.answer, "home": str(call.home_path), "builds": builds.to_json()}
    call.result({**found.to_json(), **rest})
    if found.state != "running":
        raise ComponentFailed(f"service: {found.state}; palimpsest service start starts it")


@service.command(short_help="Show the last lines that it wrote.")
@common
@click.option("-n", "shown", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, at most.")
@click.option("--builds", "of_builds", is_flag=True, help="Of the nightly builds.")
def logs(call: Call, shown: int, of_builds: bool) -> None:
    """Show the last lines that the service wrote; `palimpsest logs` has the events of the home."""
    from palimpsest.cli.processes import BUILDS, SERVICE, log_lines

    lines = log_lines(call.home, BUILDS if of_builds else SERVICE, shown)
    call.show(visible("\n".join(lines)) or "no lines; palimpsest service start writes them", {"lines": lines})


@service.command(hidden=True)
@common
@PORT_OPTION
@BUILD_OPTION
@COST_OPTION
@click.option("--component", "name", type=click.Choice(["service", "builds"]), default="service")
def run(call: Call, port: int, build_every: float | None, max_cost: float | None, name: str) -> None:
    """Run in this process, and write what it prints into the home: what `start` runs in the background."""
    from palimpsest.cli.processes import BUILDS, SERVICE, run_component
    from palimpsest.serve.settings import BuildTerms

    run_component(
        call.home, BUILDS if name == "builds" else SERVICE, port, call.backend, BuildTerms(build_every, max_cost)
    )
