"""Nodes a second next to neo4j-graphrag's Neo4jWriter: the same memories with vectors, on one server, in turns.

    python -m palimpsest_eval.studies.load_rates --memories 10000 --rounds 3 --theirs VENV/bin/python

Only nodes are compared: the writer creates relationships by APOC, which the server does not have. Our time includes
listing existing nodes, packing and writing, with constraints and every index in place.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from palimpsest_eval.bench.synthetic import SyntheticBuild, synthetic_build

_DELETE_THEIR_NODES = "MATCH (n:Theirs) WITH n LIMIT 5000 DETACH DELETE n RETURN count(*) AS n"


@dataclass(frozen=True)
class LoadRates:
    """Nodes a second of each round, and the median of the rounds' ratios of seconds."""

    memories: int
    ours_nodes_per_s: tuple[int, ...]
    theirs_nodes_per_s: tuple[int, ...]
    ratio: float


def measure_rates(memories: int, rounds: int, their_python: str) -> LoadRates:
    """Loads the same memories with both, round by round.

    One more round comes first and is not counted: a server that has just started is slow for both.
    """
    from palimpsest.index.write_index import write_index
    from palimpsest.neo4j_graph.connect import connect
    from palimpsest.neo4j_graph.load.erase import drop_home
    from palimpsest.neo4j_graph.load.loader import load_tables
    from palimpsest.neo4j_graph.server.local_server import remove_server, start_server

    with tempfile.TemporaryDirectory(prefix="palimpsest-writer-") as scratch:
        folder = Path(scratch)
        build = synthetic_build(memories, 50, "turns", 1)
        index = folder / "index.duckdb"
        write_index(build.tables, build.lookup, index, {"build_id": "000001"})
        _write_rows(folder, build)
        server = start_server(folder / "server")
        seconds: list[tuple[float, float]] = []
        try:
            with connect(server.uri, server.user, server.password) as connection:
                for number in range(rounds + 1):
                    home = f"{number:016x}"
                    stats = load_tables(home, build.tables, build.lookup, index, "synthetic", connection)
                    drop_home(connection, home)
                    their_s = _run_their_writer(their_python, folder, server.uri, server.user, server.password)
                    while connection.write(_DELETE_THEIR_NODES)[0]["n"]:
                        pass
                    seconds.append((stats.seconds["nodes Memory"], their_s))
        finally:
            remove_server(folder / "server")
    counted = seconds[1:]
    return LoadRates(
        memories,
        tuple(round(memories / ours) for ours, _ in counted),
        tuple(round(memories / theirs) for _, theirs in counted),
        round(statistics.median(theirs / ours for ours, theirs in counted), 2),
    )


def _run_their_writer(python: str, folder: Path, uri: str, user: str, password: str) -> float:
    """Returns the seconds of their writer, which runs under a Python that has it."""
    command = [python, str(Path(__file__).with_name("graphrag_writer.py")), str(folder), uri, user]
    done = subprocess.run(command, input=password, capture_output=True, text=True, check=True)  # noqa: S603
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def _write_rows(folder: Path, build: SyntheticBuild) -> None:
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
    args = parser.parse_args()
    sys.stdout.write(json.dumps(asdict(measure_rates(args.memories, args.rounds, args.theirs))) + "\n")
