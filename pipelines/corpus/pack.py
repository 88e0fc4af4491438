"""Packs the blocks of a document into chunks of a wanted size along its structure."""

from dataclasses import dataclass, replace
from itertools import groupby
from os.path import commonprefix

from pydantic import BaseModel, ConfigDict, Field

from pipelines.corpus.types import Segment

_SEPARATOR = " > "
_CHARS_PER_TOKEN = 10  # one unbroken run of letters is one token however long: its length counts then


class ChunkSizes(BaseModel):
    """Sizes of chunks in the embedder's tokens; `overlap` is a share of the target."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_tokens: int = Field(default=300, gt=0)
    target_tokens: int = Field(default=400, gt=0)
    max_tokens: int = Field(default=800, gt=0)
    overlap: float = Field(default=0.15, ge=0, lt=0.5)


@dataclass(frozen=True, slots=True)
class Piece:
    """The smallest part packing moves: a sentence, a line of a table or code, a heading; `block` is a segment."""

    span: Segment
    block: int
    tokens: int


@dataclass(slots=True)
class _Item:
    """Pieces that stay together."""

    pieces: list[Piece]

    @property
    def tokens(self) -> int:
        return sum(p.tokens for p in self.pieces)


def weigh(tokens: int, chars: int) -> int:
    """Returns what a piece counts towards a chunk's size; `chars` is its length with the white space before it."""
    return max(tokens, chars // _CHARS_PER_TOKEN)


def pack(pieces: list[Piece], text: str, sizes: ChunkSizes) -> list[Segment]:
    """Returns the spans of the chunks of one document.

    Sections below the highest heading that divides the document are packed apart, save that small neighbours share a
    chunk as long as they fit the target together. Inside a section a chunk is filled up to the target, and beyond it,
    up to the maximum, rather than left under the minimum or made to divide a table or code that fits. A heading stays
    with what follows it. Each chunk but a section's first begins with the last sentences of the one before.
    Packing runs forward only, so an edit changes no chunk of the sections before it, or of large ones after it.
    """
    return [span for group in _sections(pieces, sizes) for span in pack_group(group, text, sizes)]


def pack_group(pieces: list[Piece], text: str, sizes: ChunkSizes) -> list[Segment]:
    """Returns the spans of the chunks of pieces that may share one."""
    chunks: list[list[Piece]] = []
    current: list[Piece] = []
    size = 0
    for item in _items(pieces, sizes):
        full = size >= sizes.min_tokens and (
            size + item.tokens > sizes.target_tokens or item.pieces[0].span.kind == "heading"
        )
        if current and (full or size + item.tokens > sizes.max_tokens):
            chunks.append(current)
            current, size = [], 0
        current = current + item.pieces
        size += item.tokens
    chunks.append(current)
    if len(chunks) > 1 and size < sizes.min_tokens / 2 and size + _sum(chunks[-2]) <= sizes.max_tokens:
        chunks[-2:] = [chunks[-2] + chunks[-1]]
    spans = []
    for i, chunk in enumerate(chunks):
        first = chunk[0].span
        start, page = _overlap(chunks[i - 1], chunk, text, sizes) if i else (first.char_start, first.page)
        spans.append(_span(chunk, start, page))
    return spans


def _sections(pieces: list[Piece], sizes: ChunkSizes) -> list[list[Piece]]:
    tops = {p.span.heading.split(_SEPARATOR)[0] for p in pieces if p.span.heading}
    depth = 2 if len(tops) == 1 else 1  # one top heading is the document's title and divides nothing
    groups: list[list[Piece]] = []
    size = 0
    for _, members in groupby(pieces, key=lambda p: (p.span.heading or "").split(_SEPARATOR)[:depth]):
        section = list(members)
        tokens = _sum(section)
        title = bool(groups) and size <= sizes.target_tokens and all(p.span.kind == "heading" for p in groups[-1])
        if groups and (title or size + tokens <= sizes.target_tokens):
            groups[-1] += section
            size += tokens
        else:
            groups.append(section)
            size = tokens
    return groups


def _items(pieces: list[Piece], sizes: ChunkSizes) -> list[_Item]:
    items: list[_Item] = []
    headings: list[Piece] = []
    for _, members in groupby(pieces, key=lambda p: p.block):
        block = list(members)
        kind = block[0].span.kind
        if kind == "heading":
            if _sum(headings) + _sum(block) > sizes.target_tokens:
                items.append(_Item(headings))
                headings = []
            headings = headings + block
            continue
        whole = sizes.max_tokens if kind in ("table", "code") else sizes.target_tokens
        parts = [_Item(block)] if _sum(block) + _sum(headings) <= whole else [_Item([p]) for p in block]
        parts[0].pieces = headings + parts[0].pieces
        headings = []
        items += parts
    return items + ([_Item(headings)] if headings else [])


def _overlap(before: list[Piece], chunk: list[Piece], text: str, sizes: ChunkSizes) -> tuple[int, int | None]:
    """Returns (char_start, page) of a chunk, reaching back over the last sentences of the one before."""
    start, page = chunk[0].span.char_start, chunk[0].span.page
    wanted = int(sizes.overlap * sizes.target_tokens)
    if _sum(chunk) + wanted > sizes.max_tokens or chunk[0].span.kind not in ("prose", "turn"):
        return start, page
    taken = 0
    for piece in reversed(before):
        if piece.span.kind not in ("prose", "turn"):
            break
        if taken + piece.tokens > wanted:
            if not taken:  # one long sentence: its last words
                length = piece.span.char_end - piece.span.char_start
                at = piece.span.char_end - length * wanted // max(piece.tokens, 1)
                words = [i for i in range(at, piece.span.char_end) if text[i].isspace()][:1]
                start, page = (words[0] + 1, piece.span.page) if words else (start, page)
            break
        taken += piece.tokens
        start, page = piece.span.char_start, piece.span.page
    while start < chunk[0].span.char_start and text[start].isspace():
        start += 1
    return start, page


def _span(chunk: list[Piece], start: int, page: int | None) -> Segment:
    body = [p.span for p in chunk if p.span.kind != "heading"] or [p.span for p in chunk]
    paths = [s.heading.split(_SEPARATOR) if s.heading else [] for s in body]
    speakers, kinds = {s.speaker for s in body}, {s.kind for s in body}
    return replace(
        body[0],
        char_start=start,
        char_end=chunk[-1].span.char_end,
        kind=kinds.pop() if len(kinds) == 1 else "prose",
        heading=_SEPARATOR.join(commonprefix(paths)) or None,  # type: ignore[type-var]
        page=page,
        speaker=speakers.pop() if len(speakers) == 1 else None,
    )


def _sum(pieces: list[Piece]) -> int:
    return sum(p.tokens for p in pieces)
