"""Reads any source: its bytes decide how, then its suffix; what goes wrong becomes a reason a person can act on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import Rejected
from palimpsest.sources.readers.common.document_time import stated_time, with_time
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.sidecar import SUFFIX as SIDECAR
from palimpsest.sources.readers.common.sidecar import read_sidecar, sidecar_of, with_sidecar
from palimpsest.sources.readers.common.zip_archive import check_archive
from palimpsest.sources.readers.conversations.captions import read_vtt
from palimpsest.sources.readers.conversations.chat_json import conversations, read_chats, read_json
from palimpsest.sources.readers.conversations.json_rows import json_rows
from palimpsest.sources.readers.conversations.slack import user_names, users_beside
from palimpsest.sources.readers.conversations.suite_rows import read_suite
from palimpsest.sources.readers.conversations.turns import read_conversations
from palimpsest.sources.readers.mail.mail import read_mail
from palimpsest.sources.readers.mail.outlook import MARK, mail_of
from palimpsest.sources.readers.office.docx import read_docx
from palimpsest.sources.readers.office.pptx import read_pptx
from palimpsest.sources.readers.office.xlsx import read_xlsx
from palimpsest.sources.readers.pdf.pdf import read_pdf
from palimpsest.sources.readers.text_files.delimited import read_csv
from palimpsest.sources.readers.text_files.markdown import read_markdown
from palimpsest.sources.readers.text_files.plain_text import read_text
from palimpsest.sources.readers.web.epub import read_epub
from palimpsest.sources.readers.web.html_page import read_html
from palimpsest.sources.records.extracted import Extraction
from palimpsest.sources.records.source import Source
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

__all__ = ["Limits", "media_types", "read_source"]


@dataclass(frozen=True, slots=True)
class Format:
    """A type of source: its name to people, its suffixes and its reader; `binary` types are known by their bytes."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    read: Callable[[Source, Limits], Extraction]
    binary: bool = False


def _read_jsonl(source: Source, limits: Limits) -> Extraction:
    rows, problems = json_rows(decode(source.data, limits))
    # Any row may tell the layout: the first ones may be the bad ones.
    if any("_id" in r.value and "text" in r.value for r in rows):
        return read_suite(source, rows, problems, limits)
    if any("text" in r.value and r.value.keys() & {"speaker", "session_id", "timestamp"} for r in rows):
        return read_conversations(source, rows, problems, limits)
    if found := conversations([r.value for r in rows]):
        return read_chats(source, found, problems, limits)
    if not rows:
        raise Rejected(f"no line is a JSON object; {problems[0]}")
    raise Rejected(
        "JSON lines of an unknown layout; a turn has session_id, speaker, text, timestamp, a suite _id, title, text"
    )


def _read_mail(source: Source, limits: Limits) -> Extraction:
    return read_mail(source, limits, read_bytes)


def _read_outlook(source: Source, limits: Limits) -> Extraction:
    return _read_mail(mail_of(source, limits), limits)


_OOXML = "application/vnd.openxmlformats-officedocument"
_TEXT = Format("text", "text/plain", (".txt", ".text", ".rst", ".log", ".adoc", ".asciidoc"), read_text)
_PDF = Format("PDF", "application/pdf", (".pdf",), read_pdf, binary=True)
_DOCX = Format("DOCX", f"{_OOXML}.wordprocessingml.document", (".docx", ".docm"), read_docx, binary=True)
_PPTX = Format("PPTX", f"{_OOXML}.presentationml.presentation", (".pptx", ".pptm"), read_pptx, binary=True)
_XLSX = Format("XLSX", f"{_OOXML}.spreadsheetml.sheet", (".xlsx", ".xlsm"), read_xlsx, binary=True)
_MSG = Format("Outlook mail", "message/rfc822", (".msg",), _read_outlook, binary=True)
_EPUB = Format("EPUB", "application/epub+zip", (".epub",), read_epub, binary=True)
FORMATS: tuple[Format, ...] = (
    Format("Markdown", "text/markdown", (".md", ".markdown", ".mdown", ".mkd"), read_markdown),
    _TEXT,
    Format("HTML", "text/html", (".html", ".htm", ".xhtml"), read_html),
    Format("CSV", "text/csv", (".csv", ".tsv"), read_csv),
    Format("JSON lines", "application/jsonl", (".jsonl", ".ndjson"), _read_jsonl),
    Format("JSON", "application/json", (".json",), read_json),
    Format("e-mail", "message/rfc822", (".eml",), _read_mail),
    Format("captions", "text/vtt", (".vtt", ".srt"), read_vtt),
    _PDF,
    _DOCX,
    _PPTX,
    _XLSX,
    _EPUB,
    _MSG,
)
# The part that only this type of archive holds.
_ARCHIVES = (
    ("word/document.xml", _DOCX),
    ("ppt/presentation.xml", _PPTX),
    ("xl/workbook.xml", _XLSX),
    ("META-INF/container.xml", _EPUB),
)
_BY_SUFFIX = {suffix: f for f in FORMATS for suffix in f.suffixes}

# What common files begin with; they are refused by name, whatever their suffix says.
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


def media_types() -> dict[str, str]:
    """Returns the media type of each suffix that can be read; a file with any other is rejected, never skipped."""
    return {suffix: f.media_type for suffix, f in sorted(_BY_SUFFIX.items())}


def read_source(path: Path, uri: str, limits: Limits | None = None, dates: DateOrder | None = None) -> Extraction:
    """Returns the documents of one file, with what its sidecar says, and the problems of parts that could not be read.

    Args:
        path: the file; only its bytes and its suffix count, never its times or where it lies.
        uri: its path relative to the collection, which the documents carry.
        limits: bounds; the defaults when null.
        dates: what comes first in dates of three numbers.

    Raises:
        Rejected: nothing in it can be read; the message says why and what to do. No other exception escapes.
    """
    limits = limits or Limits()
    if path.name.endswith(SIDECAR):
        owner = path.name.removesuffix(SIDECAR)
        raise Rejected(f"a sidecar without its source: no file {owner!r} lies beside it; rename or remove it")
    sidecar = sidecar_of(path)
    fields = read_sidecar(sidecar, limits) if sidecar else None
    users = users_beside(path, uri)
    source = Source(
        uri=uri,
        suffix=path.suffix.lower(),
        data=_bytes(path, limits),
        dates=dates,
        fields=fields,
        names=user_names(users) if users else None,
    )
    return read_bytes(source, limits)


def read_bytes(source: Source, limits: Limits) -> Extraction:
    """Returns the documents of a source that is in memory, see `read_source`."""
    reader = _format(source, limits)
    try:
        return _dated(reader.read(source, limits), source)
    except Rejected:
        raise
    except MemoryError as e:
        raise Rejected(f"too large: reading the {reader.name} needs more memory than a reader may use; split it") from e
    except RecursionError:
        raise Rejected(f"nested too deeply: this {reader.name} is no document; simplify it or leave it out") from None
    except Exception as e:  # libraries fail in their own ways on broken files; one source must not stop the rest
        raise Rejected(f"corrupt {reader.name}: {type(e).__name__} while reading; export it again") from e


def _dated(extraction: Extraction, source: Source) -> Extraction:
    """Adds what the sidecar says, and the date of the name or title to documents that state none."""
    if source.fields:
        extraction = with_sidecar(extraction, source.fields, source.uri, source.dates)
    by_sidecar = stated_time(source.fields or {}, source.dates) is not None
    documents, problems = [], dict.fromkeys(extraction.problems)
    for document in extraction.documents:
        if document.uri == source.uri:  # attachments were dated when they were read
            document, more = with_time(document, source.dates, by_sidecar)
            problems |= dict.fromkeys(more)
        documents.append(document)
    return Extraction(tuple(documents), tuple(problems))


def _bytes(path: Path, limits: Limits) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would block or never end
            raise Rejected(
                "not a regular file" if path.exists() else "missing: no such file, or a link that leads nowhere"
            )
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except OSError as e:
        raise Rejected(f"cannot be opened: {e.strerror or type(e).__name__}; check its permissions") from None
    if len(data) > limits.max_bytes:
        raise Rejected(f"too large: {path.stat().st_size:,} bytes, the limit is {limits.max_bytes:,}; split it")
    if not data:
        raise Rejected("empty: the file holds no bytes")
    return data


def _format(source: Source, limits: Limits) -> Format:
    named = _BY_SUFFIX.get(source.suffix)
    if b"%PDF-" in source.data[:1024] and (named is _PDF or source.data.lstrip()[:5] == b"%PDF-"):
        return _PDF
    if source.data.startswith(_ZIPS):
        names = check_archive(source.data, limits)
        if found := next((f for part, f in _ARCHIVES if part in names), None):
            return found
        if named in (_DOCX, _PPTX, _XLSX) and "[Content_Types].xml" in names:
            return named
        raise Rejected(
            "a zip archive that is no document of a type that can be read; unpack it, or export it as DOCX or PDF"
        )
    if source.data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in source.data:
            raise Rejected("encrypted Office document: it needs a password; save a copy without one")
        if MARK in source.data:
            return _MSG
        raise Rejected("an old binary Office file (.doc, .xls, .ppt); save it as DOCX or PDF")
    if foreign := next((name for magic, name in _FOREIGN if source.data.startswith(magic)), None):
        raise Rejected(f"not a document but {foreign}: unpack it, save it as DOCX or PDF, or leave it out")
    if not source.suffix and _is_utf8(source.data):
        return _TEXT  # README, LICENSE, a saved note
    if named is None:
        known = " ".join(s for f in FORMATS for s in f.suffixes)
        raise Rejected(f"unknown type {source.suffix or 'without suffix'}; readable are {known}")
    if named.binary:
        raise Rejected(f"named {source.suffix} but holds no {named.name}; give it the suffix of what it is")
    return named


def _is_utf8(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False
