"""One real server for the whole folder; if it does not start, the tests fail: they are never skipped."""

from pathlib import Path

import pytest

from palimpsest.neo4j_graph import connect as connect_module
from palimpsest.neo4j_graph import local_server
from palimpsest.neo4j_graph.connect import connect
from palimpsest.neo4j_graph.local_server import jar_folder, remove_server, server_status, start_server
from tests.neo4j_graph.made import empty_homes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and {"server", "graph"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.neo4j)


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory):
    """The folder of a server of this test run alone; the jars are the user's."""
    folder = tmp_path_factory.mktemp("neo4j")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALIMPSEST_NEO4J_JARS", str(jar_folder()))
        # The optimizing compiler does not pay off in a server that runs for a minute.
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        # Tests fill and empty the database all the time: the server would plan every statement again after 10 s.
        patch.setattr(local_server, "CONF", local_server.CONF + "dbms.cypher.min_replan_interval=1h\n")
        patch.setattr(connect_module, "RETRY_S", 1.0)
        yield folder
        remove_server(folder)


@pytest.fixture(scope="session")
def server(server_folder):
    """A server that answers."""
    return start_server(server_folder, heap="600m")


@pytest.fixture(scope="session")
def connected(server_folder):
    """Returns a function that gives the one connection to the server, started again where a test stopped it."""
    made = {}

    def current():
        info = server_status(server_folder)
        info = info if info.running else start_server(server_folder, heap="600m")
        if info.pid not in made:
            for old in made.values():
                old.close()
            made.clear()
            made[info.pid] = connect(info.uri, info.user, info.password)
        return made[info.pid]

    yield current
    for old in made.values():
        old.close()


@pytest.fixture
def graph(server, connected):
    """A connection to the server; afterwards the rows of the test's homes are deleted."""
    yield connected()
    empty_homes(connected())
