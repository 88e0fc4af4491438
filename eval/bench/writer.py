"""Loading side by side with neo4j-graphrag's Neo4jWriter: the same memories with vectors, one server, turn by turn.

    python -m palimpsest.eval.bench.writer --memories 10000 --rounds 3 --theirs VENV/bin/python

Compared are nodes only, for the writer makes relationships by APOC, which the server does not have. Our side counts all
that makes memories: listing what is there, packing, writing, with constraints and every index in place.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from palimpsest.eval.bench.synthetic import SyntheticBuild, synthetic_build

_TIDY = "MATCH (n:Theirs) WITH n LIMIT 5000 DETACH DELETE n RETURN count(*) AS n"


def race(memories: int, rounds: int, theirs: str) -> dict[str, Any]:
    """Returns seconds and nodes a second of both sides, and the median of the rounds' ratios.

    A round that nobody counts comes first: a server that has just started is slow for both.
    """
    from palimpsest.index.write_index import write_index
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.erase import drop_home
    from palimpsest.neo4j_graph.load import load_tables
    from palimpsest.neo4j_graph.server import remove_server, start_server

    with tempfile.TemporaryDirectory(prefix="palimpsest-writer-") as scratch:
        folder = Path(scratch)
        build = synthetic_build(memories, 50, "turns", 1)
        write_index(build.tables, build.lookup, folder / "index.duckdb", {"build_id": "000001"})
        _prepare(folder, build)
        server = start_server(folder / "server")
        done = []
        try:
            with connect(server.uri, server.user, server.password) as connection:
                for number in range(rounds + 1):
                    home = f"{number:016x}"
                    index = folder / "index.duckdb"
                    stats = load_tables(home, build.tables, build.lookup, index, "synthetic", connection)
                    drop_home(connection, home)
                    command = [
                        theirs,
                        str(Path(__file__).with_name("graphrag_writer.py")),
                        str(folder),
                        server.uri,
                        server.user,
                    ]
                    ran = subprocess.run(  # noqa: S603
                        command, input=server.password, capture_output=True, text=True, check=True
                    )
                    while connection.write(_TIDY)[0]["n"]:
                        pass
                    their_s = json.loads(ran.stdout.splitlines()[-1])["seconds"]
                    done.append((stats.seconds["nodes Memory"], their_s))
        finally:
            remove_server(folder / "server")
    counted = done[1:]
    return {
        "memories": memories,
        "ours_nodes_per_s": [round(memories / ours) for ours, _ in counted],
        "theirs_nodes_per_s": [round(memories / their) for _, their in counted],
        "ratio": round(statistics.median(their / ours for ours, their in counted), 2),
    }


def _prepare(folder: Path, build: SyntheticBuild) -> None:
    """Writes the memories as rows of plain values, and their vectors."""
    memories = build.tables["memories"].sort("memory_id")
    inputs = build.tables["embed_inputs"].sort("memory_id")
    np.save(folder / "vectors.npy", build.lookup(inputs["text_hash"].to_list()))
    with (folder / "nodes.jsonl").open("w", encoding="utf-8") as out:
        for row in memories.to_dicts():
            plain = {k: v if isinstance(v, str | int | float | bool) else str(v) for k, v in row.items() if v}
            out.write(json.dumps(plain) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--theirs", required=True, help="a Python that has neo4j-graphrag")
    told = parser.parse_args()
    sys.stdout.write(json.dumps(race(told.memories, told.rounds, told.theirs)) + "\n")
