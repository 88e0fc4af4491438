"""The graph in Neo4j: its model and Cypher, the loader and its checks, a local server, and the query backend."""
