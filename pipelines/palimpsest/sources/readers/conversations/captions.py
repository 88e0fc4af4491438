"""WebVTT and SRT: each cue a turn, with the speaker of its voice tag."""

import html
import re

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.common.clean_text import clean_text, one_line
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.text_builder import TextBuilder
from palimpsest.store.collection_config import Limits

_TIME = r"(?:(\d{1,4}):)?([0-5]?\d):([0-5]?\d)[.,](\d{1,3})"
_TIMING = re.compile(rf"[^\S\n]*{_TIME}[^\S\n]+-->[^\S\n]+{_TIME}(?:[^\S\n].*)?")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,200})?[^\S\n]([^<>\n]{0,200})>")
_TAG = re.compile(r"<[^<>\n]{0,200}>")


def read_captions(source: Source, limits: Limits) -> Extraction:
    """Reads captions; `metadata.starts` is the second at which each turn begins, in the order of the segments.

    Raises:
        Rejected: binary, unknown encoding, no cue or too long.
    """
    text = decode(source.data, limits)
    if source.suffix == ".vtt" and not text.startswith("WEBVTT"):
        raise Rejected("named .vtt but does not begin with WEBVTT; give it the suffix of what it is")
    builder, problems, starts = TextBuilder(limits.max_chars), list[str](), list[float]()
    end = 0.0
    for number, block in enumerate(re.split(r"\n(?:[^\S\n]*\n)+", text), 1):
        lines = block.strip("\n").split("\n")
        at = next((i for i, line in enumerate(lines[:2]) if "-->" in line), None)
        if at is None:  # a header, a note or a style
            continue
        timing = _TIMING.fullmatch(lines[at])
        if timing is None:
            problems.append(f"block {number}: {lines[at][:80]!r} is no time of a cue; the cue is left out")
            continue
        start, end = _seconds(timing.groups()[:4]), _seconds(timing.groups()[4:])
        for speaker, words in _voices("\n".join(lines[at + 1 :])):
            builder.add(words, "turn", prefix=f"{speaker}: " if speaker else "", gap="\n", speaker=speaker)
            starts.append(start)
    if not builder.segments:
        raise Rejected(f"no readable cue; {problems[0] if problems else 'the file holds no cue with text'}")
    metadata: JsonObject = {"starts": starts, "duration_seconds": end}
    if speakers := sorted({s.speaker for s in builder.segments if s.speaker}):
        metadata["speakers"] = speakers
    media_type = "text/vtt" if source.suffix == ".vtt" else "application/x-subrip"
    document = builder.to_document(source, media_type, metadata=metadata)
    return Extraction((document,), limit_problems(problems, limits))


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = parts
    return (
        int(hours or 0) * 3600
        + int(minutes or 0) * 60
        + int(seconds or 0)
        + int((fraction or "0").ljust(3, "0")) / 1000
    )


def _voices(payload: str) -> list[tuple[str | None, str]]:
    """Returns (speaker, words) of a cue: the words before the first voice tag have no speaker."""
    parts = _VOICE.split(payload)
    pairs = [(None, parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    out = []
    for speaker, words in pairs:
        words = one_line(clean_text(html.unescape(_TAG.sub("", words))))
        if words:
            out.append((one_line(clean_text(html.unescape(speaker))) or None if speaker else None, words))
    return out
