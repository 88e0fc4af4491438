"""Which reader reads which suffix: the one table of formats, built-in and installed."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from palimpsest.core.errors import PalimpsestError, Rejected
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.sources.extracted import ExtractedDocument, Extraction, Kind, Segment, Source, limit_problems
from palimpsest.sources.readers.chat_exports import read_captions
from palimpsest.sources.readers.chat_json import read_json, read_json_lines
from palimpsest.sources.readers.delimited import read_csv
from palimpsest.sources.readers.encodings import clean_text, decode, first_date, one_line, title_from_uri, to_json_value
from palimpsest.sources.readers.epub import read_epub
from palimpsest.sources.readers.html_page import read_html
from palimpsest.sources.readers.mail import convert_outlook_mail, read_mail
from palimpsest.sources.readers.mail_box import read_mailbox
from palimpsest.sources.readers.office import read_docx, read_pptx, read_xlsx
from palimpsest.sources.readers.pdf import read_pdf
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder
from palimpsest.sources.readers.text_files import read_markdown, read_text
from palimpsest.store.collection_config import Limits

# Readers that other packages install, as entry points of the group `palimpsest.readers`.
#
# The name of an entry point is a suffix without the dot, its value a function with the signature of every reader:
#
#     [project.entry-points."palimpsest.readers"]
#     fountain = "fountain_reader:read_fountain"
#
# A reader is imported only where a source is read: in the worker process. The build itself only hashes its code.

GROUP = "palimpsest.readers"


def find_installed_readers() -> dict[str, EntryPoint]:
    """Returns the entry point of each suffix, with the dot.

    Raises:
        PalimpsestError: a name is no suffix, or two packages install a reader of the same one.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, package_name(e))):
        suffix = f".{entry.name.lower()}"
        if "." in entry.name:
            raise PalimpsestError(
                f"{package_name(entry)}: entry point {entry.name!r} of {GROUP}: a name is a suffix without dots"
            )
        if suffix in found:
            packages = f"{package_name(found[suffix])} and {package_name(entry)}"
            raise PalimpsestError(f"{packages} both install a reader of {suffix}; uninstall one of them")
        found[suffix] = entry
    return found


@cache
def installed_readers_hash() -> str:
    """Returns one hash of the code of all installed readers: a change reads their sources again.

    Code is every Python file of the top-level package or module that an entry point names, not its dependencies.
    """
    parts: list[str] = []
    for suffix, entry in find_installed_readers().items():
        parts += [suffix, entry.value, *_hash_package(entry.module.partition(".")[0])]
    return content_id(*parts)


def read_installed(entry: EntryPoint, source: Source, limits: Limits) -> Extraction:
    """Loads an installed reader, reads a source with it and checks what it returns.

    Raises:
        Rejected: the reader cannot be loaded, rejects the source, or returns what cannot be stored.
    """
    reader = f"the reader of .{entry.name} from {package_name(entry)}"
    try:
        read = entry.load()
    except Exception as e:  # whatever another package does when it is imported
        raise Rejected(f"{reader} cannot be loaded: {type(e).__name__}: {e}; install that package again") from e
    extraction = read(source, limits)
    if not isinstance(extraction, Extraction):
        raise Rejected(f"{reader} returned {type(extraction).__name__}, not an Extraction; report it to its author")
    if sum(len(d.text) for d in extraction.documents) > limits.max_chars:
        raise Rejected(f"too large: more than {limits.max_chars:,} characters of text; split the source")
    if not _are_counts(extraction.left_out):
        raise Rejected(f"{reader} returned left_out that is no mapping of kinds to counts; report it to its author")
    for document in extraction.documents:
        if problem := _find_problem(document, source):
            raise Rejected(f"{reader} returned a document {problem}; report it to its author")
    return extraction


def package_name(entry: EntryPoint) -> str:
    """Returns the name of the package that installs an entry point."""
    return entry.dist.name if entry.dist else entry.module


def _hash_package(name: str) -> Iterator[str]:
    spec = find_spec(name)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        yield file_hash(Path(spec.origin)) if spec.origin and Path(spec.origin).is_file() else ""
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in sorted(folder.rglob("*.py")):
            yield from (path.relative_to(folder).as_posix(), file_hash(path))


def _are_counts(left_out: object) -> bool:
    return isinstance(left_out, Mapping) and all(
        isinstance(kind, str) and type(n) is int and n >= 0 for kind, n in left_out.items()
    )


def _find_problem(document: ExtractedDocument, source: Source) -> str:
    """Returns why a document cannot be stored; empty where it can."""
    if document.uri != source.uri and not document.uri.startswith(f"{source.uri}#"):
        return f"with another uri than {source.uri!r}"
    if clean_text(document.text) != document.text:
        return "whose text is not clean: use clean_text"
    end = 0
    for segment in document.segments:
        if not end <= segment.char_start <= segment.char_end <= len(document.text):
            return "whose segments overlap, are out of order or leave the text"
        end = segment.char_end
    try:
        json.dumps(document.to_json())
    except (TypeError, ValueError):
        return "whose fields are not JSON values: use to_json_value for metadata"
    return ""


Reader = Callable[[Source, Limits], Extraction]


@dataclass(frozen=True, slots=True)
class Format:
    """A type of source.

    Attributes:
        name: as messages show it.
        suffixes: in lower case, with the dot.
        read: its reader.
        is_binary: recognized by its bytes, not by its suffix.
        package: the package that installs the reader; empty for built-in ones.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Reader
    is_binary: bool = False
    package: str = ""


def _read_mail(source: Source, limits: Limits) -> Extraction:
    from palimpsest.sources.readers.read_source import read_bytes  # an attachment is of any type: a circle

    return read_mail(source, limits, read_bytes)


def _read_mailbox(source: Source, limits: Limits) -> Extraction:
    from palimpsest.sources.readers.read_source import read_bytes  # as above

    return read_mailbox(source, limits, read_bytes)


def _read_outlook(source: Source, limits: Limits) -> Extraction:
    return _read_mail(convert_outlook_mail(source), limits)


TEXT = Format("text", (".txt", ".text", ".rst", ".log", ".adoc", ".asciidoc"), read_text)
PDF = Format("PDF", (".pdf",), read_pdf, is_binary=True)
DOCX = Format("DOCX", (".docx", ".docm"), read_docx, is_binary=True)
PPTX = Format("PPTX", (".pptx", ".pptm"), read_pptx, is_binary=True)
XLSX = Format("XLSX", (".xlsx", ".xlsm"), read_xlsx, is_binary=True)
EPUB = Format("EPUB", (".epub",), read_epub, is_binary=True)
MAILBOX = Format("mailbox", (".mbox",), _read_mailbox)
OUTLOOK = Format("Outlook mail", (".msg",), _read_outlook, is_binary=True)

_BUILT_IN = (
    Format("Markdown", (".md", ".markdown", ".mdown", ".mkd"), read_markdown),
    TEXT,
    Format("HTML", (".html", ".htm", ".xhtml"), read_html),
    Format("CSV", (".csv", ".tsv"), read_csv),
    Format("JSON lines", (".jsonl", ".ndjson"), read_json_lines),
    Format("JSON", (".json",), read_json),
    Format("e-mail", (".eml",), _read_mail),
    MAILBOX,
    Format("captions", (".vtt", ".srt"), read_captions),
    PDF,
    DOCX,
    PPTX,
    XLSX,
    EPUB,
    OUTLOOK,
)


@cache
def formats_by_suffix() -> dict[str, Format]:
    """Returns the format of each suffix; a file with any other is rejected, never skipped.

    Raises:
        PalimpsestError: an installed reader would replace a built-in one, or two packages install the same suffix.
    """
    formats = {suffix: f for f in _BUILT_IN for suffix in f.suffixes}
    for suffix, entry in find_installed_readers().items():
        package = package_name(entry)
        if suffix in formats:
            raise PalimpsestError(
                f"{package}: its reader of {suffix} would replace the built-in one; rename its entry point or "
                "uninstall it"
            )
        formats[suffix] = Format(f"{suffix} file", (suffix,), partial(read_installed, entry), package=package)
    return formats


# What a reader in another package imports; see docs/extending.md. These names stay when modules move.

__all__ = [
    "ExtractedDocument",
    "Extraction",
    "HeadingPath",
    "Kind",
    "Limits",
    "Rejected",
    "Segment",
    "Source",
    "TextBuilder",
    "clean_text",
    "decode",
    "first_date",
    "limit_problems",
    "one_line",
    "title_from_uri",
    "to_json_value",
]
