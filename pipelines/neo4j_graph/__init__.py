"""The served graph: a local Neo4j server, the model, the loader and its checks; all Cypher is in `cypher`."""
