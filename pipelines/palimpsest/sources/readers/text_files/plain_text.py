"""Plain text and reStructuredText: paragraphs at blank lines, headings where a title is underlined."""

import re

from palimpsest.sources.readers.common.text_builder import HeadingPath
from palimpsest.sources.readers.text_files.text_document import read_text_document
from palimpsest.sources.records.extracted import Extraction, Kind, Segment
from palimpsest.sources.records.source import Source
from palimpsest.store.limits import Limits

_UNDERLINE = re.compile(r"([=\-~^\"'#*+`:.])\1{2,}")
_MAX_TITLE_CHARS = 150
_ASCIIDOC_TITLE = re.compile(r"(={1,6})[^\S\n]+(\S.*)")


def read_text(source: Source, limits: Limits) -> Extraction:
    """Reads plain text, reStructuredText or AsciiDoc.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
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
