"""The chunks of every document version: where texts are cut, how blocks are packed, and the table of their spans."""

import datetime as dt
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, zip_longest
from os.path import commonprefix

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from palimpsest.core.files import progress
from palimpsest.core.ids import DOCUMENT, GENERAL, SCOPE, VERSION_ORDER, content_id, scope_parts
from palimpsest.core.times import utc_offset
from palimpsest.sources.extracted import HEADINGS, SUITE_ROW, ExtractedDocument, Kind, Segment, combine_stated_fields
from palimpsest.store.collection_config import CollectionConfig, Unit
from palimpsest.store.tables import SCHEMAS, conform, empty
from palimpsest.text.referents import opening_referents
from palimpsest.text.sentences import MAX_SENTENCE_CHARS, document_sentence_spans, skip_list_marker
from palimpsest.text.tokenizer import CountTokens, count_tokens_batch

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
        elif items[end].pieces[0].span.kind not in HEADINGS:
            cost += cohesion.before(end) + (_INSIDE_WEIGHT if items[end].inside else 0.0)
        if (cost := round(cost, 6)) < lowest_cost:
            lowest_cost, found = cost, (end, size)
    return found


def _sections(pieces: list[Piece], sizes: ChunkSizes) -> list[list[Piece]]:
    tops = {p.span.heading.split(_SEPARATOR)[0] for p in pieces if p.span.heading}
    depth = 2 if len(tops) == 1 else 1  # one top heading is the document's title and divides nothing
    groups: list[list[Piece]] = []
    size = 0
    keyed = zip(_section_paths(pieces), pieces, strict=True)
    for _, members in groupby(keyed, key=lambda k: k[0].split(_SEPARATOR)[:depth]):
        section = [piece for _, piece in members]
        tokens = _total_tokens(section)
        title = bool(groups) and size <= sizes.target_tokens and all(p.span.kind in HEADINGS for p in groups[-1])
        if groups and (title or size + tokens <= sizes.target_tokens):
            groups[-1] += section
            size += tokens
        else:
            groups.append(section)
            size = tokens
    return groups


def _section_paths(pieces: list[Piece]) -> Iterator[str]:
    """Yields the path of the headings above each piece, without the list items that it is under."""
    heading: str | None = None
    for piece in pieces:
        path = piece.span.heading or ""
        heading = path if piece.span.kind == "heading" else heading
        yield heading if heading and path.startswith(heading) else path


def _group_pieces(pieces: list[Piece], sizes: ChunkSizes) -> list[_Item]:
    items: list[_Item] = []
    headings: list[Piece] = []
    for _, members in groupby(pieces, key=lambda p: p.block):
        block = list(members)
        kind = block[0].span.kind
        if kind in HEADINGS:
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
    body = [p.span for p in chunk if p.span.kind not in HEADINGS] or [p.span for p in chunk]
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
        if piece.span.kind not in HEADINGS or not keys:
            validity = (stated.valid_from, stated.valid_until) if stated else (None, None)
        keys.append((bisect_right(asides, piece.span.char_start), *validity))
    keyed = zip(reversed(keys), pieces, strict=True)
    runs = [[piece for _, piece in run] for _, run in groupby(keyed, key=lambda k: k[0])]
    return [run for run, following in zip_longest(runs, runs[1:]) if not _only_headings(run, following)]


def _only_headings(run: list[Piece], following: list[Piece] | None) -> bool:
    if following is None or any(p.span.kind not in HEADINGS for p in run):
        return False
    path, below = run[-1].span.heading, following[0].span.heading
    return bool(path and below) and f"{below} > ".startswith(f"{path} > ")


# Cuts documents into chunks by the collection's unit; a chunk's text is always the document's text at its span.

_SIZES = ChunkSizes()
_CELL_BORDER = re.compile(r"\s*\|\s*|\s{2,}")
_MAX_ROW_CHARS = 200


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document's text, `text == document.text[char_start:char_end]`, with its place and its tokens.

    `refers_to` is what the pronoun that opens a statement refers to.
    """

    ordinal: int
    text: str
    char_start: int
    char_end: int
    heading: str | None
    page: int | None
    speaker: str | None
    said_at: datetime | None
    token_count: int
    kind: Kind
    refers_to: str | None = None


_OF_CHUNK = tuple(name for name in SCHEMAS["chunks"] if name in Chunk.__dataclass_fields__)
"""Columns of a chunk that it has itself."""


def chunk_documents(
    documents: Sequence[ExtractedDocument],
    unit: Unit,
    count_tokens: CountTokens = count_tokens_batch,
    sizes: ChunkSizes = _SIZES,
) -> list[list[Chunk]]:
    """Returns the chunks of each document, in order; tokens are counted in few large batches.

    - `turn`: one chunk a turn; a document without turns gives its paragraphs, tables and blocks of code.
    - `statement`: one chunk a sentence, with what its opening pronoun refers to; short tables and code stay whole.
    - `chunk`: by structure, see `pack`.

    A row of a suite is one chunk in any unit (decision 7). Headings are no chunks of their own: they are in the
    `heading` of what follows.
    """
    if unit == "statement":
        spans = [_as_one_segment(d) or _cut_statements(d) for d in documents]
    else:
        spans = _pack_documents(documents, unit, count_tokens, sizes)
    texts = [[d.text[s.char_start : s.char_end] for s in ss] for d, ss in zip(documents, spans, strict=True)]
    counts = iter(count_tokens([t for ts in texts for t in ts]))
    return [
        [
            _cut_chunk(i, t, s, next(counts), r)
            for i, (t, s, r) in enumerate(zip(ts, ss, _referents(ts, ss, unit), strict=True))
        ]
        for ts, ss in zip(texts, spans, strict=True)
    ]


def _cut_chunk(ordinal: int, text: str, s: Segment, tokens: int, refers_to: str | None) -> Chunk:
    place = (s.char_start, s.char_end, s.heading, s.page, s.speaker, s.said_at)
    return Chunk(ordinal, text, *place, tokens, s.kind, refers_to)


def _referents(texts: Sequence[str], spans: Sequence[Segment], unit: Unit) -> Sequence[str | None]:
    if unit != "statement":
        return [None] * len(texts)
    return opening_referents(texts, [(s.heading, s.speaker, s.kind) for s in spans])


def _as_one_segment(document: ExtractedDocument) -> list[Segment] | None:
    return [document.segments[0]] if document.media_type == SUITE_ROW and len(document.segments) == 1 else None


def _pack_documents(
    documents: Sequence[ExtractedDocument], unit: Unit, count_tokens: CountTokens, sizes: ChunkSizes
) -> list[list[Segment]]:
    out: list[list[Segment]] = []
    to_pack: list[tuple[int, list[tuple[int, Segment]]]] = []
    for d in documents:
        turns = unit == "turn" and any(s.kind == "turn" for s in d.segments)
        done = _as_one_segment(d) or (_without_headings(d) if turns else None)
        if done is None:
            to_pack.append((len(out), _pieces(d, _without_headings(d) if unit == "turn" else _without_asides(d))))
        out.append(done or [])
    texts = [documents[n].text[s.char_start : s.char_end] for n, pieces in to_pack for _, s in pieces]
    counts = iter(count_tokens(texts))
    for n, pieces in to_pack:
        sized: list[Piece] = []
        end = pieces[0][1].char_start if pieces else 0
        for block, s in pieces:
            sized.append(Piece(s, block, piece_size(next(counts), s.char_end - end)))
            end = s.char_end
        if unit == "turn":
            blocks = groupby(sized, key=lambda p: p.block)
            out[n] = [span for _, block in blocks for span in pack_group(list(block), documents[n].text, sizes)]
        else:
            runs = split_runs(sized, [s.char_start for s in documents[n].segments if s.kind == "aside"])
            spans = [span for run in runs for span in pack(run, documents[n].text, sizes)]
            out[n] = [span for span in spans if span.kind not in HEADINGS]
    return out


def _segments(document: ExtractedDocument) -> Sequence[Segment]:
    return document.segments or ((Segment(0, len(document.text), "prose"),) if document.text.strip() else ())


def _without_asides(document: ExtractedDocument) -> list[Segment]:
    """Returns the segments that memories are made of: all but asides."""
    return [s for s in _segments(document) if s.kind != "aside"]


def _without_headings(document: ExtractedDocument) -> list[Segment]:
    """Returns the segments that memories are made of, without headings: those are in the path of what is below them."""
    return [s for s in _without_asides(document) if s.kind not in HEADINGS]


def _pieces(document: ExtractedDocument, segments: Sequence[Segment]) -> list[tuple[int, Segment]]:
    """Returns (number of the segment, span) of sentences, lines and headings; a turn keeps the speaker before it."""
    text = document.text
    out: list[tuple[int, Segment]] = []
    before = 0
    for block, s in enumerate(segments):
        if s.kind == "turn":
            lead = text[before : s.char_start]
            s = replace(s, char_start=before + len(lead) - len(lead.lstrip()))
        if s.kind in HEADINGS and s.char_end - s.char_start > MAX_SENTENCE_CHARS:
            s = replace(s, kind="prose")
        before = s.char_end
        if s.kind in (*HEADINGS, "turn") and s.char_end - s.char_start <= MAX_SENTENCE_CHARS:
            out.append((block, s))
        elif s.kind in ("table", "code"):
            out += [(block, replace(s, char_start=a, char_end=b)) for a, b in _line_groups(text, s, 1)]
        else:
            spans = document_sentence_spans(text, s.char_start, s.char_end)
            out += [(block, replace(s, char_start=a, char_end=b)) for a, b in spans]
    return out


def _cut_statements(document: ExtractedDocument) -> list[Segment]:
    text, out = document.text, []
    for s in _without_headings(document):
        if s.kind in ("table", "code"):
            out += _cut_lines(text, s)
        else:
            sentences = document_sentence_spans(text, s.char_start, s.char_end)
            out += [replace(s, char_start=skip_list_marker(text, a, b), char_end=b) for a, b in sentences]
    return out


def _cut_lines(text: str, segment: Segment) -> list[Segment]:
    """Returns a table or code in parts of whole lines; the first row of a table is in the path of its other parts."""
    first, *rest = _line_groups(text, segment, MAX_SENTENCE_CHARS) or [(segment.char_start, segment.char_end)]
    heading = segment.heading
    if rest and segment.kind == "table" and not text.startswith(text[slice(*first)].split("\n")[0], rest[0][0]):
        lines = text[segment.char_start : segment.char_end].split("\n", 3)
        cells = _CELL_BORDER.split(next((line for line in lines if any(c.isalnum() for c in line)), "").strip("| +"))
        heading = _SEPARATOR.join(filter(None, (heading, " | ".join(cells)[:_MAX_ROW_CHARS])))
    parts = [replace(segment, char_start=a, char_end=b, heading=heading) for a, b in rest]
    return [replace(segment, char_start=first[0], char_end=first[1]), *parts]


def _line_groups(text: str, segment: Segment, chars: int) -> list[tuple[int, int]]:
    """Returns spans of whole lines, each of as many lines as fit `chars` (at least one); a long line is cut."""
    groups: list[tuple[int, int]] = []
    at = segment.char_start
    for line in text[segment.char_start : segment.char_end].split("\n"):
        start, at = at, at + len(line) + 1
        if not line.strip():
            continue
        end = start + len(line)
        if end - start > MAX_SENTENCE_CHARS:
            groups += document_sentence_spans(text, start, end)
        elif groups and end - groups[-1][0] <= chars:
            groups[-1] = (groups[-1][0], end)
        else:
            groups.append((start, end))
    return groups


_BATCH_DOCUMENTS = 500
_TIMES = ("source_time", "utc_offset", "segments")
_CONTENT = ("heading", "refers_to", "stated")
"""What a chunk says beside what its id is made of, and beside where it is."""


def chunk_table(
    documents: pl.DataFrame,
    texts: pl.DataFrame,
    config: CollectionConfig,
    previous: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame] | None = None,
) -> pl.DataFrame:
    """Returns one row for each different span text of each document, sorted by (document_id, ordinal).

    chunk_id is content-addressed over (collection, user, uri, session, text, speaker, time, n-th occurrence of all
    that), so a text that an edit left alone keeps its id; its offsets are those of the newest version that holds it.
    `created_at` is when its first version was read, `updated_at` when the one since which its other contents are equal.

    Args:
        documents: the documents table.
        texts: the document_texts table.
        config: the collection.
        previous: (documents, document_texts, chunks) of an earlier build made by the same code; their spans are
            carried over.
    """
    todo = documents
    carried = empty("chunks")
    if previous is not None:
        todo = _changed_documents(_with_times(documents, texts), _with_times(*previous[:2])).drop("segments")
        kept = documents.join(todo, on="document_id", how="anti")
        carried = previous[2].join(kept, on="document_id", how="semi")
    counts = dict(previous[2].select("text", "token_count").iter_rows()) if previous is not None else {}
    fresh = _chunk(todo.join(texts, on="document_id", how="left", maintain_order="left"), config, counts)
    versions = documents.select("document_id", "seq", "is_current", "ingested_at")
    rows = (
        pl.concat([carried, fresh])
        .join(versions, on="document_id", how="left")
        .with_columns(pl.coalesce(time, "ingested_at").alias(time) for time in ("created_at", "updated_at"))
        .sort("chunk_id", *VERSION_ORDER)
    )
    return conform("chunks", _newest(rows).select(empty("chunks").columns).sort("document_id", "ordinal", "chunk_id"))


def _newest(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the last row of each chunk, with the times of all of its rows.

    The row of an earlier build has the times of all versions until then, so that an update gives what all rows give.
    """
    repeated = pl.col("chunk_id").is_duplicated()
    equal = pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).last().over("chunk_id")) for c in _CONTENT)
    times = (
        rows.filter(repeated)
        .with_columns(unchanged=equal.cum_min(reverse=True).over("chunk_id"))
        .group_by("chunk_id")
        .agg(pl.col("created_at").min(), pl.col("updated_at").filter("unchanged").min())
    )
    return rows.unique("chunk_id", keep="last", maintain_order=True).update(times, on="chunk_id", how="left")


def _changed_documents(documents: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Returns the versions that are new, and all of a document to whose known versions more happened than new ones.

    A version whose times were corrected has its id, which its texts make, and counts as new. The newest version wins a
    shared span, and times are those of the versions before it: where one came back, is gone or was read at another
    time, spans change hands or times among the known ones.
    """
    version = pl.format("{}@{} ", "document_id", pl.col("ingested_at").dt.epoch("us").fill_null(0))

    def order(frame: pl.DataFrame) -> pl.DataFrame:
        ordered = frame.sort(VERSION_ORDER).with_columns(version=version)
        return ordered.group_by(DOCUMENT, maintain_order=True).agg(pl.col("version").str.join().alias("order"))

    pairs = order(documents).join(order(before), on=DOCUMENT, how="inner", suffix="_before", nulls_equal=True)
    moved = pairs.filter(~pl.col("order").str.starts_with(pl.col("order_before")))
    again = documents.join(moved, on=DOCUMENT, how="semi", nulls_equal=True)
    new = documents.join(before, on=["document_id", *_TIMES], how="anti", nulls_equal=True)
    return pl.concat([new, again]).unique("document_id", keep="first").sort("document_id")


def _with_times(documents: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Returns documents with their segments, which have the times of their turns."""
    return documents.join(texts.select("document_id", "segments"), on="document_id", how="left")


def _chunk(rows: pl.DataFrame, config: CollectionConfig, counts: dict[str, int]) -> pl.DataFrame:
    """Cuts documents into chunks; `counts` are the token counts of texts that an earlier build counted."""

    def count_tokens(texts: Sequence[str]) -> list[int]:
        unknown = [t for t in dict.fromkeys(texts) if t not in counts]
        counts.update(zip(unknown, count_tokens_batch(unknown), strict=True))
        return [counts[t] for t in texts]

    out: list[dict[str, object]] = []
    for document_id, document, chunks in _cut(rows, config, count_tokens):
        occurrences: dict[tuple[object, ...], int] = {}
        stated = _stated_by(document)
        owner = (config.name, document.user_id or "", document.project_id or GENERAL)
        scope = scope_parts(*owner)
        for chunk in chunks:
            # Speaker and time are part of it: or an edited "Yes." would hand its id to the next one, by somebody else.
            said_at = chunk.said_at.astimezone(dt.UTC) if chunk.said_at else None
            content = (chunk.text, chunk.speaker, said_at.isoformat() if said_at else None)
            n = occurrences[content] = occurrences.get(content, 0) + 1
            out.append(
                {
                    "chunk_id": content_id("chunk", *scope, document.uri, document.session_id, *content, n),
                    "document_id": document_id,
                    **dict(zip(SCOPE, owner, strict=True)),
                    **{name: getattr(chunk, name) for name in _OF_CHUNK},
                    "said_at": said_at,
                    "utc_offset": utc_offset(chunk.said_at),
                    "stated": stated(chunk),
                }
            )
    return pl.DataFrame(out, schema=empty("chunks").schema)


def _stated_by(document: ExtractedDocument) -> Callable[[Chunk], str | None]:
    """Returns a function from a chunk to what its turns state: JSON, or None where they state nothing."""
    spans = [(s.char_start, s.char_end, s.stated) for s in document.segments if s.stated]
    starts = [start for start, _, _ in spans]

    def stated(chunk: Chunk) -> str | None:
        first = bisect_right(starts, chunk.char_start) - 1
        last = bisect_left(starts, chunk.char_end)
        found = [s for _, end, s in spans[max(first, 0) : last] if end > chunk.char_start]
        return json.dumps(combine_stated_fields(found).to_json(), sort_keys=True) if found else None

    return stated


def _cut(
    rows: pl.DataFrame, config: CollectionConfig, count_tokens: CountTokens
) -> Iterator[tuple[str, ExtractedDocument, list[Chunk]]]:
    """Yields each document with its chunks; a few hundred at a time, so that tokens are counted in large batches."""
    with progress("chunk", rows.height, "documents") as advance:
        for batch in rows.iter_slices(_BATCH_DOCUMENTS):
            documents = [
                ExtractedDocument.from_json(
                    {
                        "uri": r["uri"],
                        "session_id": r["session_id"],
                        "user_id": r["user_id"],
                        "project_id": r["project_id"],
                        "title": r["title"],
                        "media_type": r["media_type"],
                        "text": r["text"],
                        "source_time": r["source_time"],
                        "metadata": {},
                        "relations": [],
                        "segments": json.loads(r["segments"]),
                    }
                )
                for r in batch.to_dicts()
            ]
            yield from zip(
                batch["document_id"], documents, chunk_documents(documents, config.unit, count_tokens), strict=True
            )
            advance(batch.height)
