"""URLs: one form for each page, and which URLs belong to a site."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit

ROBOT_NAME = "palimpsest"
"""By which servers, and their rules for robots, know this crawler."""
MAX_URL_CHARS = 2_000
DEFAULT_PORTS = {"http": 80, "https": 443}
# Parameters that name a visit or a campaign, not a page.
_SESSIONS = ("phpsessid", "jsessionid", "aspsessionid", "sessionid", "session_id", "cfid", "cftoken")
_CLICKS = ("gclid", "fbclid", "msclkid", "yclid", "mc_cid", "mc_eid")
_VISITS = frozenset(_SESSIONS + _CLICKS)
_CAMPAIGN = "utm_"
_PATH_SESSION = re.compile(r";(?:jsessionid|sessionid|phpsessid)=[^/;?]*", re.IGNORECASE)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|[0-9a-f:.]*:[0-9a-f:.]*")


class UrlRefused(ValueError):
    """A text is no URL of a web page; the message says why, without the text."""


def normalize_url(text: str, base: str | None = None) -> str:
    """Returns the one form of a URL that its page is known by.

    Scheme and host are in lower case, international names in Punycode, escapes in upper case and only where they are
    needed, dot segments resolved; the default port, the fragment, and parameters that name a visit are left out.

    Args:
        text: a URL, relative ones to `base`.
        base: URL of the page that has it.

    Raises:
        UrlRefused: it is none of http or https, names a user or a password, has no host or is too long.
    """
    from w3lib.url import safe_url_string

    if len(text) > MAX_URL_CHARS:
        raise UrlRefused(f"is longer than {MAX_URL_CHARS:,} characters")
    try:
        joined = urljoin(base, text.strip()) if base else text.strip()
        if joined.partition(":")[0].lower() not in DEFAULT_PORTS:
            raise UrlRefused("is no URL of http or https; write one such as https://example.org/")
        parts = urlsplit(safe_url_string(joined))
        port = parts.port
    except UrlRefused:
        raise
    except (ValueError, UnicodeError):
        raise UrlRefused("is no URL; write one such as https://example.org/") from None
    if parts.username is not None or parts.password is not None:
        raise UrlRefused("names a user or a password; leave them out")
    host = (parts.hostname or "").rstrip(".")
    if not _HOST.fullmatch(host):
        raise UrlRefused("has no host that can be one; write one such as https://example.org/")
    scheme = parts.scheme.lower()
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != DEFAULT_PORTS[scheme]:
        netloc += f":{port}"
    path = _resolve_dots(_PATH_SESSION.sub("", _ESCAPE.sub(_normal_escape, parts.path)))
    url = urlunsplit(SplitResult(scheme, netloc, path, _query_without_visit(parts.query), ""))
    if len(url) > MAX_URL_CHARS:
        raise UrlRefused(f"is longer than {MAX_URL_CHARS:,} characters")
    return url


def try_normalize(text: str, base: str) -> str | None:
    """Returns the one form of a link of a page; None where it leads to no web page."""
    try:
        return normalize_url(text, base) if text.strip() else None
    except UrlRefused:
        return None


def host_of(url: str) -> str:
    """Returns the host of a normal URL."""
    return urlsplit(url).hostname or ""


def origin_of(url: str) -> str:
    """Returns the root of a normal URL's server, such as `https://example.org/`."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


def folder_of(url: str) -> str:
    """Returns the URL of the folder that a site at this URL is: the part of the path that all its pages begin with.

    `/docs/` and `/docs` are the folder `/docs/`, `/docs/index.html` too.
    """
    path = urlsplit(url).path
    last = path.rpartition("/")[2]
    folder = path if not last else path[: -len(last)] if "." in last else f"{path}/"
    return urljoin(url, folder)


@dataclass(frozen=True)
class SiteScope:
    """Which URLs belong to a site: those of its host, at and below its folder, that its patterns take.

    Attributes:
        start: normal URL at which the site begins.
        include: patterns of which one must match; none means that all do.
        exclude: patterns of which none may match.
    """

    start: str
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def contains(self, url: str) -> bool:
        """Returns whether a URL is of the site, whatever the patterns say."""
        if url == self.start:
            return True
        parts, start = urlsplit(url), urlsplit(folder_of(self.start))
        if _server(parts) != _server(start):
            return False
        return parts.path.startswith(start.path) or f"{parts.path}/" == start.path

    def wants(self, url: str) -> bool:
        """Returns whether a page of the site is stored."""
        return not (self.include and not _matches(url, self.include)) and not _matches(url, self.exclude)


def _matches(url: str, patterns: Sequence[str]) -> bool:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return any(fnmatchcase(url if "://" in p else path, p) or fnmatchcase(parts.path, p) for p in patterns)


def _server(parts: SplitResult) -> tuple[str, int | None]:
    """Returns host and port; a site over http and https is one."""
    usual = parts.port is None or parts.port == DEFAULT_PORTS[parts.scheme]
    return parts.hostname or "", None if usual else parts.port


def _normal_escape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if _UNRESERVED.fullmatch(character) else match[0].upper()


def _query_without_visit(query: str) -> str:
    def is_kept(part: str) -> bool:
        name = part.partition("=")[0].lower()
        return bool(part) and name not in _VISITS and not name.startswith(_CAMPAIGN)

    return "&".join(part for part in _ESCAPE.sub(_normal_escape, query).split("&") if is_kept(part))


def _resolve_dots(path: str) -> str:
    found: list[str] = []
    segments = path.split("/")[1:] if path.startswith("/") else path.split("/")
    for segment in segments:
        if segment == "..":
            found = found[:-1]
        elif segment != ".":
            found.append(segment)
    if segments[-1] in (".", ".."):
        found.append("")
    return "/" + "/".join(found)


# Which responses are documents, and the suffix by which they are read.

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
