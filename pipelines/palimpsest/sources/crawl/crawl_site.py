"""The crawl of a site: from its start, its sitemaps or its links to the pages that are stored, in a fixed order."""

from collections.abc import Callable, Mapping

from palimpsest.core.errors import Rejected
from palimpsest.core.files import file_hash_of
from palimpsest.core.progress import progress
from palimpsest.sources.crawl.crawl_options import CrawlOptions
from palimpsest.sources.crawl.crawl_result import CrawlResult
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS, Fetcher, FetchFailed, Response
from palimpsest.sources.crawl.frontier import Frontier, Visit
from palimpsest.sources.crawl.media_types import HTML, charset_of, media_type_of, suffix_of
from palimpsest.sources.crawl.page_reader import PageReader
from palimpsest.sources.crawl.read_page import PageFacts, to_utf8
from palimpsest.sources.crawl.robots import RobotsOfServers, page_rules
from palimpsest.sources.crawl.sitemaps import SitemapPages
from palimpsest.sources.crawl.stored_pages import StoredPages
from palimpsest.sources.crawl.urls import SiteScope
from palimpsest.store.web_pages import WebPage

Renderer = Callable[[str], bytes]
"""Returns the page of a URL as a browser shows it; raises FetchFailed where it cannot."""
EXISTS = "the collection has this page; --mode reingest updates it"
_OTHER_OWNER = "is a page of another user or project of this collection; name another collection"
_NO_TEXT = "holds no text; where scripts draw it, --render lets a browser draw it"
_GONE = (404, 410)
_MORE_VISITS = 100


class Crawl:
    """One crawl of a site."""

    def __init__(
        self,
        fetcher: Fetcher,
        pages: StoredPages,
        scope: SiteScope,
        options: CrawlOptions,
        reader: PageReader,
        result: CrawlResult,
        render: Renderer | None = None,
    ) -> None:
        """Prepares a crawl.

        Args:
            fetcher: sends the requests.
            pages: what is known and where it is stored.
            scope: which URLs belong to the site.
            options: depth, limits and mode.
            reader: reads pages of HTML.
            result: counts what is done.
            render: draws pages that scripts write.
        """
        self._fetcher, self._pages, self._scope, self._options = fetcher, pages, scope, options
        self._reader, self._result, self._render = reader, result, render
        self._frontier = Frontier(scope, result)
        self._is_cut, self._visits = False, 0
        self._max_visits = _MORE_VISITS + 2 * options.max_pages

    def run(self, robots: RobotsOfServers, sitemap: SitemapPages) -> None:
        """Visits every page of the site within the limits, then retires pages that are gone.

        Args:
            robots: rules of the servers.
            sitemap: pages that the site lists; where there are none, links are followed.
        """
        frontier, result, options = self._frontier, self._result, self._options
        follows = options.follow_links or not any(map(self._scope.wants, sitemap.urls))
        frontier.push([Visit(0, self._scope.start)])
        frontier.push(Visit(1, url) for url in sitemap.urls if options.depth)
        result.sitemaps, result.is_complete = sitemap.sitemaps, sitemap.is_whole
        for url, why in sitemap.problems:
            result.fail(url, why)
        self._drain(robots, follows, min(options.max_pages, len(sitemap.urls) or options.max_pages))
        if self._is_cut and result.is_complete and not frontier:
            # Pages that are deeper than links were followed are requested: they stay while the server has them.
            left = self._pages.unreached(frontier.reached | frontier.seen)
            frontier.push(Visit(options.depth, uri) for uri in left)
            self._drain(robots, False, len(frontier))
        if frontier:
            result.counts["not_fetched"] += len(frontier)
            result.is_complete = False
        if not result.counts["fetched"]:  # a server that answers nothing is no site without pages
            result.is_complete = False
        if result.is_complete:
            result.counts["gone"] += self._pages.retire_unreached(frontier.reached)
        self._pages.finish()

    def _drain(self, robots: RobotsOfServers, follows: bool, total: int) -> None:
        """Visits the URLs of the frontier, and those that they lead to, within the limits."""
        frontier, options, counts = self._frontier, self._options, self._result.counts
        with progress("crawl", total, "pages") as advance:
            while frontier and self._may_go_on():
                visit = frontier.pop()
                self._visits += 1
                self._is_cut |= follows and visit.depth == options.depth > 0
                if not robots.allows(visit.url):
                    counts["robots"] += 1
                    frontier.give_back(visit)
                    continue
                links = self._visit(visit, follows and visit.depth < options.depth)
                frontier.push(Visit(visit.depth + 1, link) for link in links)
                advance(1)

    def _may_go_on(self) -> bool:
        """Returns whether a limit is left: of pages, of URLs that may all lead to nothing, and of time."""
        is_within = self._result.counts["fetched"] < self._options.max_pages and self._visits < self._max_visits
        return is_within and self._fetcher.left_s > 0

    def _visit(self, visit: Visit, follows: bool) -> tuple[str, ...]:
        """Fetches a page, stores it where it is new or changed, and returns the links to follow."""
        known = self._pages.known(visit.url)
        if known is not None and (why := self._why_left(known)):
            self._result.fail(visit.url, why)
            self._frontier.reached.add(visit.url)
            return ()
        if not follows and self._pages.is_deleted(visit.url):
            self._result.counts["deleted"] += 1
            self._frontier.reached.add(visit.url)
            return ()
        try:
            # What scripts draw may change where the page that the server sends does not.
            headers = {} if self._render else self._pages.validators(known)
            response = self._fetcher.get(visit.url, headers, is_wanted=lambda h: suffix_of(visit.url, h) is not None)
        except FetchFailed as e:
            self._fail(visit, str(e), is_final=e.is_refused)
            return ()
        if response.status == 304 and known is not None:
            return self._keep(known, follows)
        if response.is_redirect:
            self._redirect(visit, response)
            return ()
        if not 200 <= response.status < 300:
            self._handle_status(visit, response.status)
            return ()
        if (suffix := suffix_of(visit.url, response.headers)) is None:
            media_type = media_type_of(response.headers) or "unknown"
            self._result.fail(visit.url, f"media type {media_type} is no document that is read", "other_types")
            self._frontier.give_back(visit)
            return ()
        self._result.counts["fetched"] += 1
        return self._take(visit, response, suffix, follows)

    def _why_left(self, known: WebPage) -> str:
        """Returns why a known page is left as it is; empty where it is updated."""
        if self._pages.is_foreign(known.record):
            return _OTHER_OWNER
        return EXISTS if self._options.mode == "ingest" else ""

    def _take(self, visit: Visit, response: Response, suffix: str, follows: bool) -> tuple[str, ...]:
        """Stores what a server sent, under the URL that it is known by; returns the links to follow."""
        body = response.body
        try:
            if suffix == HTML:
                if self._render is not None:
                    body = self._render(visit.url)
                body = to_utf8(body, charset_of(response.headers))
            facts = self._facts(visit.url, body, suffix, response.headers)
        except (Rejected, FetchFailed) as e:
            self._fail(visit, str(e), is_final=isinstance(e, Rejected))
            return ()
        links = facts.links if follows else ()
        if not self._scope.wants(visit.url):  # the start, which is read for its links
            self._result.counts["excluded"] += 1
        elif not facts.may_store:
            self._result.counts["robots"] += 1
            self._frontier.give_back(visit)
        elif not self._frontier.leave_to_canonical(visit, facts.canonical):
            self._store(visit, response, body, suffix, facts.text_hash)
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
        return self._reader.read(body, url, tag)

    def _store(self, visit: Visit, response: Response, body: bytes, suffix: str, text_hash: str) -> None:
        """Stores a page, unless it was deleted, has no text, or another page has the same text."""
        uri, result = visit.url, self._result
        if self._pages.is_deleted(uri):
            result.counts["deleted"] += 1
            self._frontier.reached.add(uri)
            return
        if not text_hash:
            self._fail(visit, _NO_TEXT, is_final=True)
            return
        if self._pages.known(uri) is None and self._pages.duplicate_of(uri, text_hash) is not None:
            result.counts["duplicates"] += 1
            return
        outcome = self._pages.store(uri, response, body, suffix, text_hash)
        result.counts[outcome] += 1
        self._frontier.reached.add(uri)
        if outcome in ("new", "changed"):
            result.stored.append(uri)

    def _keep(self, known: WebPage, follows: bool) -> tuple[str, ...]:
        """Counts a page that did not change; returns the links of its stored bytes."""
        self._result.counts["fetched"] += 1
        self._result.counts["unchanged"] += 1
        self._frontier.reached.add(known.record.uri)
        self._pages.reach(known)
        if not follows or known.path.suffix != HTML:
            return ()
        try:
            return self._reader.read(known.path.read_bytes(), known.record.uri, "").links
        except (OSError, Rejected):  # a part of it is past its retention: where it leads is not known
            self._result.is_complete = False
            return ()

    def _redirect(self, visit: Visit, response: Response) -> None:
        """Visits where a URL leads to, in its place."""
        target = response.redirect
        self._result.counts["redirects"] += 1
        if target is None or visit.hops >= MAX_REDIRECTS:
            self._result.failures.append((visit.url, "redirected too often, or to no web page"))
        elif not self._scope.contains(target):
            self._result.failures.append((visit.url, f"redirected out of the site, to {target}"))
        else:
            self._frontier.push([Visit(visit.depth, target, visit.hops + 1)])
        self._frontier.give_back(visit)

    def _handle_status(self, visit: Visit, status: int) -> None:
        if status in _GONE and self._pages.known(visit.url) is not None:
            self._pages.retire(visit.url)
            self._result.counts["gone"] += 1
            self._result.failures.append((visit.url, f"status {status}: gone from the site"))
            self._frontier.give_back(visit)
            return
        self._fail(visit, f"status {status}", is_final=status < 500 and status != 429)

    def _fail(self, visit: Visit, why: str, is_final: bool) -> None:
        """Counts a page that could not be read; what is known of it is kept.

        Where another attempt may succeed, pages behind it are not known to be gone.
        """
        self._result.fail(visit.url, why)
        if self._pages.known(visit.url) is not None:
            self._frontier.reached.add(visit.url)
        if not is_final:
            self._result.is_complete = self._result.is_final = False
        self._frontier.give_back(visit)
