"""Finds the format of a source: its bytes decide, then its suffix."""

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Source
from palimpsest.sources.readers.common.encodings import check_archive
from palimpsest.sources.readers.mail import OUTLOOK_MARK
from palimpsest.sources.readers.registry import DOCX, EPUB, OUTLOOK, PDF, PPTX, TEXT, XLSX, Format, formats_by_suffix
from palimpsest.store.collection_config import Limits

# The part that only this type of archive contains.
_ARCHIVE_PARTS = (
    ("word/document.xml", DOCX),
    ("ppt/presentation.xml", PPTX),
    ("xl/workbook.xml", XLSX),
    ("META-INF/container.xml", EPUB),
)
# What common files begin with; they are rejected by name, whatever their suffix.
_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\0", "a TIFF picture"),
    (b"MM\0*", "a TIFF picture"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"{\\rtf", "an RTF document"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet table"),
    (b"ID3", "an audio file"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")


def detect_format(source: Source, limits: Limits) -> Format:
    """Returns the format of a source; the suffix of an installed reader decides without a look at the bytes.

    Raises:
        Rejected: of no format that can be read, encrypted, or larger than the limits when unpacked.
    """
    named = formats_by_suffix().get(source.suffix)
    is_zip = source.data.startswith(_ZIPS)
    if named is not None and named.package:
        if is_zip:
            check_archive(source.data, limits)
        return named
    if b"%PDF-" in source.data[:1024] and (named is PDF or source.data.lstrip()[:5] == b"%PDF-"):
        return PDF
    if is_zip:
        return _detect_archive(source, named, limits)
    if source.data.startswith(_OLE):
        return _detect_ole(source)
    if foreign := next((name for magic, name in _FOREIGN if source.data.startswith(magic)), None):
        raise Rejected(f"not a document but {foreign}: unpack it, save it as DOCX or PDF, or leave it out")
    if not source.suffix and _is_utf8(source.data):
        return TEXT  # README, LICENSE, a saved note
    if named is None:
        known = " ".join(formats_by_suffix())
        raise Rejected(f"unknown type {source.suffix or 'without suffix'}; readable are {known}")
    if named.is_binary:
        raise Rejected(f"named {source.suffix} but holds no {named.name}; give it the suffix of what it is")
    return named


def check_type(source: Source) -> None:
    """Checks by first bytes and suffix that a source may be of a format that can be read; no archive is opened.

    Raises:
        Rejected: it is of no such format.
    """
    if not source.data.startswith((*_ZIPS, _OLE)):
        detect_format(source, Limits())


def _detect_archive(source: Source, named: Format | None, limits: Limits) -> Format:
    names = check_archive(source.data, limits)
    if found := next((f for part, f in _ARCHIVE_PARTS if part in names), None):
        return found
    if named in (DOCX, PPTX, XLSX) and "[Content_Types].xml" in names:
        assert named is not None
        return named
    raise Rejected(
        "a zip archive that is no document of a type that can be read; unpack it, or export it as DOCX or PDF"
    )


def _detect_ole(source: Source) -> Format:
    if "EncryptedPackage".encode("utf-16-le") in source.data:
        raise Rejected("encrypted Office document: it needs a password; save a copy without one")
    if OUTLOOK_MARK in source.data:
        return OUTLOOK
    raise Rejected("an old binary Office file (.doc, .xls, .ppt); save it as DOCX or PDF")


def _is_utf8(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False
