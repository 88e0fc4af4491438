"""The query backend over Neo4j: the same answers as the embedded one."""
