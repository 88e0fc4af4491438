"""What a crawl needs to know of a page: its links, its canonical URL, its rules for robots and its main text."""

import base64
import re
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import text_hash
from palimpsest.sources.crawl.urls import ROBOT_NAME, host_of, try_normalize
from palimpsest.sources.readers.html_page import add_markup, parse_html
from palimpsest.sources.readers.text_builder import HeadingPath, TextBuilder
from palimpsest.sources.worker_pool import WorkerProcess
from palimpsest.store.collection_config import Limits

MAX_LINKS, MAX_HTML_BYTES = 10_000, 5_000_000
_REFRESH = re.compile(r"\s*+[\d.]*+\s*+[;,]?\s*+url\s*+=\s*+[\"']?([^\"'\s]+)", re.IGNORECASE)


@dataclass(frozen=True)
class PageFacts:
    """What is read of a page.

    Attributes:
        links: normal URLs that it links to, each once, in their order.
        canonical: the URL of its host that it says it is the same as; None where it names none, or itself.
        may_store: whether it lets robots store it.
        text_hash: of its main text; empty where it has none.
    """

    links: tuple[str, ...] = ()
    canonical: str | None = None
    may_store: bool = True
    text_hash: str = ""


def read_page(data: bytes, url: str, robots_tag: str, limits: Limits) -> PageFacts:
    """Reads a page of HTML; `PageReader` does it within limits of size, time and memory.

    Args:
        data: its bytes.
        url: its normal URL.
        robots_tag: `X-Robots-Tag` of the response.
        limits: of the collection.

    Raises:
        Rejected: it is no page that can be read.
    """
    root, _ = parse_html(data, limits)
    meta = {
        name.strip().lower(): element.get("content") or ""
        for element in root.iter("meta")
        if (name := element.get("name") or element.get("http-equiv"))
    }
    may_store, may_follow = page_rules(robots_tag, meta)
    base = next((try_normalize(e.get("href") or "", url) for e in root.iter("base")), None) or url
    links = _links(root, base, meta) if may_follow else {}
    links.pop(url, None)
    return PageFacts(tuple(links), _canonical(root, base, url), may_store, _main_text_hash(root, limits))


def to_utf8(data: bytes, content_type: str) -> bytes:
    """Returns the bytes of a page in UTF-8, where only the header `Content-Type` states another encoding."""
    from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding

    stated = http_content_type_encoding(content_type)
    if stated in (None, "utf-8") or html_body_declared_encoding(data):
        return data
    try:
        return data.decode(str(stated)).encode("utf-8")
    except UnicodeError:
        return data


def _links(root: Any, base: str, meta: dict[str, str]) -> dict[str, None]:
    found: dict[str, None] = {}
    for element in root.iter("a", "area", "link", "frame"):
        rel = (element.get("rel") or "").lower().split()
        if "nofollow" in rel or (element.tag == "link" and not {"next", "prev"} & set(rel)):
            continue
        href = element.get("src" if element.tag == "frame" else "href")
        if href and (link := try_normalize(href, base)):
            found[link] = None
            if len(found) >= MAX_LINKS:
                break
    if (refresh := _REFRESH.match(meta.get("refresh", ""))) and (link := try_normalize(refresh[1], base)):
        found[link] = None
    return found


def _canonical(root: Any, base: str, url: str) -> str | None:
    """Returns the canonical URL; one of another host is not believed: anybody could name one."""
    for element in root.iter("link"):
        if "canonical" in (element.get("rel") or "").lower().split():
            found = try_normalize(element.get("href") or "", base)
            return found if found is not None and found != url and host_of(found) == host_of(url) else None
    return None


def _main_text_hash(root: Any, limits: Limits) -> str:
    builder = TextBuilder(limits.max_chars)
    body = root.find("body")
    try:
        add_markup(root if body is None else body, builder, HeadingPath())
    except Rejected:
        return ""  # the reader of the build says why
    return text_hash(builder.text) if builder.segments else ""


def page_rules(header: str, meta: dict[str, str]) -> tuple[bool, bool]:
    """Returns whether a page may be stored, and whether its links may be followed.

    Args:
        header: `X-Robots-Tag` of the response.
        meta: content of the page's meta elements by name.
    """
    stated = ",".join([meta.get("robots", ""), meta.get(ROBOT_NAME, ""), *_of_this_robot(header)]).lower()
    words = {word.strip() for word in stated.split(",")}
    return not words & {"noindex", "none"}, not words & {"nofollow", "none"}


def _of_this_robot(header: str) -> list[str]:
    """Returns the rules of a header that are for every robot, or for this one."""
    found, is_ours = [], True
    for part in header.split(","):
        name, colon, rest = part.partition(":")
        if colon:
            is_ours = name.strip().lower() in (ROBOT_NAME, "")
        if is_ours:
            found.append(rest if colon else part)
    return found


# Reads pages in a worker process, so that none can hang, end or fill the process that crawls.

MAX_SECONDS = 20.0
"""Of processor time for one page, and four times that by the clock, where limits.max_seconds is not lower."""


class PageReader:
    """Reads pages one after the other; a context manager. Its process is started for the first page."""

    def __init__(self, limits: Limits) -> None:
        """Prepares it; `limits` are those of the collection."""
        seconds = min(limits.max_seconds, MAX_SECONDS)
        self._worker = WorkerProcess(
            "palimpsest.sources.crawl.page_process", limits.model_copy(update={"max_seconds": seconds})
        )

    def __enter__(self) -> "PageReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end()

    def read(self, data: bytes, url: str, robots_tag: str) -> PageFacts:
        """Returns what is read of a page of HTML; see `read_page`.

        Raises:
            Rejected: it is no page that can be read, is too large, or takes too much time or memory.
            ComponentFailed: the process cannot be started.
        """
        if len(data) > MAX_HTML_BYTES:
            raise Rejected(f"larger than {MAX_HTML_BYTES:,} bytes of HTML; it would take minutes to read")
        request = [base64.b64encode(data).decode("ascii"), url, robots_tag]
        response = cast(dict[str, Any], self._worker.request(request))
        if "reason" in response:
            raise Rejected(response["reason"])
        return PageFacts(tuple(response["links"]), response["canonical"], response["may_store"], response["text_hash"])
