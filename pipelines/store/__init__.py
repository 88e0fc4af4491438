"""What a home holds: the ingest log, Parquet tables, numbered builds, vectors, people's decisions."""
