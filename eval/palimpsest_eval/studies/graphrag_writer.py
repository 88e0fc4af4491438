"""Loads prepared rows with neo4j-graphrag's Neo4jWriter and prints its seconds, for `load_rates`.

Runs under a Python that has neo4j-graphrag and nothing of this project. The writer's node objects are made before the
clock starts.
"""

import asyncio
import json
import sys
import time
from pathlib import Path


def main(folder: Path, uri: str, user: str) -> None:
    """Writes the nodes of a folder; reads the password from stdin.

    Raises:
        SystemExit: the writer reports a failure; its metadata is the message.
    """
    import neo4j
    import numpy as np
    from neo4j_graphrag.components.kg_writer import Neo4jWriter
    from neo4j_graphrag.components.types import Neo4jGraph, Neo4jNode

    vectors = np.load(folder / "vectors.npy").tolist()
    rows = [json.loads(line) for line in (folder / "nodes.jsonl").open(encoding="utf-8")]
    nodes = [
        Neo4jNode(id=str(i), label="Theirs", properties=row, embedding_properties={"embedding": vector})
        for i, (row, vector) in enumerate(zip(rows, vectors, strict=True))
    ]
    with neo4j.GraphDatabase.driver(uri, auth=(user, sys.stdin.readline().strip())) as driver:
        writer = Neo4jWriter(driver)
        started = time.perf_counter()
        result = asyncio.run(writer.run(Neo4jGraph(nodes=nodes)))
        seconds = time.perf_counter() - started
    if result.status != "SUCCESS":
        raise SystemExit(str(result.metadata))
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
