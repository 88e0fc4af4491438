"""The Markdown file of a document: its fields as front matter, and its text, or a heading and a text for each turn."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.sources.extracted import ExtractedDocument, Segment
from palimpsest.sources.readers.common.clean_text import clean_text, to_json_object
from palimpsest.sources.readers.common.front_matter import load_yaml_fields

BLOCK = "palimpsest"
"""Field of the front matter that says which document a file is; the others are the document's own."""
_END = "\n---\n"
_HEADING = re.compile(r"### (\d{1,9})\. .*")
_ESCAPED = re.compile(r"^\\*### \d{1,9}\. ", re.MULTILINE)
_FIX = "put it back as it was exported, or export again"


@dataclass(frozen=True)
class Page:
    """What a file says.

    Attributes:
        fields: of the document, as YAML values.
        block: which document it is.
        body: the text of a document that is no conversation.
        turns: the text of each turn by its number, from 1; None of a document that is no conversation.
    """

    fields: Mapping[str, JsonValue]
    block: Mapping[str, JsonValue]
    body: str
    turns: Mapping[int, str] | None


def turns_of(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Returns the turns of a conversation; none where a document has other segments too: it is edited as a text."""
    return segments if all(s.kind == "turn" for s in segments) else ()


def render_page(document: ExtractedDocument, block: JsonObject, notes: Mapping[tuple[int, int], str]) -> str:
    """Returns the file of a document.

    Args:
        document: as the log has it.
        block: which document it is; written under `BLOCK`.
        notes: what the heading of a turn says besides speaker and time, by the span of the turn.
    """
    head = _dump({**document.metadata, BLOCK: block})
    turns = turns_of(document.segments)
    if not turns:
        return f"---\n{head}---\n\n{document.text}"
    parts = [_render_turn(n, turn, document.text, notes) for n, turn in enumerate(turns, 1)]
    return f"---\n{head}---\n\n" + "\n".join(parts)


def fields_of(document: ExtractedDocument) -> JsonObject:
    """Returns the fields of a document as a file that nobody edited has them."""
    return _fields(_dump(document.metadata)) if document.metadata else {}


def parse_page(text: str, name: str, is_conversation: bool | None = None) -> Page:
    """Returns what a file says.

    Args:
        text: of the file.
        name: of the file, for messages.
        is_conversation: whether the document is one; None reads the front matter alone.

    Raises:
        PalimpsestError: the front matter or the headings of turns are not as they were written.
    """
    text = clean_text(text)
    if not text.startswith("---\n") or (end := text.find(_END, 3)) < 0:
        raise PalimpsestError(f"{name}: its front matter, between two lines of three dashes, is gone; {_FIX}")
    fields = _fields(text[4 : end + 1], name)
    block = fields.pop(BLOCK, None)
    if not isinstance(block, dict):
        raise PalimpsestError(f"{name}: field {BLOCK} of its front matter is gone; {_FIX}")
    body = text[end + len(_END) :].removeprefix("\n")
    turns = _parse_turns(body, name) if is_conversation else None
    return Page(fields, block, body, turns)


def _render_turn(number: int, turn: Segment, text: str, notes: Mapping[tuple[int, int], str]) -> str:
    when = turn.said_at.strftime("%Y-%m-%d %H:%M") if turn.said_at else ""
    about = (turn.speaker or "", when, notes.get((turn.char_start, turn.char_end), ""))
    heading = " · ".join(" ".join(part.split()) for part in about if part)
    said = _ESCAPED.sub(lambda m: "\\" + m[0], text[turn.char_start : turn.char_end])
    return f"### {number}. {heading}\n\n{said}\n"


def _parse_turns(body: str, name: str) -> dict[int, str]:
    turns: dict[int, list[str]] = {}
    number = 0
    for line in body.split("\n"):
        if match := _HEADING.fullmatch(line):
            if int(match[1]) <= number:
                raise PalimpsestError(f"{name}: turn {match[1]} is out of order or twice; {_FIX}")
            number = int(match[1])
            turns[number] = []
        elif number:
            turns[number].append(line)
        elif line.strip():
            raise PalimpsestError(f"{name}: has a text before its first turn; write it into a turn, or remember it")
    return {n: _ESCAPED.sub(lambda m: m[0][1:], "\n".join(lines)).strip() for n, lines in turns.items()}


def _dump(fields: Mapping[str, JsonValue]) -> str:
    dumped: str = yaml.safe_dump(dict(fields), allow_unicode=True, sort_keys=True, width=10_000)
    return dumped


def _fields(head: str, name: str = "") -> JsonObject:
    try:
        found = load_yaml_fields(head)
        if not isinstance(found.value, dict) or found.repeated:
            raise ValueError("not a mapping, or a field is given twice")
        return to_json_object(found.value)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, LookupError, AttributeError) as e:
        why = " ".join(str(e).split())[:120]
        raise PalimpsestError(f"{name}: front matter is not valid YAML: {why}; correct it, or export again") from None
