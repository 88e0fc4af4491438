"""A loader in a separate process, for tests that kill it: folder, build, home, uri, password, options of `make`."""

import json
import sys
from pathlib import Path

from palimpsest.neo4j_graph.connect import connect
from tests.neo4j_graph.made import make

if __name__ == "__main__":
    folder, build, home, uri, password, options = sys.argv[1:]
    with connect(uri, "neo4j", password) as connection:
        make(Path(folder), build, **json.loads(options)).load(home, connection)
