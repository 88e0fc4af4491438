"""The pages that a site lists itself: sitemaps named by robots.txt, at the URL and at the root, and indexes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urljoin

from palimpsest.sources.crawl.fetch import GZIP_MARK, BadCoding, Fetcher, FetchFailed, TooLarge, unpack_gzip
from palimpsest.sources.crawl.robots import Robots
from palimpsest.sources.crawl.urls import folder_of, origin_of, try_normalize

MAX_BYTES, MAX_PER_FILE = 50_000_000, 50_000  # the protocol's own limits
MAX_SITEMAPS = 50
MAX_URLS = 200_000
_MAX_NESTING = 3
_NO_SITEMAP = "status"


@dataclass(frozen=True)
class SitemapPages:
    """What the sitemaps of a site list.

    Attributes:
        urls: normal URLs of the site, in the order in which they are listed, each once.
        sitemaps: the sitemaps that were read.
        problems: one for each sitemap that could not be read, with its URL and why.
        is_whole: whether every sitemap was read to its end.
    """

    urls: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    is_whole: bool = True


def find_sitemaps(
    fetcher: Fetcher, start: str, robots: Robots, contains: Callable[[str], bool], max_bytes: int = MAX_BYTES
) -> SitemapPages:
    """Reads the sitemaps of a site.

    Args:
        fetcher: fetches them.
        start: normal URL of the site.
        robots: of its server; its rules hold for sitemaps too.
        contains: whether a URL is of the site; others are left out.
        max_bytes: of one sitemap, unpacked.

    Raises:
        FetchFailed: the guard of addresses refuses the server.
    """
    guesses = dict.fromkeys(urljoin(folder, "sitemap.xml") for folder in (folder_of(start), origin_of(start)))
    named = dict.fromkeys(robots.sitemaps)
    if start.endswith((".xml", ".xml.gz")):
        named = {start: None} | named
    reader = _SitemapReader(fetcher, robots, contains, max_bytes)
    for url in named:
        reader.read(url, is_guess=False)
    for url in guesses:
        if url not in named:
            reader.read(url, is_guess=True)
    return SitemapPages(tuple(reader.urls), tuple(reader.read_from), tuple(reader.problems), reader.is_whole)


class _SitemapReader:
    def __init__(self, fetcher: Fetcher, robots: Robots, contains: Callable[[str], bool], max_bytes: int) -> None:
        self._fetcher, self._robots, self._contains, self._max_bytes = fetcher, robots, contains, max_bytes
        self._seen: set[str] = set()
        self.urls: dict[str, None] = {}
        self.read_from: list[str] = []
        self.problems: list[tuple[str, str]] = []
        self.is_whole = True
        self._is_full = False

    def read(self, url: str, is_guess: bool, nesting: int = 0) -> None:
        """Reads a sitemap and those that it names; one that is only guessed need not be there.

        Raises:
            FetchFailed: the guard of addresses refuses the server.
        """
        if url in self._seen or self._is_full:
            return
        if nesting > _MAX_NESTING:
            self._add_problem(url, f"more than {_MAX_NESTING} levels of sitemaps")
            return
        if len(self._seen) >= MAX_SITEMAPS:
            self._stop(url, f"more than {MAX_SITEMAPS} sitemaps")
            return
        self._seen.add(url)
        if not self._robots.allows(url):
            if not is_guess:
                self._add_problem(url, "robots.txt does not allow it")
            return
        try:
            pages, indexes = self._fetch(url)
        except FetchFailed as e:
            if e.is_refused and is_guess:
                raise
            if not (is_guess and str(e).startswith(_NO_SITEMAP)):
                self._add_problem(url, str(e))
            return
        except _NoSitemap as e:
            if not is_guess:  # many servers answer every URL with a page
                self._add_problem(url, str(e))
            return
        self.read_from.append(url)
        if len(pages) + len(indexes) > MAX_PER_FILE:
            self._add_problem(url, f"lists more than {MAX_PER_FILE:,} URLs; the first of them were read")
        for page in pages:
            if len(self.urls) >= MAX_URLS:
                self._stop(url, f"more than {MAX_URLS:,} pages are listed; analyze and crawl parts of the site")
                return
            if self._contains(page):
                self.urls[page] = None
        for index in indexes:
            self.read(index, is_guess=False, nesting=nesting + 1)

    def _fetch(self, url: str) -> tuple[list[str], list[str]]:
        """Returns the pages and the sitemaps that a sitemap lists.

        Raises:
            FetchFailed: it cannot be fetched.
            _NoSitemap: it is none.
        """
        response = self._fetcher.get_following(url, self._max_bytes)
        if not 200 <= response.status < 300:
            raise FetchFailed(f"{_NO_SITEMAP} {response.status}")
        data = response.body
        if data.startswith(GZIP_MARK):
            try:
                data = unpack_gzip(data, self._max_bytes)
            except (TooLarge, BadCoding) as e:
                raise FetchFailed(f"the sitemap is {e}") from None
        return parse_sitemap(data, response.url)

    def _stop(self, url: str, why: str) -> None:
        """Notes the limit that was reached; no more sitemaps are read."""
        self._add_problem(url, why)
        self._is_full = True

    def _add_problem(self, url: str, why: str) -> None:
        self.is_whole = False
        self.problems.append((url, why))


_MAX_ELEMENTS = 20 * MAX_PER_FILE
"""Of a sitemap: one with the most pages, images and translations of each included."""


class _NoSitemap(Exception):
    """What was fetched is no sitemap."""


def parse_sitemap(data: bytes, url: str) -> tuple[list[str], list[str]]:
    """Returns the pages and the sitemaps that a sitemap lists, as normal URLs in their order.

    No entity is expanded, and nothing is fetched that the file names. A text with a URL on each line is a sitemap too.
    The 50,001st is the last: a file that has it lists more than the protocol allows.

    Raises:
        _NoSitemap: it is none, is broken, or has a document type.
    """
    from lxml import etree

    head = data[:2000].lstrip(b"\xef\xbb\xbf \r\n\t")
    if head.startswith((b"http://", b"https://")):
        lines = data.decode("utf-8", "replace").splitlines()[: MAX_PER_FILE + 1]
        return [found for line in lines if (found := try_normalize(line, url))], []
    if not head.startswith(b"<") or b"<!DOCTYPE" in head.upper():
        raise _NoSitemap("is no sitemap: neither XML without a document type nor a list of URLs")
    pages: list[str] = []
    indexes: list[str] = []
    read = 0
    options = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
    try:
        for _, element in etree.iterparse(BytesIO(data), events=("end",), **options):
            name = str(element.tag).rpartition("}")[2]
            parent = element.getparent()
            inside = "" if parent is None else str(parent.tag).rpartition("}")[2]
            if name == "loc" and inside in ("url", "sitemap") and (found := try_normalize(element.text or "", url)):
                (pages if inside == "url" else indexes).append(found)
                if len(pages) + len(indexes) > MAX_PER_FILE:
                    break
            elif parent is None and name not in ("urlset", "sitemapindex"):
                raise _NoSitemap(f"is no sitemap: its root is {name[:40]}")
            read += 1
            if read > _MAX_ELEMENTS:
                raise _NoSitemap("is no sitemap: it has too many elements")
            if inside not in ("url", "sitemap"):  # what a page is listed with is freed with it
                element.clear()
                while parent is not None and element.getprevious() is not None:
                    del parent[0]
    except (etree.XMLSyntaxError, ValueError):
        raise _NoSitemap("is no sitemap: its XML is broken") from None
    return pages, indexes
