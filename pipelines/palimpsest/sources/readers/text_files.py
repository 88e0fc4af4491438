"""Text files: plain text and reStructuredText, Markdown."""

import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from palimpsest.sources.extracted import ExtractedDocument, Extraction, Kind, Segment, Source, limit_problems
from palimpsest.sources.readers.chat_text import read_text_chat
from palimpsest.sources.readers.document_head import check_dates, find_stated_time
from palimpsest.sources.readers.encodings import decode, parse_name, title_from_uri
from palimpsest.sources.readers.front_matter import (
    check_fields,
    parse_relations,
    parse_scope,
    split_front_matter,
)
from palimpsest.sources.readers.text_builder import HeadingPath, first_heading
from palimpsest.store.collection_config import Limits

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


# Text files that may begin with front matter.


def read_text_document(
    source: Source,
    limits: Limits,
    media_type: str,
    find_segments: Callable[[str], list[Segment]],
    *,
    titled_by_heading: bool = False,
) -> Extraction:
    """Reads a text file in any common encoding; the text is what follows the front matter.

    Args:
        source: the file.
        limits: of the source.
        media_type: of the document.
        find_segments: returns the segments of the text.
        titled_by_heading: the first heading is the title where the front matter states none.

    Raises:
        Rejected: binary, unknown encoding, empty or too long, or its front matter names a user or project
            that cannot be used.
    """
    metadata, text, problems = split_front_matter(decode(source.data, limits), limits)
    relations, relation_problems = parse_relations(metadata, source.uri)
    problems += [*relation_problems, *check_fields(metadata), *check_dates(metadata, "front matter", source.dates)]
    scope = parse_scope(metadata)[0]
    segments = find_segments(text)
    heading = first_heading(segments) if titled_by_heading else None
    document = ExtractedDocument(
        uri=source.uri,
        media_type=media_type,
        text=text,
        title=parse_name(metadata.get("title")) or heading or title_from_uri(source.uri),
        user_id=scope.user_id,
        project_id=scope.project_id,
        session_id=scope.session_id,
        source_time=find_stated_time(metadata, source.dates),
        metadata=metadata,
        relations=relations,
        segments=tuple(segments),
    )
    return Extraction((document,), limit_problems(problems, limits))


_UNDERLINE = re.compile(r"([=\-~^\"'#*+`:.])\1{2,}")
_MAX_TITLE_CHARS = 150
_CHAT_SUFFIXES = (".txt", ".text", "")
_ASCIIDOC_TITLE = re.compile(r"(={1,6})[^\S\n]+(\S.*)")


def read_text(source: Source, limits: Limits) -> Extraction:
    """Reads plain text, reStructuredText or AsciiDoc; a chat that a program exported as text gives its turns.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    if source.suffix in _CHAT_SUFFIXES:
        chat = read_text_chat(source, decode(source.data, limits), limits)
        if chat is not None:
            return chat
    media_type = "text/x-rst" if source.suffix == ".rst" else "text/plain"
    is_asciidoc = source.suffix in (".adoc", ".asciidoc")
    return read_text_document(source, limits, media_type, lambda text: text_segments(text, asciidoc=is_asciidoc))


def text_segments(
    text: str, page: int | None = None, *, headings: bool = True, asciidoc: bool = False
) -> list[Segment]:
    """Returns the paragraphs and headings of a text.

    A heading is underlined, or in AsciiDoc begins with `=`. The level of an underline is the order in which its
    character first appears.

    Args:
        text: the text.
        page: of every segment.
        headings: whether to look for headings.
        asciidoc: whether lines that begin with `=` are headings.
    """
    path, levels = HeadingPath(), dict[str, int]()
    segments = []

    def add(start: int, end: int, kind: Kind) -> None:
        block = text[start:end]
        if block.strip():
            left = len(block) - len(block.lstrip())
            segments.append(Segment(start + left, start + len(block.rstrip()), kind, path.path, page))

    for start, end in _paragraphs(text):
        if headings:
            lines = text[start : min(end, start + 3 * _MAX_TITLE_CHARS)].split("\n")
            while asciidoc and lines and (marked := _ASCIIDOC_TITLE.fullmatch(lines[0])):
                path.push(len(marked[1]), marked[2])
                add(start, start + len(lines[0]), "heading")
                start += len(lines.pop(0)) + 1
            over = len(lines) > 2 and bool(_UNDERLINE.fullmatch(lines[0])) and lines[2].rstrip() == lines[0]
            used = lines[: 3 if over else 2]
            title, under = (used[-2], used[-1].rstrip()) if len(used) > 1 else ("", "")
            if _is_title(title, under, over):
                level = levels.setdefault(under[0] + ("over" if over else ""), len(levels) + 1)
                path.push(level, title)
                head, start = start, start + len("\n".join(used))
                add(head, start, "heading")
        add(start, end, "prose")
    return segments


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Returns the spans of runs of lines that are not blank."""
    spans: list[tuple[int, int]] = []
    at, is_open = 0, False
    for line in text.split("\n"):
        end = at + len(line)
        if not line or line.isspace():
            is_open = False
        elif is_open:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((at, end))
            is_open = True
        at = end + 1
    return spans


def _is_title(title: str, under: str, over: bool) -> bool:
    words = title.strip()
    if not words or len(title) > _MAX_TITLE_CHARS or not _UNDERLINE.fullmatch(under) or _UNDERLINE.fullmatch(words):
        return False
    return len(under) >= len(words) and (over or not title[0].isspace())


# Markdown: front matter, headings, paragraphs, lists, tables and code by the CommonMark block structure.

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
