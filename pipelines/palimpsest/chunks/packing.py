"""Packs the blocks of a document into chunks along its structure: their size, their overlap."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from os.path import commonprefix

from pydantic import BaseModel, ConfigDict, Field

from palimpsest.sources.extracted import Segment

# How much two neighbouring stretches of text speak of the same things, by the words they share.

_WORD = re.compile(r"[^\W\d_]{3,}|\d[\d.,]*")
_STEM_CHARS = 6
_WINDOW_TOKENS = 120


class Cohesion:
    """Cosine of the weighted words before and after each boundary between the pieces of one document.

    Words are cut to six letters, which serves as a stem in many languages, and weigh less the more pieces hold them.
    After Hearst, TextTiling (1997), with inverse piece frequency in place of a stop list.
    """

    def __init__(self, texts: Sequence[str], tokens: Sequence[int]) -> None:
        """Takes the texts of the pieces in order, and their sizes."""
        self._tokens = tokens
        self._words = [Counter(w[:_STEM_CHARS] for w in _WORD.findall(t.lower())) for t in texts]
        frequency = Counter(w for words in self._words for w in words)
        count = len(texts)
        self._weight = {w: math.log((count + 1) / f) for w, f in frequency.items()}

    def before(self, index: int) -> float:
        """Returns the cohesion, 0 to 1, of the boundary before piece `index`; 0 where one side has no words."""
        left = self._side(range(index - 1, -1, -1))
        right = self._side(range(index, len(self._words)))
        dot = sum(v * right[w] for w, v in left.items() if w in right)
        norm = math.sqrt(sum(v * v for v in left.values()) * sum(v * v for v in right.values()))
        return dot / norm if norm else 0.0

    def _side(self, indices: range) -> dict[str, float]:
        counts: Counter[str] = Counter()
        size = 0
        for i in indices:
            if size >= _WINDOW_TOKENS:
                break
            counts.update(self._words[i])
            size += self._tokens[i]
        return {w: (1 + math.log(n)) * self._weight[w] for w, n in counts.items()}


# Packs the blocks of a document into chunks along its structure: their size, their overlap.

_SEPARATOR = " > "
_SIZE_WEIGHT = 0.5  # of the squared distance from the target; cohesion is 0 to 1
_INSIDE_WEIGHT = 0.05  # of a cut that divides a paragraph
_CHARS_PER_TOKEN = 10  # one unbroken run of letters is one token however long: its length counts then


class ChunkSizes(BaseModel):
    """Sizes of chunks in the embedder's tokens; `overlap` is a share of the target.

    The defaults are those that did best in `eval.studies.chunking`: at the size of fixed chunks of 400 tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_tokens: int = Field(default=300, gt=0)
    target_tokens: int = Field(default=350, gt=0)
    prose_tokens: int = Field(default=460, gt=0, description="longest chunk of prose, its overlap counted")
    max_tokens: int = Field(default=800, gt=0, description="longest chunk, of a table or code that stays whole")
    overlap: float = Field(default=0.1, ge=0, lt=0.5)


@dataclass(frozen=True, slots=True)
class Piece:
    """The smallest part packing moves: a sentence, a line of a table or code, a heading; `block` is a segment."""

    span: Segment
    block: int
    tokens: int


@dataclass(slots=True)
class _Item:
    """Pieces that stay together; `inside` when a cut before them would divide a paragraph, table or code."""

    pieces: list[Piece]
    inside: bool = False

    @property
    def tokens(self) -> int:
        return sum(p.tokens for p in self.pieces)


def piece_size(tokens: int, chars: int) -> int:
    """Returns the size of a piece in tokens; `chars` is its length with the white space before it."""
    return max(tokens, chars // _CHARS_PER_TOKEN)


def pack(pieces: list[Piece], text: str, sizes: ChunkSizes) -> list[Segment]:
    """Returns the spans of the chunks of one document.

    Sections below the highest heading that divides the document are packed separately, except that small neighbors
    share a chunk as long as they fit the target together. Inside a section a chunk ends near the target, where the
    words before and after have least in common; it may be up to the maximum rather than leave one under the minimum or
    divide a table or code that fits. A heading is in the chunk of what follows it. Each chunk but a section's first
    begins with the last sentences of the one before, unless that would make it too long.
    Packing runs forward only, so an edit changes no chunk of the sections before it, or of large ones after it; in its
    own section the cuts soon fall again where they fell before.
    """
    return [span for group in _sections(pieces, sizes) for span in pack_group(group, text, sizes)]


def pack_group(pieces: list[Piece], text: str, sizes: ChunkSizes) -> list[Segment]:
    """Returns the spans of the chunks of pieces that may share one."""
    chunks: list[list[Piece]] = []
    items = _group_pieces(pieces, sizes)
    cohesion = Cohesion(
        ["".join(text[p.span.char_start : p.span.char_end] for p in item.pieces) for item in items],
        [item.tokens for item in items],
    )
    at, size = 0, 0
    while at < len(items):
        end, size = _next_chunk(items, at, cohesion, sizes)
        chunks.append([p for item in items[at:end] for p in item.pieces])
        at = end
    if len(chunks) > 1 and size < sizes.min_tokens / 2 and size + _total_tokens(chunks[-2]) <= sizes.max_tokens:
        chunks[-2:] = [chunks[-2] + chunks[-1]]
    spans = []
    for i, chunk in enumerate(chunks):
        first = chunk[0].span
        start, page = _overlap(chunks[i - 1], chunk, text, sizes) if i else (first.char_start, first.page)
        spans.append(_span(chunk, start, page))
    return spans


def _next_chunk(items: list[_Item], start: int, cohesion: Cohesion, sizes: ChunkSizes) -> tuple[int, int]:
    """Returns (end, size) of the chunk that begins at `start`.

    Cuts from the minimum to the longest prose are weighed, and one beyond that only where there is none before it.
    """
    size, found = 0, (start + 1, items[start].tokens)
    lowest_cost = float("inf")
    for end in range(start + 1, len(items) + 1):
        size += items[end - 1].tokens
        if (size > sizes.max_tokens and end > start + 1) or (size > sizes.prose_tokens and lowest_cost < float("inf")):
            break
        if size < sizes.min_tokens:
            found = (end, size)
            continue
        cost = _SIZE_WEIGHT * (size / sizes.target_tokens - 1) ** 2
        if end == len(items):
            cost = cost if size > sizes.target_tokens else 0.0
        elif items[end].pieces[0].span.kind != "heading":
            cost += cohesion.before(end) + (_INSIDE_WEIGHT if items[end].inside else 0.0)
        if (cost := round(cost, 6)) < lowest_cost:
            lowest_cost, found = cost, (end, size)
    return found


def _sections(pieces: list[Piece], sizes: ChunkSizes) -> list[list[Piece]]:
    tops = {p.span.heading.split(_SEPARATOR)[0] for p in pieces if p.span.heading}
    depth = 2 if len(tops) == 1 else 1  # one top heading is the document's title and divides nothing
    groups: list[list[Piece]] = []
    size = 0
    for _, members in groupby(pieces, key=lambda p: (p.span.heading or "").split(_SEPARATOR)[:depth]):
        section = list(members)
        tokens = _total_tokens(section)
        title = bool(groups) and size <= sizes.target_tokens and all(p.span.kind == "heading" for p in groups[-1])
        if groups and (title or size + tokens <= sizes.target_tokens):
            groups[-1] += section
            size += tokens
        else:
            groups.append(section)
            size = tokens
    return groups


def _group_pieces(pieces: list[Piece], sizes: ChunkSizes) -> list[_Item]:
    items: list[_Item] = []
    headings: list[Piece] = []
    for _, members in groupby(pieces, key=lambda p: p.block):
        block = list(members)
        kind = block[0].span.kind
        if kind == "heading":
            if _total_tokens(headings) + _total_tokens(block) > sizes.target_tokens:
                items.append(_Item(headings))
                headings = []
            headings = headings + block
            continue
        whole = kind in ("table", "code") and _total_tokens(block) + _total_tokens(headings) <= sizes.max_tokens
        parts = [_Item(block)] if whole else [_Item([p], inside=i > 0) for i, p in enumerate(block)]
        parts[0].pieces = headings + parts[0].pieces
        headings = []
        items += parts
    return items + ([_Item(headings)] if headings else [])


def _overlap(before: list[Piece], chunk: list[Piece], text: str, sizes: ChunkSizes) -> tuple[int, int | None]:
    """Returns (char_start, page) of a chunk with the last sentences of the one before."""
    start, page = chunk[0].span.char_start, chunk[0].span.page
    wanted = int(sizes.overlap * sizes.target_tokens)
    if _total_tokens(chunk) + wanted > sizes.prose_tokens or chunk[0].span.kind not in ("prose", "turn"):
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
        heading=_SEPARATOR.join(commonprefix(paths)) or None,
        page=page,
        speaker=speakers.pop() if len(speakers) == 1 else None,
    )


def _total_tokens(pieces: list[Piece]) -> int:
    return sum(p.tokens for p in pieces)


# Which pieces may share a chunk: none that an aside divides, and none that are valid at different times.


def split_runs(pieces: list[Piece], asides: Sequence[int]) -> list[list[Piece]]:
    """Returns the pieces of a document in runs that are packed separately, in order; most documents are one run.

    A heading is in the run of what follows it. Headings that an aside divides from their section make no chunk: the
    heading path of the section has them.

    Args:
        pieces: of a document, in order.
        asides: where its asides begin, in order.
    """
    keys: list[tuple[object, ...]] = []
    validity: tuple[object, ...] = ()
    for piece in reversed(pieces):
        stated = piece.span.stated
        if piece.span.kind != "heading" or not keys:
            validity = (stated.valid_from, stated.valid_until) if stated else (None, None)
        keys.append((bisect_right(asides, piece.span.char_start), *validity))
    keyed = zip(reversed(keys), pieces, strict=True)
    runs = [[piece for _, piece in run] for _, run in groupby(keyed, key=lambda k: k[0])]
    return [run for run, following in zip_longest(runs, runs[1:]) if not _only_headings(run, following)]


def _only_headings(run: list[Piece], following: list[Piece] | None) -> bool:
    if following is None or any(p.span.kind != "heading" for p in run):
        return False
    path, below = run[-1].span.heading, following[0].span.heading
    return bool(path and below) and f"{below} > ".startswith(f"{path} > ")
