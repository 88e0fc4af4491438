"""What applications send to a home: texts, sessions and files, written at once and formed by the next build."""

from palimpsest.sources.inbox.receive import Receipt, ingest_file, ingest_session, ingest_text

__all__ = ["Receipt", "ingest_file", "ingest_session", "ingest_text"]
