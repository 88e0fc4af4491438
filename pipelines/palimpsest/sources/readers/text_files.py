"""Text files: plain text and reStructuredText, Markdown."""

import re
from collections.abc import Callable
from contextlib import suppress

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
from palimpsest.sources.readers.markdown import read_markdown_text
from palimpsest.sources.readers.restructured_text import restructured_segments
from palimpsest.sources.readers.text_builder import HeadingPath, first_heading
from palimpsest.store.collection_config import Limits

# Text files that may begin with front matter.


def read_text_document(
    source: Source,
    limits: Limits,
    media_type: str,
    read_body: Callable[[str], tuple[str, list[Segment], str]],
) -> Extraction:
    """Reads a text file in any common encoding; the text is what follows the front matter.

    Args:
        source: the file.
        limits: of the source.
        media_type: of the document.
        read_body: returns the text that is stored, its segments, and the title that it has where the front matter
            states none; empty where it has none either.

    Raises:
        Rejected: binary, unknown encoding, empty or too long, or its front matter names a user or project
            that cannot be used.
    """
    whole = decode(source.data, limits)
    metadata, text, problems = split_front_matter(whole, limits)
    first_line = 1 + whole.count("\n") - text.count("\n")
    relations, relation_problems = parse_relations(metadata, source.uri)
    problems += [*relation_problems, *check_fields(metadata), *check_dates(metadata, "front matter", source.dates)]
    scope = parse_scope(metadata)[0]
    text, segments, heading = read_body(text)
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
        first_line=first_line,
    )
    return Extraction((document,), limit_problems(problems, limits))


_UNDERLINE = re.compile(r"([=\-~^\"'#*+`:.])\1{2,}")
_MAX_TITLE_CHARS = 150
_CHAT_SUFFIXES = (".txt", ".text", "")
_ASCIIDOC_COMMENT = re.compile(r"^(/{4,})[ \t]*\n(?:.*\n)*?\1[ \t]*$|^//(?!/).*$", re.MULTILINE)
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

    def read_body(text: str) -> tuple[str, list[Segment], str]:
        if media_type == "text/x-rst":
            with suppress(Exception):  # docutils raises errors of any type; paragraphs are read all the same
                return text, *restructured_segments(text)
        if is_asciidoc:
            text = _ASCIIDOC_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)
        segments = text_segments(text, asciidoc=is_asciidoc)
        return text, segments, (first_heading(segments) or "") if is_asciidoc else ""

    return read_text_document(source, limits, media_type, read_body)


def read_markdown(source: Source, limits: Limits) -> Extraction:
    """Reads Markdown; the title is stated in the front matter or is the first heading.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    return read_text_document(source, limits, "text/markdown", read_markdown_text)


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
