"""What a home contains: the ingest log, Parquet tables, numbered builds, vectors, people's decisions."""
