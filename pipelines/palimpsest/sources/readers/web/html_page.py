"""HTML pages: the main text by their structure, the title and the dates that the page states."""

import json
import re
from typing import Any

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, first_date, one_line, parse_name
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.text_builder import HeadingPath, TextBuilder, first_heading
from palimpsest.sources.readers.web.markup import add_markup
from palimpsest.sources.records.extracted import Extraction
from palimpsest.sources.records.source import Source, limit_problems
from palimpsest.store.limits import Limits

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([\w-]+)", re.IGNORECASE)
_MAX_META_CHARS, _MAX_SCRIPT_CHARS = 1_000, 200_000
_CHANGED = ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified", "datemodified")
_PUBLISHED = (
    "article:published_time",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.issued",
    "pubdate",
    "publish_date",
    "publication_date",
    "citation_publication_date",
    "datepublished",
)
_KEPT = {"description": ("description", "og:description"), "author": ("author", "article:author", "dc.creator")}


def read_html(source: Source, limits: Limits) -> Extraction:
    """Reads a page: main text without menus; `metadata` has description, author, language and url where stated.

    Raises:
        Rejected: binary, unknown encoding, empty or too long.
    """
    root, problems = parse_html(source.data, limits)
    builder = TextBuilder(limits.max_chars)
    body = root.find("body")
    add_markup(root if body is None else body, builder, HeadingPath())
    if not builder.segments:
        if problems:
            raise Rejected(f"{problems[0]}; and no text precedes it: simplify the page")
        raise Rejected("empty: the page holds no text; it may be drawn by a script: save what a browser shows")
    meta = _meta(root)
    metadata: JsonObject = {
        key: value
        for key, names in _KEPT.items()
        if (value := next((meta[n] for n in names if n in meta), None)) and "://" not in value
    }
    if language := parse_name(root.get("lang")):
        metadata["language"] = language
    link = next((e for e in root.iter("link") if (e.get("rel") or "").lower() == "canonical"), None)
    if link is not None and (url := parse_name(link.get("href"))):
        metadata["url"] = url[:_MAX_META_CHARS]
    title = next((one_line(clean_text("".join(e.itertext()))) for e in root.iter("title")), "")
    heading = (first_heading(builder.segments) or "").split(" > ")[0]
    document = builder.to_document(
        source,
        "text/html",
        title=(title or meta.get("og:title") or heading)[:_MAX_META_CHARS],
        source_time=first_date(meta, *_CHANGED, *_PUBLISHED, order=source.dates),
        metadata=metadata,
    )
    return Extraction((document,), limit_problems(problems, limits))


def parse_html(data: bytes, limits: Limits) -> tuple[Any, list[str]]:
    """Returns the root element of a page in its stated or detected encoding, and problems.

    Raises:
        Rejected: binary, unknown encoding or empty.
    """
    from lxml import etree

    text = _decode(data, limits)
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise Rejected("empty: the page holds no element with text")
    for element in root.iter():  # SVG and MathML in XHTML bring namespaces
        if isinstance(element.tag, str) and "}" in element.tag:
            element.tag = element.tag.rpartition("}")[2]
    deep = any("xcessive depth" in e.message for e in parser.error_log)
    return root, ["nested more than 256 levels deep: what follows there was not read"] if deep else []


def _decode(data: bytes, limits: Limits) -> str:
    if (stated := _CHARSET.search(data[:4096])) and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            text = clean_text(data.decode(stated[1].decode("ascii")))
        except (UnicodeDecodeError, LookupError):
            return decode(data, limits)
        if text.strip() and len(text) <= limits.max_chars and text.count("\ufffd") == 0:
            return text
    return decode(data, limits)


def _meta(root: Any) -> dict[str, str]:
    """Returns the metadata of a page by lower-case name: meta elements, JSON-LD dates, the first `time`."""
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or element.get("http-equiv")
        content = one_line(clean_text(element.get("content") or ""))[:_MAX_META_CHARS]
        if name and content:
            found.setdefault(name.strip().lower(), content)
    for element in root.iter("script"):
        if element.get("type") == "application/ld+json" and len(element.text or "") <= _MAX_SCRIPT_CHARS:
            for key, value in _linked_data(element.text or ""):
                found.setdefault(key, value)
    stamp = next((e.get("datetime") for e in root.iter("time") if e.get("datetime")), None)
    if stamp and next(root.iter("article"), None) is not None:
        found.setdefault("datepublished", stamp)
    return found


def _linked_data(script: str) -> list[tuple[str, str]]:
    try:
        data = json.loads(script)
    except (ValueError, RecursionError):
        return []
    items = data.get("@graph", [data]) if isinstance(data, dict) else data
    return [
        (key.lower(), item[key])
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict)
        for key in ("dateModified", "datePublished")
        if isinstance(item.get(key), str)
    ]
