"""The commands of the local Neo4j server, one for each OS user."""

from pathlib import Path

import click

from palimpsest.cli.shared import Output, common, confirm


@click.group()
def neo4j() -> None:
    """A local Neo4j server without Docker or an installed Java, one for each OS user."""


@neo4j.command(short_help="Start the server, fetching what is missing.")
@common
def start(home_path: Path, as_json: bool, backend: str) -> None:
    """Fetch what is missing, start the server, and wait until it answers."""
    from palimpsest.neo4j_graph.local_server import start_server

    out, info = Output(as_json), start_server()
    out.text(f"Neo4j answers at {info.uri}, user {info.user}, password in {info.password_file}")
    out.result({"uri": info.uri, "user": info.user, "password_file": str(info.password_file), "pid": info.pid})


@neo4j.command()
@common
def stop(home_path: Path, as_json: bool, backend: str) -> None:
    """Stop the server cleanly and wait until it is gone."""
    from palimpsest.neo4j_graph.local_server import stop_server

    out, ran = Output(as_json), stop_server()
    out.text("Neo4j is stopped" if ran else "no server ran")
    out.result({"ran": ran})


@neo4j.command(short_help="Remove the graphs of all homes from the local server, with every byte.")
@common
@click.option("--yes", is_flag=True, help="Do not ask first.")
def clear(home_path: Path, as_json: bool, backend: str, yes: bool) -> None:
    """Stop the local server and remove its graph, of all homes, with every byte that deletes left in its files.

    Start it afterwards, and load each home again: palimpsest build --graph.
    """
    from palimpsest.neo4j_graph.local_server import clear_server, server_home

    out, folder = Output(as_json), server_home()
    confirm(f"Remove the graphs of all homes from {folder}?", yes)
    clear_server(folder)
    out.text(f"{folder} has no graph; run palimpsest neo4j start, and palimpsest build --graph for each home")
    out.result({"cleared": str(folder)})


@neo4j.command(short_help="Show which server loads and queries use.")
@common
def status(home_path: Path, as_json: bool, backend: str) -> None:
    """Show which server loads and queries use, and what it can do; exit 2 or 3 where none answers."""
    from palimpsest.neo4j_graph.connect import connect

    out = Output(as_json)
    with connect() as connection:
        server = connection.capabilities
        out.text(f"Neo4j {server.version} {server.edition} answers at {connection.uri}")
        out.result({"uri": connection.uri, "version": server.version, "edition": server.edition})


@neo4j.command(short_help="Print the URI that loads and queries use.")
@common
def url(home_path: Path, as_json: bool, backend: str) -> None:
    """Print the URI that loads and queries use: NEO4J_URI, else the local server's."""
    from palimpsest.neo4j_graph.local_server import server_url

    out, uri = Output(as_json), server_url()
    out.text(uri)
    out.result({"uri": uri})
