"""Which responses are documents, and the suffix by which they are read."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

HTML = ".html"
_SUFFIXES = {
    "text/html": HTML,
    "application/xhtml+xml": HTML,
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/vtt": ".vtt",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
# Conversations and mails are no pages: they state whose each of their texts is.
_READABLE = frozenset((*_SUFFIXES.values(), ".htm", ".xhtml", ".markdown", ".rst", ".adoc"))
_UNKNOWN = ("", "application/octet-stream", "binary/octet-stream", "application/zip")
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,80}")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)


def media_type_of(headers: Mapping[str, str]) -> str:
    """Returns the media type that a response states, in lower case; empty where it states none, else `unreadable`."""
    stated = headers.get("content-type", "").partition(";")[0].strip().lower()
    return stated if _TYPE.fullmatch(stated) else "" if not stated else "unreadable"


def suffix_of(url: str, headers: Mapping[str, str]) -> str | None:
    """Returns the suffix by which a response is read; None where it is no document that can be.

    The URL decides where the server states no type, or one of bytes, or a plain text that is Markdown.
    """
    media_type = media_type_of(headers)
    named = PurePosixPath(unquote(urlsplit(url).path)).suffix.lower()
    if media_type in _UNKNOWN:
        return named if named in _READABLE else HTML if media_type == "" and named == "" else None
    found = _SUFFIXES.get(media_type)
    return named if found == ".txt" and named in _READABLE - {HTML, ".htm", ".xhtml"} else found


def charset_of(headers: Mapping[str, str]) -> str | None:
    """Returns the encoding that a response states; None where it states none."""
    match = _CHARSET.search(headers.get("content-type", ""))
    return match[1].lower() if match else None
