"""Commands of the service: run it, make a token for development."""

import datetime as dt
from pathlib import Path

import click

from palimpsest.cli.shared import Output, common
from palimpsest.store.home import Home

PORT_OPTION = click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8765,
    envvar="PALIMPSEST_SERVE_PORT",
    show_default=True,
    help="0 means any free port.",
)


@click.group(invoke_without_command=True, short_help="Serve memories to applications over HTTP.")
@common
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@PORT_OPTION
@click.pass_context
def serve(context: click.Context, home_path: Path, as_json: bool, backend: str, host: str, port: int) -> None:
    """Serve the published build, the inbox and deletes over HTTP, until it is stopped.

    Whose memories are read follows from the token of a request alone: PALIMPSEST_JWT_SECRET, or
    PALIMPSEST_JWT_PUBLIC_KEY or PALIMPSEST_JWKS_URL of an identity provider.
    """
    if context.invoked_subcommand is not None:
        return
    from palimpsest.serve.run_server import run_server

    run_server(Home(home_path), backend, host, port)


@serve.command(short_help="Make a token for development.")
@common
@click.option("--user", required=True, help="Whose memories it gives access to.")
@click.option("--project", "projects", multiple=True, help="A project of theirs. May be given again.")
@click.option("--permission", "permissions", multiple=True, help="read, write or delete. [default: all]")
@click.option(
    "--hours", type=click.FloatRange(0.01, 24 * 30), default=1.0, show_default=True, help="How long it is valid."
)
def token(
    home_path: Path,
    as_json: bool,
    backend: str,
    user: str,
    projects: tuple[str, ...],
    permissions: tuple[str, ...],
    hours: float,
) -> None:
    """Print a token that is signed with PALIMPSEST_JWT_SECRET."""
    from palimpsest.serve.identity import PERMISSIONS
    from palimpsest.serve.settings import token_settings
    from palimpsest.serve.tokens import make_token

    out = Output(as_json)
    made = make_token(token_settings(), user, projects, permissions or PERMISSIONS, dt.timedelta(hours=hours))
    out.text(made)
    out.result({"token": made})


@serve.command(short_help="Serve one user's memories to a program, by MCP over its pipes.")
@common
def mcp(home_path: Path, as_json: bool, backend: str) -> None:
    """Speak the Model Context Protocol over stdin and stdout, for a program that starts this command.

    Whose memories it reads follows from the token in PALIMPSEST_TOKEN. Over HTTP, serve answers at /mcp.
    """
    from palimpsest.serve.run_server import run_stdio

    run_stdio(Home(home_path), backend)
