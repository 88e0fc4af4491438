"""Clean text for documents and messages, names from uris, and metadata that JSON can represent."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any

from palimpsest.core.types import JsonObject, JsonValue
from palimpsest.text.dates import DateOrder, parse_stated_time

_LINE_END = re.compile(r"\r\n?")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
# Control characters, marks that turn the writing direction, and the replacement for bytes that are not UTF-8.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MAX_METADATA_NODES, _MAX_METADATA_DEPTH = 10_000, 20


def clean_text(text: str) -> str:
    """Returns text with newlines as line ends, without NULs and a leading BOM; a lone surrogate becomes U+FFFD."""
    if "\r" in text:
        text = _LINE_END.sub("\n", text)
    if "\0" in text:
        text = text.replace("\0", "")
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text).removeprefix("\ufeff")
    return text


def one_line(text: str) -> str:
    """Returns the text on one line, runs of white space as single spaces."""
    return _SPACE.sub(" ", text).strip()


def escape_invisible(text: str) -> str:
    """Returns text that is safe to show on a terminal: what cannot be seen is written as an escape."""
    return _UNSEEN.sub(_escape, text)


def _escape(unseen: re.Match[str]) -> str:
    code = ord(unseen[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def path_to_uri(name: str) -> str:
    r"""Returns the uri of a path relative to its collection; no two paths have the same, and each is safe to show.

    A backslash is doubled, what cannot be seen is an escape: `caf\xe9.txt` for a name in Latin-1.
    """
    return escape_invisible(name.replace("\\", "\\\\"))


def title_from_uri(uri: str) -> str:
    """Returns the file's name as words, for a source that states no title: `hr/leave-policy.md` -> `leave policy`.

    An attachment has the name behind the `#`.
    """
    return one_line(re.sub(r"[-_]+", " ", PurePosixPath(uri.rpartition("#")[2] or uri).stem))


def to_json_value(value: object) -> JsonValue:
    """Returns `value` as a JSON value: dates as ISO text, keys as text, NaN as null.

    Raises:
        ValueError: it nests or expands beyond what a person would write (YAML anchors can be made to explode).
    """
    nodes_left = _MAX_METADATA_NODES

    def walk(node: object, depth: int) -> JsonValue:
        nonlocal nodes_left
        nodes_left -= 1
        if depth > _MAX_METADATA_DEPTH or nodes_left < 0:
            raise ValueError("nests or expands too far")
        if isinstance(node, str):
            return clean_text(node)
        if node is None or isinstance(node, bool | int):
            return node
        if isinstance(node, float):
            return node if node - node == 0 else None
        if isinstance(node, dict):
            return {clean_text(str(k)): walk(v, depth + 1) for k, v in node.items()}
        if isinstance(node, list | tuple | set):
            return [walk(v, depth + 1) for v in node]
        return node.isoformat() if isinstance(node, date | datetime) else clean_text(str(node))

    return walk(value, 0)


def to_json_object(fields: Mapping[Any, object]) -> JsonObject:
    """Returns a mapping as a JSON object, see `to_json_value`."""
    found = to_json_value(dict(fields))
    assert isinstance(found, dict)
    return found


def first_date(metadata: Mapping[str, JsonValue], *keys: str, order: DateOrder | None = None) -> datetime | None:
    """Returns the first of the named values that is a date."""
    return next((when for key in keys if (when := parse_stated_time(metadata.get(key), order))), None)


def explain_value_error(error: ValueError) -> str:
    """Returns what a parser found wrong, for a message; Python's own text about long numbers advises programmers."""
    return "a number has too many digits" if "digits" in str(error) and "limit" in str(error) else str(error)


def parse_name(value: object) -> str | None:
    """Returns a name or id as text, or null when it is empty or not a single value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return one_line(clean_text(str(value))) or None
