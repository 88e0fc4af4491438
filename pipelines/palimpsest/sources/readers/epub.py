"""EPUB: the parts of the book in its reading order, each an HTML page."""

import io
import posixpath
import zipfile
from typing import Any
from urllib.parse import unquote

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.encodings import clean_text, first_date, one_line, parse_name, parse_xml
from palimpsest.sources.readers.html_page import add_markup, parse_html
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder
from palimpsest.store.collection_config import Limits

_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")


def read_epub(source: Source, limits: Limits) -> Extraction:
    """Reads a book; `page` is the number of the part in reading order.

    Raises:
        Rejected: corrupt, protected, empty, or of too many parts.
    """
    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        names = set(archive.namelist())
        container = _xml(archive.read("META-INF/container.xml")) if "META-INF/container.xml" in names else None
        found = next((e.get("full-path") for e in _named(container, "rootfile")), None)
        if not found or found not in names:
            raise Rejected("corrupt EPUB: it does not name its contents; export it again")
        package = _xml(archive.read(found))
        parts = _spine(package, posixpath.dirname(found))
        if len(parts) > limits.max_pages:
            raise Rejected(f"too large: {len(parts):,} parts, the limit is {limits.max_pages:,}; split the book")
        locked = _protected(archive, names)
        if locked & set(parts):
            raise Rejected("protected EPUB (DRM): its text is encrypted; use a copy without protection")
        builder, problems, path = TextBuilder(limits.max_chars), list[str](), HeadingPath()
        for number, part in enumerate(parts, 1):
            try:
                root, more = parse_html(archive.read(part), limits)
            except KeyError:
                problems.append(f"part {number} ({part[:80]}): missing from the book")
                continue
            except Rejected as e:
                if not str(e).startswith("empty"):
                    problems.append(f"part {number} ({part[:80]}): {e}")
                continue
            problems += [f"part {number} ({part[:80]}): {p}" for p in more]
            body = root.find("body")
            add_markup(root if body is None else body, builder, path, whole=True, page=number)
    if not builder.segments:
        raise Rejected(f"empty: the book holds no text{'; ' + problems[0] if problems else ''}")
    metadata = _metadata(package)
    document = builder.to_document(
        source,
        "application/epub+zip",
        title=parse_name(metadata.pop("title", None)),
        source_time=first_date(metadata, "modified", "date", order=source.dates),
        metadata=metadata,
    )
    return Extraction((document,), limit_problems(problems, limits))


def _xml(data: bytes) -> Any:
    root = parse_xml(data, recover=True)
    if root is None:
        raise Rejected("corrupt EPUB: its list of contents is no XML; export it again")
    return root


def _named(root: Any, *names: str) -> list[Any]:
    return [] if root is None else list(root.iter(*(f"{{*}}{n}" for n in names)))


def _spine(package: Any, folder: str) -> list[str]:
    items = {e.get("id"): e for e in _named(package, "item")}
    parts = []
    for ref in _named(package, "itemref"):
        item = items.get(ref.get("idref"))
        if item is not None and item.get("media-type") in _PAGES and (item.get("properties") or "") != "nav":
            parts.append(posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or ""))))
    return parts


def _protected(archive: zipfile.ZipFile, names: set[str]) -> set[str]:
    if "META-INF/encryption.xml" not in names:
        return set()
    root = _xml(archive.read("META-INF/encryption.xml"))
    return {posixpath.normpath(unquote(e.get("URI") or "")) for e in _named(root, "CipherReference")}


def _metadata(package: Any) -> JsonObject:
    info: JsonObject = {}
    for name, key in (
        ("title", "title"),
        ("creator", "author"),
        ("date", "date"),
        ("language", "language"),
        ("publisher", "publisher"),
    ):
        if value := next((t for e in _named(package, name) if (t := one_line(clean_text(e.text or "")))), None):
            info[key] = value
    for meta in _named(package, "meta"):
        if meta.get("property") == "dcterms:modified" and meta.text:
            info["modified"] = one_line(clean_text(meta.text))
    return info
