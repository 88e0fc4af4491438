"""Bytes of a text file to text, by BOM, UTF-8, or detection; what is not text is refused."""

import codecs
import io
import re
import zipfile
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.clean_text import clean_text
from palimpsest.store.collection_config import Limits

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
