"""Which reader reads which suffix: the one table of formats, built-in and installed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from palimpsest.core.errors import PalimpsestError
from palimpsest.sources.extracted import Extraction, Source
from palimpsest.sources.readers.conversations.captions import read_captions
from palimpsest.sources.readers.conversations.chat_json import read_json
from palimpsest.sources.readers.conversations.json_lines import read_json_lines
from palimpsest.sources.readers.docx import read_docx
from palimpsest.sources.readers.epub import read_epub
from palimpsest.sources.readers.html_page import read_html
from palimpsest.sources.readers.installed_readers import find_installed_readers, package_name, read_installed
from palimpsest.sources.readers.mail import convert_outlook_mail, read_mail
from palimpsest.sources.readers.pdf import read_pdf
from palimpsest.sources.readers.pptx import read_pptx
from palimpsest.sources.readers.text_files import read_csv, read_markdown, read_text
from palimpsest.sources.readers.xlsx import read_xlsx
from palimpsest.store.collection_config import Limits

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


def _read_outlook(source: Source, limits: Limits) -> Extraction:
    return _read_mail(convert_outlook_mail(source), limits)


TEXT = Format("text", (".txt", ".text", ".rst", ".log", ".adoc", ".asciidoc"), read_text)
PDF = Format("PDF", (".pdf",), read_pdf, is_binary=True)
DOCX = Format("DOCX", (".docx", ".docm"), read_docx, is_binary=True)
PPTX = Format("PPTX", (".pptx", ".pptm"), read_pptx, is_binary=True)
XLSX = Format("XLSX", (".xlsx", ".xlsm"), read_xlsx, is_binary=True)
EPUB = Format("EPUB", (".epub",), read_epub, is_binary=True)
OUTLOOK = Format("Outlook mail", (".msg",), _read_outlook, is_binary=True)

_BUILT_IN = (
    Format("Markdown", (".md", ".markdown", ".mdown", ".mkd"), read_markdown),
    TEXT,
    Format("HTML", (".html", ".htm", ".xhtml"), read_html),
    Format("CSV", (".csv", ".tsv"), read_csv),
    Format("JSON lines", (".jsonl", ".ndjson"), read_json_lines),
    Format("JSON", (".json",), read_json),
    Format("e-mail", (".eml",), _read_mail),
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
