"""The crawl of a site: from its start, its sitemaps or its links to the pages that are stored, in a fixed order."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from palimpsest.core.errors import Rejected
from palimpsest.core.files import file_hash_of
from palimpsest.core.progress import progress
from palimpsest.sources.crawl.crawl_options import CrawlOptions
from palimpsest.sources.crawl.crawl_result import CrawlResult
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS, Fetcher, FetchFailed, Response
from palimpsest.sources.crawl.media_types import HTML, charset_of, media_type_of, suffix_of
from palimpsest.sources.crawl.read_page import PageFacts, read_page, to_utf8
from palimpsest.sources.crawl.robots import RobotsOfServers, page_rules
from palimpsest.sources.crawl.sitemaps import SitemapPages
from palimpsest.sources.crawl.stored_pages import StoredPages
from palimpsest.sources.crawl.urls import SiteScope
from palimpsest.store.limits import Limits
from palimpsest.store.web_pages import WebPage

Renderer = Callable[[str], bytes]
"""Returns the page of a URL as a browser shows it; raises FetchFailed where it cannot."""
EXISTS = "the collection has this page; --mode reingest updates it"
_GONE = (404, 410)


@dataclass(frozen=True, order=True)
class _Item:
    """A URL to visit; the least comes first.

    Attributes:
        depth: links from the start.
        url: normal URL.
        hops: redirects and canonical names that led to it.
        as_itself: whether it is stored under its own URL, whatever it names as canonical.
    """

    depth: int
    url: str
    hops: int = 0
    as_itself: bool = False


@dataclass
class _State:
    frontier: list[_Item] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    canonical_of: dict[str, str] = field(default_factory=dict)
    """The canonical URL of each page that was left to it."""
    is_cut: bool = False
    """Whether links of some pages were not followed because of their depth."""


class Crawl:
    """One crawl of a site."""

    def __init__(
        self,
        fetcher: Fetcher,
        pages: StoredPages,
        scope: SiteScope,
        options: CrawlOptions,
        limits: Limits,
        result: CrawlResult,
        render: Renderer | None = None,
    ) -> None:
        """Prepares a crawl.

        Args:
            fetcher: sends the requests.
            pages: what is known and where it is stored.
            scope: which URLs belong to the site.
            options: depth, limits and mode.
            limits: of a source of the collection.
            result: counts what is done.
            render: draws pages that scripts write.
        """
        self._fetcher, self._pages, self._scope, self._options = fetcher, pages, scope, options
        self._limits, self._result, self._render = limits, result, render
        self._state = _State()

    def run(self, robots: RobotsOfServers, sitemap: SitemapPages) -> None:
        """Visits every page of the site within the limits, then retires pages that are gone.

        Args:
            robots: rules of the servers.
            sitemap: pages that it lists; where there are none, links are followed.
        """
        state, result, options = self._state, self._result, self._options
        follows = options.follow_links or not any(map(self._scope.wants, sitemap.urls))
        self._push(_Item(0, self._scope.start))
        for url in sitemap.urls if options.depth else ():
            self._push(_Item(1, url))
        result.sitemaps = sitemap.sitemaps
        for url, why in sitemap.problems:
            result.fail(url, why)
        result.is_complete = sitemap.is_whole
        self._drain(robots, follows, min(options.max_pages, len(sitemap.urls) or options.max_pages))
        if state.is_cut and result.is_complete and not state.frontier:
            for uri in self._pages.unreached(state.reached | state.seen):  # deeper than this crawl follows links
                self._push(_Item(options.depth, uri))
            self._drain(robots, False, len(state.frontier))
        if state.frontier:
            result.counts["not_fetched"] += len(state.frontier)
            result.is_complete = False
        if not result.counts["fetched"]:  # a server that answers nothing is no site without pages
            result.is_complete = False
        if result.is_complete:
            result.counts["gone"] += self._pages.retire_unreached(state.reached)
        self._pages.finish()

    def _drain(self, robots: RobotsOfServers, follows: bool, total: int) -> None:
        """Visits the URLs of the frontier, and those that they lead to, within the limits."""
        state, options, counts = self._state, self._options, self._result.counts
        with progress("crawl", total, "pages") as advance:
            while state.frontier and counts["fetched"] < options.max_pages and self._fetcher.left_s > 0:
                item = heapq.heappop(state.frontier)
                state.is_cut |= follows and item.depth == options.depth > 0
                if not robots.allows(item.url):
                    counts["robots"] += 1
                    self._give_back(item)
                    continue
                for link in self._visit(item, follows and item.depth < options.depth):
                    self._push(_Item(item.depth + 1, link))
                advance(1)

    def _push(self, item: _Item) -> None:
        """Adds a URL to those to visit, once, where it is of the site."""
        if (item.url in self._state.seen and not item.as_itself) or not self._scope.contains(item.url):
            return
        is_new = item.url not in self._state.seen
        self._state.seen.add(item.url)
        if item.url != self._scope.start and not self._scope.wants(item.url):
            self._result.counts["excluded"] += int(is_new)
            return
        heapq.heappush(self._state.frontier, item)

    def _visit(self, item: _Item, follows: bool) -> tuple[str, ...]:
        """Fetches a page, stores it where it is new or changed, and returns the links to follow."""
        known = self._pages.known(item.url)
        if known is not None and self._pages.is_foreign(known.record):
            self._result.fail(item.url, "is a page of another user or project of this collection; use another one")
            self._state.reached.add(known.record.uri)
            return ()
        if known is not None and self._options.mode == "ingest":
            self._result.fail(item.url, EXISTS)
            self._state.reached.add(known.record.uri)
            return ()
        if not follows and self._pages.is_deleted(known.record.uri if known else item.url):
            self._result.counts["deleted"] += 1
            return ()
        try:
            headers = self._pages.validators(known)
            response = self._fetcher.get(item.url, headers, is_wanted=lambda h: suffix_of(item.url, h) is not None)
        except FetchFailed as e:
            self._fail(item, known, str(e), is_final=e.is_refused)
            return ()
        if response.status == 304 and known is not None:
            return self._keep(item, known, follows)
        if response.is_redirect:
            self._redirect(item, response)
            return ()
        if not 200 <= response.status < 300:
            self._handle_status(item, known, response.status)
            return ()
        if (suffix := suffix_of(item.url, response.headers)) is None:
            media_type = media_type_of(response.headers) or "unknown"
            self._result.fail(item.url, f"media type {media_type} is no document that is read", "other_types")
            self._give_back(item)
            return ()
        self._result.counts["fetched"] += 1
        return self._take(item, known, response, suffix, follows)

    def _take(
        self, item: _Item, known: WebPage | None, response: Response, suffix: str, follows: bool
    ) -> tuple[str, ...]:
        """Stores what a server sent, under the URL that it is known by; returns the links to follow."""
        body = response.body
        try:
            if suffix == HTML:
                if self._render is not None:
                    body = self._render(item.url)
                body = to_utf8(body, charset_of(response.headers))
            facts = self._facts(item.url, body, suffix, response.headers)
        except (Rejected, FetchFailed) as e:
            self._fail(item, known, str(e), is_final=isinstance(e, Rejected))
            return ()
        links = facts.links if follows else ()
        if not self._scope.wants(item.url):  # the start, which is read for its links
            self._result.counts["excluded"] += 1
            return links
        if not facts.may_store:
            self._result.counts["robots"] += 1
            self._give_back(item)
            return links
        if self._leave_to_canonical(item, facts.canonical):
            return links
        self._store(item, response, body, suffix, facts)
        return links

    def _facts(self, url: str, body: bytes, suffix: str, headers: Mapping[str, str]) -> PageFacts:
        """Returns the facts of a document.

        Raises:
            Rejected: there is nothing to read in it.
        """
        tag = headers.get("x-robots-tag", "")
        if not body:
            raise Rejected("empty: the server sent no bytes")
        if suffix != HTML:
            return PageFacts(may_store=page_rules(tag, {})[0], text_hash=file_hash_of(body))
        return read_page(body, url, tag, self._limits)

    def _store(self, item: _Item, response: Response, body: bytes, suffix: str, facts: PageFacts) -> None:
        """Stores a page, unless it was deleted, has no text, or another page has the same text."""
        uri, result = item.url, self._result
        if self._pages.is_deleted(uri):
            result.counts["deleted"] += 1
            self._state.reached.add(uri)
            return
        if not facts.text_hash:
            why = "holds no text; where scripts draw it, --render lets a browser draw it"
            self._fail(item, self._pages.known(uri), why, is_final=True)
            return
        is_new = self._pages.known(uri) is None
        if is_new and self._pages.duplicate_of(uri, facts.text_hash) is not None:
            result.counts["duplicates"] += 1
            return
        outcome = self._pages.store(uri, response, body, suffix, facts.text_hash)
        result.counts[outcome] += 1
        self._state.reached.add(uri)
        if outcome in ("new", "changed"):
            result.stored.append(uri)

    def _keep(self, item: _Item, known: WebPage, follows: bool) -> tuple[str, ...]:
        """Counts a page that did not change; returns the links of its stored bytes."""
        self._result.counts["fetched"] += 1
        self._result.counts["unchanged"] += 1
        self._state.reached.add(known.record.uri)
        self._pages.reach(known)
        if not follows or known.path.suffix != HTML:
            return ()
        try:
            return read_page(known.path.read_bytes(), item.url, "", self._limits).links
        except (OSError, Rejected):  # something of it was deleted: where it leads is not known
            self._result.is_complete = False
            return ()

    def _redirect(self, item: _Item, response: Response) -> None:
        """Visits where a URL leads to, in its place."""
        target = response.redirect
        self._result.counts["redirects"] += 1
        if target is None or item.hops >= MAX_REDIRECTS:
            self._result.failures.append((item.url, "redirected too often, or to no web page"))
        elif not self._scope.contains(target):
            self._result.failures.append((item.url, f"redirected out of the site, to {target}"))
        else:
            self._push(_Item(item.depth, target, item.hops + 1))
        self._give_back(item)

    def _leave_to_canonical(self, item: _Item, canonical: str | None) -> bool:
        """Returns whether a page is left to its canonical URL, which is then visited."""
        state = self._state
        if canonical is None or item.as_itself or item.hops >= MAX_REDIRECTS or canonical in state.canonical_of:
            return False
        if not (self._scope.contains(canonical) and self._scope.wants(canonical)):
            return False
        if canonical in state.seen and canonical not in state.reached and not self._is_waiting(canonical):
            return False  # it was visited and is no page
        state.canonical_of[item.url] = canonical
        self._result.counts["duplicates"] += 1
        self._push(_Item(item.depth, canonical, item.hops + 1))
        return True

    def _is_waiting(self, url: str) -> bool:
        return any(item.url == url for item in self._state.frontier)

    def _give_back(self, item: _Item) -> None:
        """Visits a page again that was left to a canonical URL which turned out to be no page."""
        for url, canonical in sorted(self._state.canonical_of.items()):
            if canonical == item.url:
                del self._state.canonical_of[url]
                self._result.counts["duplicates"] -= 1
                self._push(_Item(item.depth, url, item.hops, as_itself=True))
                return

    def _handle_status(self, item: _Item, known: WebPage | None, status: int) -> None:
        if status in _GONE and known is not None and known.record.uri == item.url:
            self._pages.retire(known.record.uri)
            self._result.counts["gone"] += 1
            self._result.failures.append((item.url, f"status {status}: gone from the site"))
            self._give_back(item)
            return
        self._fail(item, known, f"status {status}", is_final=status < 500 and status != 429)

    def _fail(self, item: _Item, known: WebPage | None, why: str, is_final: bool) -> None:
        """Counts a page that could not be read; what is known of it is kept.

        Where another attempt may succeed, pages behind it are not known to be gone.
        """
        self._result.fail(item.url, why)
        if known is not None:
            self._state.reached.add(known.record.uri)
        if not is_final:
            self._result.is_complete = self._result.is_final = False
        self._give_back(item)
