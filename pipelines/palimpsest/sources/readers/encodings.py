"""Bytes of a text file to text, by BOM, UTF-8, or detection; what is not text is refused."""

import codecs
import io
import re
import zipfile
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder, parse_stated_time

# Clean text for documents and messages, names from uris, and metadata that JSON can represent.

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


_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its BOM begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_HIGH = re.compile(rb"[\x80-\xff]{1,4096}")
_HIGH_BYTE, _LETTER = re.compile(rb"[\x80-\xff]"), re.compile(rb"[A-Za-z]")
_FEW_HIGH = 4
# What Windows-1252 makes of other encodings: a sign inside a word, or letters that few Western words have.
_ODD = re.compile(r"[^\W\d_][^\w\s\x00-\x7f’´­·][^\W\d_]|[^\x00-\x7f]{2}|[ÐÞðþýÝÿŸ¤¦¬¯¸¼½¾ƒˆ˜‰†‡]")  # noqa: RUF001
_SAMPLE_BYTES, _AROUND_BYTES = 65_536, 60
_MAX_CONTROL_SHARE = 0.02


def decode(data: bytes, limits: Limits) -> str:
    """Returns the clean text of a text file.

    Raises:
        Rejected: it is binary, in no encoding that can be recognised, empty, or longer than `max_chars`.
    """
    text = clean_text(_decode(data))
    if not text.strip():
        raise Rejected("empty: the file holds no text")
    if len(text) > limits.max_chars:
        raise Rejected(
            f"too large: {len(text):,} characters of text, the limit is {limits.max_chars:,}; split the source"
        )
    return text


def _decode(data: bytes) -> str:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return _strictly(data, encoding)
    sample = data[:_SAMPLE_BYTES]
    if utf16 := _utf16_without_bom(sample):
        return _strictly(data, utf16)
    if len(_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * len(sample):
        raise Rejected("binary data in a text file; give the file the suffix of its type, or remove it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        sample = _sample_around_high_bytes(data, e.start)
    if _is_western(sample):
        return data.decode("cp1252")
    from charset_normalizer import from_bytes  # most text is UTF-8, and each reader process would load it

    best = from_bytes(sample).best()
    if best is None:
        raise Rejected("text in an unknown encoding; save it as UTF-8")
    try:
        return data.decode(best.encoding)
    except (UnicodeDecodeError, LookupError):
        raise Rejected(f"text in a mix of encodings (mostly {best.encoding}); save it as UTF-8") from None


def _sample_around_high_bytes(data: bytes, start: int) -> bytes:
    """Returns a sample of what surrounds the bytes that are not ASCII: the rest of a file only misleads detection."""
    windows: list[list[int]] = []
    size = 0
    for m in _HIGH.finditer(data, start):
        first, last = max(0, m.start() - _AROUND_BYTES), m.end() + _AROUND_BYTES
        if windows and first <= windows[-1][1]:
            size += last - windows[-1][1]
            windows[-1][1] = last
        else:
            size += last - first
            windows.append([first, last])
        if size > _SAMPLE_BYTES:
            break
    return b"\n".join(data[first:last] for first, last in windows)


def _is_western(sample: bytes) -> bool:
    """Returns whether this is Latin text with too few accents to detect an encoding; Windows-1252 is the likeliest."""
    high = len(_HIGH_BYTE.findall(sample))
    if not 0 < high <= _FEW_HIGH or 2 * high > len(_LETTER.findall(sample)):
        return False
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    return not _ODD.search(text)


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as e:
        raise Rejected(f"corrupt {encoding} text at byte {e.start}; save it as UTF-8") from None


def _utf16_without_bom(sample: bytes) -> str | None:
    """Western UTF-16 has a NUL in nearly every other byte, and hardly any in the bytes between."""
    pairs = len(sample) // 2
    if pairs < 2 or b"\0" not in sample:
        return None
    even, odd = sample[0 : 2 * pairs : 2].count(0) / pairs, sample[1 : 2 * pairs : 2].count(0) / pairs
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.05 else None


# Zip archives: checked before anything is unpacked.


def check_archive(data: bytes, limits: Limits) -> list[str]:
    """Returns the names in a zip archive, having checked that unpacking it stays within the limits.

    The sizes are those of its directory; `zipfile` never unpacks more of a member than its directory says, so they
    bound what is expanded even where the directory is false.

    Raises:
        Rejected: corrupt, encrypted or too large.
    """
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Rejected("corrupt archive: the file is cut off or damaged; export it again") from None
    if any(m.flag_bits & 1 for m in members):
        raise Rejected("encrypted archive: it needs a password; save a copy without one")
    size = sum(m.file_size for m in members)
    if size > limits.max_expanded_bytes or len(members) > limits.max_archive_members:
        raise Rejected(
            f"too large: unpacks to {size:,} bytes in {len(members):,} parts, the limits are "
            f"{limits.max_expanded_bytes:,} and {limits.max_archive_members:,}"
        )
    return [m.filename for m in members]


# XML of files by others: no entities, no network.


def parse_xml(data: bytes, *, recover: bool = False) -> Any:
    """Returns the root element, an lxml tree; with `recover` what is readable of a damaged one, or None.

    Raises:
        lxml.etree.XMLSyntaxError: no XML, without `recover`.
    """
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, recover=recover))
