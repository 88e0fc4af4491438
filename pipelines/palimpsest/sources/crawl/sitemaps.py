"""The pages that a site lists itself: sitemaps named by robots.txt, at the URL and at the root, and indexes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urljoin

from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed, unpack
from palimpsest.sources.crawl.robots import Robots
from palimpsest.sources.crawl.urls import folder_of, origin_of, try_normalize

MAX_BYTES, MAX_PER_FILE = 50_000_000, 50_000  # the protocol's own limits
MAX_SITEMAPS = 50
MAX_URLS = 200_000
_MAX_NESTING = 3
_MAX_ELEMENTS = 20 * MAX_PER_FILE
"""Of a sitemap: one with the most pages, images and translations of each included."""
_GZIP_MARK = b"\x1f\x8b"


@dataclass(frozen=True)
class SitemapPages:
    """What the sitemaps of a site list.

    Attributes:
        urls: normal URLs of the site, in the order in which they are listed, each once.
        sitemaps: the sitemaps that were read.
        problems: one for each sitemap that could not be read, with its URL and why.
    """

    urls: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every sitemap was read to its end."""
        return not self.problems


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
    own = [start] if start.endswith((".xml", ".xml.gz")) else []
    named = dict.fromkeys([*own, *robots.sitemaps])
    guesses = dict.fromkeys(urljoin(folder, "sitemap.xml") for folder in (folder_of(start), origin_of(start)))
    reader = _SitemapReader(fetcher, robots, contains, max_bytes)
    for url in [*named, *guesses]:
        reader.read(url, is_guess=url not in named)
    return SitemapPages(tuple(reader.urls), tuple(reader.read_from), tuple(reader.problems))


class _NoSitemap(Exception):
    """What was fetched is no sitemap."""


class _SitemapReader:
    def __init__(self, fetcher: Fetcher, robots: Robots, contains: Callable[[str], bool], max_bytes: int) -> None:
        self._fetcher, self._robots, self._contains, self._max_bytes = fetcher, robots, contains, max_bytes
        self._seen: set[str] = set()
        self._is_full = False
        self.urls: dict[str, None] = {}
        self.read_from: list[str] = []
        self.problems: list[tuple[str, str]] = []

    def read(self, url: str, is_guess: bool, nesting: int = 0) -> None:
        """Reads a sitemap and those that it names; one that is only guessed need not be there.

        Raises:
            FetchFailed: the guard of addresses refuses the server.
        """
        if url in self._seen or self._is_full:
            return
        if nesting > _MAX_NESTING:
            self.problems.append((url, f"more than {_MAX_NESTING} levels of sitemaps"))
            return
        if len(self._seen) >= MAX_SITEMAPS:
            self._stop(url, f"more than {MAX_SITEMAPS} sitemaps")
            return
        self._seen.add(url)
        try:
            pages, indexes = self._fetch(url)
        except FetchFailed as e:
            if e.is_refused and is_guess:
                raise
            self.problems.append((url, str(e)))
        except _NoSitemap as e:
            if not is_guess:  # many servers answer every URL with a page
                self.problems.append((url, str(e)))
        else:
            self._take(url, pages)
            for index in indexes:
                self.read(index, is_guess=False, nesting=nesting + 1)

    def _fetch(self, url: str) -> tuple[list[str], list[str]]:
        """Returns the pages and the sitemaps that a sitemap lists.

        Raises:
            FetchFailed: it cannot be fetched.
            _NoSitemap: it is none.
        """
        if not self._robots.allows(url):
            raise _NoSitemap("robots.txt does not allow it")
        response = self._fetcher.get_following(url, self._max_bytes)
        if not response.is_page:
            raise _NoSitemap(f"status {response.status}")
        body = response.body
        found = parse_sitemap(unpack(body, self._max_bytes) if body.startswith(_GZIP_MARK) else body, response.url)
        self.read_from.append(url)
        if sum(map(len, found)) > MAX_PER_FILE:
            self.problems.append((url, f"lists more than {MAX_PER_FILE:,} URLs; the first of them were read"))
        return found

    def _take(self, url: str, pages: list[str]) -> None:
        for page in pages:
            if len(self.urls) >= MAX_URLS:
                self._stop(url, f"more than {MAX_URLS:,} pages are listed; analyze and crawl parts of the site")
                return
            if self._contains(page):
                self.urls[page] = None

    def _stop(self, url: str, why: str) -> None:
        """Notes the limit that was reached; no more sitemaps are read."""
        self.problems.append((url, why))
        self._is_full = True


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
    listed: dict[str, list[str]] = {"url": [], "sitemap": []}
    events = etree.iterparse(BytesIO(data), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        for number, (_, element) in enumerate(events):
            parent = element.getparent()
            name, inside = (str(e.tag).rpartition("}")[2] if e is not None else "" for e in (element, parent))
            if name == "loc" and inside in listed and (page := try_normalize(element.text or "", url)):
                listed[inside].append(page)
            if parent is None and name not in ("urlset", "sitemapindex"):
                raise _NoSitemap(f"is no sitemap: its root is {name[:40]}")
            if number >= _MAX_ELEMENTS:
                raise _NoSitemap("is no sitemap: it has too many elements")
            if sum(map(len, listed.values())) > MAX_PER_FILE:
                break
            if inside not in listed:  # what a page is listed with is freed with it
                element.clear()
                while parent is not None and element.getprevious() is not None:
                    del parent[0]
    except (etree.XMLSyntaxError, ValueError):
        raise _NoSitemap("is no sitemap: its XML is broken") from None
    return listed["url"], listed["sitemap"]
