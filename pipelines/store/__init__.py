"""What a build writes: the ingest log, Parquet tables, numbered builds, the DuckDB index."""
