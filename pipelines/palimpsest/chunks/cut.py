"""Cuts documents into chunks by the collection's unit; a chunk's text is always the document's text at its span."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, zip_longest

from palimpsest.chunks.packing import ChunkSizes, Piece, pack, pack_group, piece_size, split_runs
from palimpsest.sources.extracted import SUITE_ROW, ExtractedDocument, Kind, Segment
from palimpsest.store.collection_config import Unit
from palimpsest.text.referents import opening_referents
from palimpsest.text.sentences import MAX_SENTENCE_CHARS, document_sentence_spans, skip_list_marker
from palimpsest.text.tokenizer import CountTokens, count_tokens_batch

_SIZES = ChunkSizes()


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

    A row of a suite is one chunk in any unit (decision 7). Headings are chunks of their own only where nothing is
    under them; elsewhere they are in the `heading` of what follows.
    """
    if unit == "statement":
        spans = [_as_one_segment(d) or _cut_statements(d) for d in documents]
    else:
        spans = _pack_documents(documents, unit, count_tokens, sizes)
    texts = [[d.text[s.char_start : s.char_end] for s in ss] for d, ss in zip(documents, spans, strict=True)]
    counts = iter(count_tokens([t for ts in texts for t in ts]))
    return [
        [
            _chunk(i, t, s, next(counts), r)
            for i, (t, s, r) in enumerate(zip(ts, ss, _referents(ts, ss, unit), strict=True))
        ]
        for ts, ss in zip(texts, spans, strict=True)
    ]


def _chunk(ordinal: int, text: str, s: Segment, tokens: int, refers_to: str | None) -> Chunk:
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
        done = _as_one_segment(d) or (_without_section_headings(d) if turns else None)
        if done is None:
            to_pack.append(
                (len(out), _pieces(d, _without_section_headings(d) if unit == "turn" else _without_asides(d)))
            )
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
            out[n] = [span for run in runs for span in pack(run, documents[n].text, sizes)]
    return out


def _segments(document: ExtractedDocument) -> Sequence[Segment]:
    return document.segments or ((Segment(0, len(document.text), "prose"),) if document.text.strip() else ())


def _without_asides(document: ExtractedDocument) -> list[Segment]:
    """Returns the segments that memories are made of: all but asides."""
    return [s for s in _segments(document) if s.kind != "aside"]


def _without_section_headings(document: ExtractedDocument) -> list[Segment]:
    """Returns the segments that memories are made of, without the headings of sections that are not empty."""
    segments = _without_asides(document)
    return [
        s
        for s, following in zip_longest(segments, segments[1:])
        if s.kind != "heading" or following is None or (following.kind == "heading" and not _is_below(following, s))
    ]


def _is_below(lower: Segment, upper: Segment) -> bool:
    return bool(upper.heading and lower.heading and lower.heading.startswith(f"{upper.heading} > "))


def _pieces(document: ExtractedDocument, segments: Sequence[Segment]) -> list[tuple[int, Segment]]:
    """Returns (number of the segment, span) of sentences, lines and headings; a turn keeps the speaker before it."""
    text = document.text
    out: list[tuple[int, Segment]] = []
    before = 0
    for block, s in enumerate(segments):
        if s.kind == "turn":
            lead = text[before : s.char_start]
            s = replace(s, char_start=before + len(lead) - len(lead.lstrip()))
        if s.kind == "heading" and s.char_end - s.char_start > MAX_SENTENCE_CHARS:
            s = replace(s, kind="prose")
        before = s.char_end
        if s.kind in ("heading", "turn") and s.char_end - s.char_start <= MAX_SENTENCE_CHARS:
            out.append((block, s))
        elif s.kind in ("table", "code"):
            out += [(block, replace(s, char_start=a, char_end=b)) for a, b in _line_groups(text, s, 1)]
        else:
            spans = document_sentence_spans(text, s.char_start, s.char_end)
            out += [(block, replace(s, char_start=a, char_end=b)) for a, b in spans]
    return out


def _cut_statements(document: ExtractedDocument) -> list[Segment]:
    text, out = document.text, []
    for s in _without_section_headings(document):
        if s.kind in ("table", "code"):
            spans = _line_groups(text, s, MAX_SENTENCE_CHARS)
        else:
            sentences = document_sentence_spans(text, s.char_start, s.char_end)
            spans = [(skip_list_marker(text, a, b), b) for a, b in sentences]
        out += [replace(s, char_start=a, char_end=b) for a, b in spans]
    return out


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
