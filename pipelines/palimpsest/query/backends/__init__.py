"""The DuckDB backend: it reads a scope into arrays."""
