"""Brings the schema that `cypher/ddl` defines to a database: numbered migrations, removal of earlier versions."""
