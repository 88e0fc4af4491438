"""The body of a mail as documents: its writer's words, and each quote by itself with its own author and day."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from palimpsest.sources.readers.common.text_builder import HeadingPath, TextBuilder
from palimpsest.sources.readers.mail.mail_phrases import (
    is_closing,
    is_greeting,
    is_name_of,
    is_phone_note,
    may_be_signature,
)
from palimpsest.sources.readers.mail.mail_quotes import Line, Quote, parse_line, split_quotes
from palimpsest.sources.readers.web.markup import add_markup
from palimpsest.sources.records.extracted import Segment
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_DELIMITER = re.compile(r"(?:--|—)\s*")
_QUOTE_CLASS = re.compile(r"quote|cite", re.IGNORECASE)
_SIGNATURE = re.compile(r"signature", re.IGNORECASE)
_MAX_BELOW = 12  # lines below a closing that may be a signature


def text_lines(text: str) -> tuple[list[Line], list[Segment | None]]:
    """Returns the lines of a plain body, and None for each of its blocks: none has a heading or a kind of its own."""
    lines: list[Line] = []
    for block, paragraph in enumerate(_BLANK.split(text.strip("\n"))):
        lines += [parse_line(line, block) for line in paragraph.split("\n")]
        lines.append(Line("", 0, block))
    return lines, [None] * (block + 1)


def html_lines(root: Any, limits: Limits) -> tuple[list[Line], list[Segment | None]]:
    """Returns the lines of an HTML body and the segment of each block.

    Tables, code and headings are whole blocks, not lines.

    Quotes and signatures that say so in their markup become lines with `>` and lines under `--`.
    """
    for element in reversed(list(root.iter("blockquote", "div", "span", "p"))):
        if element is root or element.getparent() is None:
            continue
        names = " ".join(element.get(a) or "" for a in ("class", "id", "type"))
        if element.tag == "blockquote" and _QUOTE_CLASS.search(names):
            _replace(element, "> ", _rendered(element, limits))
        elif _SIGNATURE.search(names):
            _replace(element, "", ["--", *_rendered(element, limits)])
    builder = TextBuilder(limits.max_chars)
    add_markup(root, builder, HeadingPath(), whole=True)
    text, lines, segments = builder.text, list[Line](), list[Segment | None]()
    for block, segment in enumerate(builder.segments):
        words = text[segment.char_start : segment.char_end]
        each = words.split("\n")
        marked = all(line.startswith(">") for line in each) or each[0] == "--"
        if segment.kind == "prose" or marked:
            lines += [*(parse_line(line, block) for line in each), Line("", 0, block)]
        else:
            lines.append(Line(words, 0, block, whole=True))
        segments.append(segment)
    return lines, segments


def _rendered(element: Any, limits: Limits) -> list[str]:
    builder = TextBuilder(limits.max_chars)
    add_markup(element, builder, HeadingPath(), whole=True)
    return builder.text.split("\n")


def _replace(element: Any, mark: str, lines: Sequence[str]) -> None:
    """Puts preformatted lines in the place of an element, so that each stays a line of its own."""
    parent, tail = element.getparent(), element.tail
    new = element.makeelement("pre")
    new.text = "\n".join(f"{mark}{line}" for line in lines if line.strip() or mark)
    new.tail = tail
    parent.replace(element, new)


def add_words(
    builder: TextBuilder,
    lines: Sequence[Line],
    segments: Sequence[Segment | None],
    path: HeadingPath,
    speaker: str | None,
    said_at: datetime | None,
    first: bool = True,
) -> int:
    """Appends lines by one person as paragraphs; a greeting, a closing and a signature become asides.

    Args:
        builder: receives the segments.
        lines: what one person wrote, in order.
        segments: what each block was in the mail, where that is known.
        path: the headings above.
        speaker: who wrote it.
        said_at: when.
        first: whether the lines begin the mail, so that a greeting is possible.

    Returns:
        How many segments are words.
    """
    words = 0
    for part in _parts(lines, speaker, first):
        segment = segments[part.block]
        heading = " > ".join(h for h in (path.path, segment.heading if segment else None) if h) or None
        if part.aside:
            builder.add(part.text, "aside", heading=heading)
            continue
        kind = segment.kind if segment and part.whole else "prose"
        builder.add(part.text, kind, heading=heading, speaker=speaker, said_at=said_at)
        words += 1
    return words


class _Part(NamedTuple):
    """Lines of one block with one role."""

    text: str
    block: int
    aside: bool
    whole: bool


def _parts(lines: Sequence[Line], speaker: str | None, first: bool) -> Iterator[_Part]:
    """Yields paragraphs, and the greetings and closings in them, in order; a blank line ends each."""
    keyed = [
        (line, (line.block, aside, line.whole, not line.text.strip() and not line.whole))
        for line, aside in zip(lines, _asides(lines, speaker, first), strict=True)
    ]
    for (block, aside, whole, blank), some in groupby(keyed, key=lambda k: k[1]):
        if not blank:
            yield _Part("\n".join(line.text for line, _ in some).strip(), block, aside, whole)


def _asides(lines: Sequence[Line], speaker: str | None, first: bool) -> list[bool]:
    """Returns for each line whether it is a greeting, a closing, a signature or a note of a phone."""
    out = [False] * len(lines)
    full = [n for n, line in enumerate(lines) if line.text.strip() or line.whole]
    if not full:
        return out
    if first:
        after = lines[full[0] + 1 : full[0] + 2]
        alone = not after or not after[0].text.strip()
        out[full[0]] = not lines[full[0]].whole and is_greeting(lines[full[0]].text.strip(), alone)
    for place, n in enumerate(full):
        text = lines[n].text.strip()
        if lines[n].whole:
            continue
        below = full[place + 1 :]
        if is_phone_note(text):
            out[n] = True
        elif _DELIMITER.fullmatch(text):
            out[n:] = [True] * (len(lines) - n)
            break
        elif place and is_closing(text) and len(below) <= _MAX_BELOW:
            out[n] = True
            for b in below:
                if lines[b].whole or not may_be_signature(lines[b].text.strip()):
                    break
                out[b] = True
    last = full[-1]
    if len(full) > 1 and not lines[last].whole and is_name_of(lines[last].text.strip(), speaker):
        out[last] = True
    return out


def find_quotes(
    lines: Sequence[Line], order: DateOrder | None, said_at: datetime | None
) -> tuple[list[list[Line]], list[Quote]]:
    """Returns the writer's own lines and the quotes; a quote dated after the mail that holds it is undated."""
    own, quotes = split_quotes(lines, order)
    for quote in quotes:
        if quote.when and said_at and quote.when.date() > said_at.date():
            quote.when = None
    return own, quotes


def add_quote(builder: TextBuilder, quote: Quote, segments: Sequence[Segment | None], path: HeadingPath) -> int:
    """Appends a quote, the lines that introduce it as an aside; returns how many segments are words."""
    if head := "\n".join(line.text for line in quote.head).strip():
        builder.add(head, "aside", heading=path.path)
    lines = [replace(line, depth=0) for line in quote.lines]
    return add_words(builder, lines, segments, path, quote.author, quote.when)
