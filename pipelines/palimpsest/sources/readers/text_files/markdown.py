"""Markdown: front matter, headings, paragraphs, lists, tables and code by the CommonMark block structure."""

import re
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from palimpsest.sources.readers.common.text_builder import HeadingPath
from palimpsest.sources.readers.text_files.text_document import read_text_document
from palimpsest.sources.records.extracted import Extraction, Kind, Segment
from palimpsest.sources.records.source import Source
from palimpsest.store.limits import Limits

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_KINDS: dict[str, Kind] = {"heading_open": "heading", "fence": "code", "code_block": "code", "table_open": "table"}
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_EMPHASIS = re.compile(r"(?<![\w\\])[*_]{1,3}(?=\S)|(?<=[^\s\\])[*_]{1,3}(?!\w)|`")


def read_markdown(source: Source, limits: Limits) -> Extraction:
    """Reads Markdown; the title is stated in the front matter or is the first heading.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    return read_text_document(source, limits, "text/markdown", markdown_segments, titled_by_heading=True)


def markdown_segments(text: str) -> list[Segment]:
    """Returns the top-level blocks of a Markdown text, in order: all its text but thematic breaks."""
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
    done = 0  # lines
    for i, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        first_line, end_line = token.map
        add(done, first_line, "prose")  # link definitions leave no token
        done = max(done, end_line)
        if token.type == "hr":
            continue
        kind = _KINDS.get(token.type, "prose")
        if kind == "heading":
            path.push(int(token.tag[1]), _heading_text(tokens[i + 1].content[:1000]))
        add(first_line, end_line, kind)
    add(done, len(starts) - 1, "prose")
    return segments


def _heading_text(inline: str) -> str:
    """Returns a heading's words without the marks of links, emphasis and code."""
    return _EMPHASIS.sub("", _LINK.sub(r"\1", inline))


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Inline marks are not needed: spans are whole blocks, and citations quote the source as written.
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
