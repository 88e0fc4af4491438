"""What a reader in another package imports; see docs/extending.md. These names stay when modules move."""

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Kind, Segment, Source, limit_problems
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, title_from_uri, to_json_value
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.text_builder import HeadingPath, TextBuilder
from palimpsest.store.collection_config import Limits

__all__ = [
    "ExtractedDocument",
    "Extraction",
    "HeadingPath",
    "Kind",
    "Limits",
    "Rejected",
    "Segment",
    "Source",
    "TextBuilder",
    "clean_text",
    "decode",
    "first_date",
    "limit_problems",
    "one_line",
    "title_from_uri",
    "to_json_value",
]
