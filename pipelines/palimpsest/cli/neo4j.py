"""The commands of the local Neo4j server, one for each OS user."""

import click

from palimpsest.cli.shared import Call, common, confirm


@click.group()
def neo4j() -> None:
    """A local Neo4j server without Docker or an installed Java, one for each OS user."""


@neo4j.command(short_help="Start the server, fetching what is missing.")
@common
def start(call: Call) -> None:
    """Fetch what is missing, start the server, and wait until it answers."""
    from palimpsest.neo4j_graph.local_server import start_server

    info = start_server()
    call.text(f"Neo4j answers at {info.uri}, user {info.user}, password in {info.password_file}")
    if info.browser:
        call.text(f"Neo4j Browser is at {info.browser}")
    shown = {"uri": info.uri, "user": info.user, "password_file": str(info.password_file), "pid": info.pid}
    call.result(shown | {"browser": info.browser})


@neo4j.command()
@common
def stop(call: Call) -> None:
    """Stop the server cleanly and wait until it is gone."""
    from palimpsest.neo4j_graph.local_server import stop_server

    ran = stop_server()
    call.show("Neo4j is stopped" if ran else "no server ran", {"ran": ran})


@neo4j.command(short_help="Remove the graphs of all homes from the local server, with every byte.")
@common
@click.option("--yes", is_flag=True, help="Do not ask first.")
def clear(call: Call, yes: bool) -> None:
    """Stop the local server and remove its graph, of all homes, with every byte that deletes left in its files.

    Start it afterwards, and load each home again: palimpsest build --graph.
    """
    from palimpsest.neo4j_graph.local_server import clear_server, server_home

    folder = server_home()
    confirm(f"Remove the graphs of all homes from {folder}?", yes)
    clear_server(folder)
    call.text(f"{folder} has no graph; run palimpsest neo4j start, and palimpsest build --graph for each home")
    call.result({"cleared": str(folder)})


@neo4j.command(short_help="Show which server loads and queries use.")
@common
def status(call: Call) -> None:
    """Show which server loads and queries use, and what it can do; exit 2 or 3 where none answers."""
    from palimpsest.neo4j_graph.connect import connect

    with connect() as connection:
        server = connection.capabilities
        call.text(f"Neo4j {server.version} {server.edition} answers at {connection.uri}")
        call.result({"uri": connection.uri, "version": server.version, "edition": server.edition})


@neo4j.command(short_help="Print the URI that loads and queries use.")
@common
def url(call: Call) -> None:
    """Print the URI that loads and queries use: NEO4J_URI, else the local server's."""
    from palimpsest.neo4j_graph.local_server import server_url

    uri = server_url()
    call.show(uri, {"uri": uri})
