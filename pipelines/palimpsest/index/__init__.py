"""The DuckDB file that queries read: written once by each build."""
