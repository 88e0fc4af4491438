"""The commands `palimpsest instance ...`: several homes with names, each with its service."""

import shlex
from pathlib import Path
from typing import Literal

import click

from palimpsest.cli.shared import Output, confirm, json_option, visible
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.store.table_store import is_remote

_name = click.argument("name")
_port = click.option("--port", type=click.IntRange(1, 65_535), help="Of its service. [default: the first free one]")
_backend = click.option(
    "--backend",
    type=click.Choice(["duckdb", "neo4j"]),
    default="duckdb",
    show_default=True,
    help="What its service reads; neo4j has a server of its own.",
)
_BackendName = Literal["duckdb", "neo4j"]


@click.group()
def instance() -> None:
    """Homes with names, each with a service of its own.

    Every other command is about an instance after: eval "$(palimpsest instance env NAME)".
    """


@instance.command("list")
@json_option
def list_(out: Output) -> None:
    """List the instances, and whether they run."""
    from palimpsest.cli.manage_instances import list_instances

    found = list_instances()
    for s in found:
        i = s.instance
        out.text(f"{i.name}: {s.state}, port {s.port}, {i.backend}, home {i.home} ({s.home})")
    if not found:
        out.text("no instances; palimpsest instance create NAME makes one")
    out.result({"instances": [s.to_json() for s in found]})


@instance.command()
@json_option
@_port
@_backend
@_name
def create(out: Output, port: int | None, backend: _BackendName, name: str) -> None:
    """Make an instance with an empty home in the user's data folder."""
    from palimpsest.cli.manage_instances import create_instance

    made = create_instance(name, port, backend)
    home = shlex.quote(str(made.home))
    out.text(f"made {name}: palimpsest build --corpus DIR --home {home}, then palimpsest instance start {name}")
    out.result(made.to_json())


@instance.command()
@json_option
@_port
@_backend
@_name
@click.option("--home", "home_path", required=True, help="Folder of a home that exists.")
def add(out: Output, port: int | None, backend: _BackendName, name: str, home_path: str) -> None:
    """Register a home that exists under a name."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli.manage_instances import add_instance

    if is_remote(home_path):
        raise PalimpsestError(
            f"--home {home_path}: an instance is a folder; name the URL of a home on object storage in each command, "
            f"such as palimpsest service start --home {shlex.quote(home_path)}"
        )
    made = add_instance(name, Path(home_path), port, backend)
    out.show(f"{name} is home {made.home}, port {made.port}", made.to_json())


@instance.command(short_help="Start all parts of an instance.")
@json_option
@_name
@click.option("--builds", "with_builds", is_flag=True, help="Also run its nightly builds and the Dagster UI.")
def start(out: Output, name: str, with_builds: bool) -> None:
    """Start all parts of an instance, its Neo4j first where it has one, and wait until it can answer.

    Exit code 2: a setting is missing or wrong. Exit code 3: a part did not come up.
    """
    from palimpsest.cli.manage_instances import start_instance

    found = start_instance(name, with_builds)
    record = found.service.record if found.service else None
    out.text(f"{name}: {found.state}{f' at {record.url}' if record else ''}")
    if with_builds and found.builds and found.builds.record:
        out.text(f"{name}: nightly builds run; the Dagster UI is at {found.builds.record.url}")
    out.result(found.to_json())


@instance.command()
@json_option
@_name
def stop(out: Output, name: str) -> None:
    """Stop all parts of an instance."""
    from palimpsest.cli.manage_instances import stop_instance

    stopped = stop_instance(name)
    out.text(f"{name}: stopped {' and '.join(stopped)}" if stopped else f"{name}: nothing ran")
    out.result({"name": name, "stopped": stopped})


@instance.command(short_help="Show how the parts of an instance are.")
@json_option
@_name
def status(out: Output, name: str) -> None:
    """Show how the parts of an instance are; exit code 3 where its service does not answer."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli.manage_instances import instance_status

    found = instance_status(name)
    server = "" if found.neo4j is None else f", neo4j {'running' if found.neo4j else 'stopped'}"
    build = f", build {found.service.answer}" if found.service and found.service.answer else ""
    builds = f", nightly builds {found.builds.state if found.builds else 'with a damaged record'}"
    out.show(f"{name}: home {found.home}, service {found.state}{build}{builds}{server}", found.to_json())
    if found.state != "running":
        raise ComponentFailed(f"instance {name}: service {found.state}; palimpsest instance start {name} starts it")


@instance.command()
@json_option
@_name
@click.option("-n", "shown", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, at most.")
@click.option("--builds", "of_builds", is_flag=True, help="Of its nightly builds.")
def logs(out: Output, name: str, shown: int, of_builds: bool) -> None:
    """Show the last lines that the service of an instance wrote."""
    from palimpsest.cli.instance_registry import find_instance
    from palimpsest.cli.processes import BUILDS, SERVICE, log_lines
    from palimpsest.store.home import Home

    home = Home(find_instance(name).home)
    lines = log_lines(home, BUILDS if of_builds else SERVICE, shown)
    out.show(visible("\n".join(lines)) or "no lines; palimpsest instance start writes them", {"lines": lines})


@instance.command(short_help="Stop an instance and remove it.")
@json_option
@_name
@click.option("--with-home", is_flag=True, help="Also remove a home that was registered, not made here.")
@click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")
def delete(out: Output, name: str, with_home: bool, yes: bool) -> None:
    """Stop an instance, remove it and, where it was made here, its home with all memories in it.

    Sources outside of the home stay, and so does a home that was registered.
    """
    from palimpsest.cli.instance_registry import find_instance
    from palimpsest.cli.manage_instances import delete_instance

    found = find_instance(name)
    what = f" and its home {found.home} with all memories" if found.is_own or with_home else ""
    confirm(f"Delete instance {name}{what}?", yes)
    removed = delete_instance(name, with_home)
    out.text(f"deleted {name}" + (f" and {removed}" if removed else f"; its home {found.home} is still there"))
    out.result({"name": name, "home": str(found.home), "home_removed": removed is not None})


@instance.command()
@json_option
@_name
def path(out: Output, name: str) -> None:
    """Print the home of an instance."""
    from palimpsest.cli.instance_registry import find_instance

    found = find_instance(name)
    out.show(str(found.home), {"home": str(found.home)})


@instance.command(short_help="Print the variables of an instance for a shell.")
@json_option
@_name
def env(out: Output, name: str) -> None:
    """Print the variables with which every command is about an instance, for a shell to evaluate."""
    from palimpsest.cli.instance_registry import find_instance
    from palimpsest.cli.manage_instances import instance_variables

    variables = instance_variables(find_instance(name))
    out.text("\n".join(f"export {key}={shlex.quote(value)}" for key, value in variables.items()))
    out.result({"variables": variables})
