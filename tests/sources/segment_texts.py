"""Segments as tests compare them."""

from palimpsest.sources.extracted import ExtractedDocument


def segment_texts(document: ExtractedDocument) -> list[tuple[str, str | None, str]]:
    """Returns (kind, heading, text) of each segment."""
    return [(s.kind, s.heading, document.text[s.char_start : s.char_end]) for s in document.segments]
