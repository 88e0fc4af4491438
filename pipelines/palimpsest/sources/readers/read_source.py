"""Reads one file into documents; what goes wrong becomes a reason that a person can act on."""

from dataclasses import replace
from pathlib import Path

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Scope, Source
from palimpsest.sources.readers.chat_exports import find_users_file, read_user_names
from palimpsest.sources.readers.document_head import add_document_head, add_document_time, find_stated_time
from palimpsest.sources.readers.encodings import check_archive
from palimpsest.sources.readers.front_matter import (
    SIDECAR_SUFFIX,
    apply_sidecar,
    find_sidecar,
    parse_scope,
    read_sidecar,
)
from palimpsest.sources.readers.mail import OUTLOOK_MARK
from palimpsest.sources.readers.mail_box import is_mailbox
from palimpsest.sources.readers.registry import (
    DOCX,
    EPUB,
    MAILBOX,
    OUTLOOK,
    PDF,
    PPTX,
    TEXT,
    XLSX,
    Format,
    formats_by_suffix,
)
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import DateOrder

# Finds the format of a source: its bytes decide, then its suffix.

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
    if (not source.suffix or named is TEXT) and is_mailbox(source.data):
        return MAILBOX
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


_NO_SCOPE = Scope()


def read_source(
    path: Path,
    uri: str,
    limits: Limits | None = None,
    dates: DateOrder | None = None,
    defaults: Scope = _NO_SCOPE,
) -> Extraction:
    """Returns the documents of one file, with what its sidecar states, and the problems of unreadable parts.

    Args:
        path: the file; only its bytes and its suffix count, never its times or its folder.
        uri: its path relative to the collection, which the documents carry.
        limits: the defaults when null.
        dates: which part comes first in dates of three numbers.
        defaults: the user and project of texts that state none.

    Raises:
        Rejected: nothing in it can be read; the message says why and what to do.
        PalimpsestError: the installed readers contradict each other, see `registry`. No other exception escapes.
    """
    limits = limits or Limits()
    if path.name.endswith(SIDECAR_SUFFIX):
        owner = path.name.removesuffix(SIDECAR_SUFFIX)
        raise Rejected(f"a sidecar without its source: no file {owner!r} is next to it; rename or remove it")
    sidecar = find_sidecar(path)
    fields = read_sidecar(sidecar, limits) if sidecar else None
    users = find_users_file(path, uri)
    source = Source(
        uri=uri,
        suffix=path.suffix.lower(),
        data=_read_file(path, limits),
        dates=dates,
        fields=fields,
        names=read_user_names(users) if users else None,
        defaults=parse_scope(fields or {})[0].or_else(defaults),
    )
    return read_bytes(source, limits)


def read_bytes(source: Source, limits: Limits) -> Extraction:
    """Returns the documents of a source in memory, see `read_source`.

    Raises:
        Rejected: it cannot be read.
    """
    found = detect_format(source, limits)
    try:
        return _add_sidecar_and_dates(found.read(source, limits), source)
    except Rejected:
        raise
    except MemoryError as e:
        raise Rejected(f"too large: reading the {found.name} needs more memory than a reader may use; split it") from e
    except RecursionError:
        raise Rejected(f"nested too deeply: this {found.name} is no document; simplify it or leave it out") from None
    except Exception as e:  # libraries raise errors of any type on broken files; one source must not stop the rest
        raise Rejected(f"corrupt {found.name}: {type(e).__name__} while reading; export it again") from e


def _add_sidecar_and_dates(extraction: Extraction, source: Source) -> Extraction:
    """Adds what the text and the sidecar state, and the date of the name or title to documents that state none."""
    if source.fields:
        extraction = apply_sidecar(extraction, source.fields, source.uri, source.dates)
    is_dated_by_sidecar = find_stated_time(source.fields or {}, source.dates) is not None
    documents, problems = [], dict.fromkeys(extraction.problems)
    for document in extraction.documents:
        if document.uri == source.uri:  # attachments were dated when they were read
            document, is_dated, unclear = add_document_head(document, source.dates, is_dated_by_sidecar)
            document, more = add_document_time(document, source.dates, is_dated)
            problems |= dict.fromkeys(more if document.source_time else [*unclear, *more])
        documents.append(document)
    return replace(extraction, documents=tuple(documents), problems=tuple(problems))


def _read_file(path: Path, limits: Limits) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would block or never end
            raise Rejected("not a regular file" if path.exists() else "missing: no such file, or a broken link")
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except OSError as e:
        raise Rejected(f"cannot be opened: {e.strerror or type(e).__name__}; check its permissions") from None
    if len(data) > limits.max_bytes:
        raise Rejected(
            f"too large: {path.stat().st_size:,} bytes, the limit is {limits.max_bytes:,}; split it, "
            "or raise limits.max_bytes in collection.yaml"
        )
    if not data:
        raise Rejected("empty: the file holds no bytes")
    return data
