"""Markdown: front matter, headings, paragraphs, lists, tables and code by the CommonMark block structure."""

import re
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from palimpsest.sources.readers.common.clean_text import text_or_none, title_from_uri
from palimpsest.sources.readers.common.document_time import date_problems, stated_time
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.front_matter import field_problems, split_front_matter, stated_relations
from palimpsest.sources.readers.common.text_builder import HeadingPath
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, Kind, Segment
from palimpsest.sources.records.source import Source, listed
from palimpsest.store.limits import Limits

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_KINDS: dict[str, Kind] = {"heading_open": "heading", "fence": "code", "code_block": "code", "table_open": "table"}
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_EMPHASIS = re.compile(r"(?<![\w\\])[*_]{1,3}(?=\S)|(?<=[^\s\\])[*_]{1,3}(?!\w)|`")


def read_markdown(source: Source, limits: Limits) -> Extraction:
    """Reads Markdown; the text is what follows the front matter, the title is stated there or is the first heading.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    metadata, text, problems = split_front_matter(decode(source.data, limits), limits)
    relations, more = stated_relations(metadata, source.uri)
    more += field_problems(metadata)
    more += date_problems(metadata, "front matter", source.dates)
    segments = markdown_segments(text)
    first = next((s.heading for s in segments if s.kind == "heading" and s.heading), None)
    document = ExtractedDocument(
        uri=source.uri,
        media_type="text/markdown",
        text=text,
        title=text_or_none(metadata.get("title")) or first or title_from_uri(source.uri),
        user_id=text_or_none(metadata.get("user_id")),
        project_id=text_or_none(metadata.get("project_id")),
        session_id=text_or_none(metadata.get("session_id")),
        source_time=stated_time(metadata, source.dates),
        metadata=metadata,
        relations=relations,
        segments=tuple(segments),
    )
    return Extraction((document,), listed(problems + more, limits))


def markdown_segments(text: str) -> list[Segment]:
    """Returns the top-level blocks of a Markdown text, in order; they hold all its text but thematic breaks."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    path = HeadingPath()
    segments: list[Segment] = []

    def add(first_line: int, end_line: int, kind: Kind) -> None:
        start, end = starts[first_line], min(starts[end_line], len(text))
        block = text[start:end]
        # The indent of a code block is part of it; of any other block it is not.
        left = len(block) - len(block.lstrip("\n" if kind == "code" else None))
        if block.strip():
            segments.append(Segment(start + left, start + len(block.rstrip()), kind, path.path))

    tokens = _parser().parse(text)
    at = 0
    for i, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        first_line, end_line = token.map
        add(at, first_line, "prose")  # link definitions leave no token
        at = max(at, end_line)
        if token.type == "hr":
            continue
        kind = _KINDS.get(token.type, "prose")
        if kind == "heading":
            path.push(int(token.tag[1]), heading_text(tokens[i + 1].content[:1000]))
        add(first_line, end_line, kind)
    add(at, len(starts) - 1, "prose")
    return segments


def heading_text(inline: str) -> str:
    """Returns a heading's words without the marks of links, emphasis and code."""
    return _EMPHASIS.sub("", _LINK.sub(r"\1", inline))


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Inline marks are not needed: spans are whole blocks, and citations quote the source as written.
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
