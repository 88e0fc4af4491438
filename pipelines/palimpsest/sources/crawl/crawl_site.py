"""The crawl of a site: from its start, its sitemaps or its links to the pages that are stored, in a fixed order."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from palimpsest.core.errors import ArgumentError, Rejected
from palimpsest.core.files import counted, file_hash_of, progress
from palimpsest.core.ids import JsonObject
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS, Fetcher, FetchFailed, Response
from palimpsest.sources.crawl.read_page import PageFacts, PageReader, page_rules, to_utf8
from palimpsest.sources.crawl.robots import RobotsOfServers
from palimpsest.sources.crawl.sitemaps import SitemapPages
from palimpsest.sources.crawl.stored_pages import StoredPages
from palimpsest.sources.crawl.urls import HTML, SiteScope, media_type_of, suffix_of
from palimpsest.store.web_pages import DEFAULT_DEPTH, DEFAULT_PAGES, MAX_DEPTH, MAX_PAGES, Mode, SiteEntry, WebPage

# How a site is crawled.

MAX_SECONDS, MAX_DELAY_S = 3_600.0, 60


@dataclass(frozen=True)
class CrawlOptions:
    """How a site is crawled.

    Attributes:
        depth: links from the start to a page, at most; pages of a sitemap have depth 1.
        max_pages: pages that are fetched, at most.
        include: patterns of URLs of which one must match; none means that all do.
        exclude: patterns of URLs of which none may match.
        mode: `ingest` is an error where the site was crawled before; `reingest` updates its pages.
        delay_s: pause between two requests; None means 0.2 s, and none for hosts that the operator names.
        follow_links: follow links although the site has a sitemap.
        render: let a browser draw the pages.
        max_seconds: of the whole crawl.
    """

    depth: int = DEFAULT_DEPTH
    max_pages: int = DEFAULT_PAGES
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    mode: Mode = "reingest"
    delay_s: float | None = None
    follow_links: bool = False
    render: bool = False
    max_seconds: float = MAX_SECONDS

    @classmethod
    def of_entry(cls, entry: SiteEntry) -> "CrawlOptions":
        """Returns the options of an entry of sources.yaml."""
        names = ("depth", "max_pages", "include", "exclude", "mode", "delay_s", "render")
        return cls(**{name: getattr(entry, name) for name in names})

    def check(self) -> None:
        """Checks the numbers.

        Raises:
            ArgumentError: one is out of its range.
        """
        for name, value, least, most in (
            ("depth", self.depth, 0, MAX_DEPTH),
            ("max_pages", self.max_pages, 1, MAX_PAGES),
            ("delay", self.delay_s or 0.0, 0, MAX_DELAY_S),
        ):
            if not least <= value <= most:  # nan included
                raise ArgumentError(name, f"must be {least} to {most:,}", value)
        if not self.max_seconds > 0:
            raise ArgumentError("seconds", "must be more than 0", self.max_seconds)


# What a crawl did: every URL that it came to is counted once by what became of it. `robots`: robots.txt or the page
# itself forbids it; `deleted`: from the home, before.

_LEFT = {
    "duplicates": "duplicates",
    "redirects": "redirects",
    "robots": "refused by robots rules",
    "excluded": "excluded",
    "other_types": "of other types",
    "deleted": "deleted before, not stored",
    "gone": "gone, which retire",
    "failed": "failed",
    "not_fetched": "not fetched: a limit was reached",
}
"""What becomes of a URL that is not stored, as people read it."""
_COUNTS = ("fetched", "new", "changed", "unchanged", *_LEFT)
_MAX_SHOWN = 10


@dataclass
class CrawlResult:
    """What a crawl did.

    Attributes:
        collection: where its pages are.
        session: id of the crawl, which is in the metadata of the pages that it stored.
        url: where it began.
        counts: URLs by outcome (`new`, `changed`, `unchanged` and those of `_LEFT`), and `fetched` (responses with a
            page, or without change).
        stored: uris of new and changed pages.
        failures: URL and reason of each that failed, was of another type, or was forbidden.
        sitemaps: that were read.
        is_complete: whether every page of the site was looked at, so that pages which were not reached retire.
        is_final: whether no failure would end otherwise by another attempt.
        seconds: of the whole crawl.
    """

    collection: str
    session: str
    url: str
    counts: Counter[str] = field(default_factory=Counter)
    stored: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    sitemaps: tuple[str, ...] = ()
    is_complete: bool = True
    is_final: bool = True
    seconds: float = 0.0

    def fail(self, url: str, why: str, outcome: str = "failed") -> None:
        """Counts a URL that gave no page, with the reason."""
        self.counts[outcome] += 1
        self.failures.append((url, why))

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest ingest` prints."""
        return {
            "collection": self.collection,
            "session": self.session,
            "url": self.url,
            "stored": len(self.stored),
            "pages": sorted(self.stored),
            **{name: self.counts[name] for name in _COUNTS},
            "failures": [{"url": url, "reason": why} for url, why in self.failures],
            "sitemaps": list(self.sitemaps),
            "complete": self.is_complete,
            "seconds": round(self.seconds, 2),
        }

    def summary(self) -> str:
        """Returns the lines that people read: every count that is not 0, then the first failures."""
        n = self.counts
        stored = f"{len(self.stored)} stored ({n['new']} new, {n['changed']} changed)"
        parts = [f"{counted(n['fetched'], 'page')} fetched", stored, f"{n['unchanged']} unchanged"]
        parts += [f"{n[name]} {text}" for name, text in _LEFT.items() if n[name]]
        lines = [f"{self.url}: {', '.join(parts)}; {self.seconds:.1f} s, session {self.session}"]
        lines += [f"  {url}: {why}" for url, why in self.failures[:_MAX_SHOWN]]
        if (more := len(self.failures) - _MAX_SHOWN) > 0:
            lines.append(f"  and {more} more, in --json")
        if not self.is_complete:
            lines.append("  not every page was looked at: pages that were not reached are kept")
        return "\n".join(lines)


# The URLs that a crawl is to visit, in a fixed order, each once; and which pages are left to their canonical URL.

MAX_SEEN = 200_000
"""URLs of a crawl that are remembered; of a site that names more, the rest is counted as not fetched."""


@dataclass(frozen=True, order=True)
class Visit:
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


class Frontier:
    """The URLs of a site that are to be visited.

    Attributes:
        seen: URLs that were or will be visited.
        reached: uris of pages that the site still has.
    """

    def __init__(self, scope: SiteScope, result: CrawlResult) -> None:
        """Makes it; `result` counts what is excluded, and pages that are left to their canonical URL."""
        self._scope, self._result = scope, result
        self._waiting: list[Visit] = []
        self._waiting_urls: set[str] = set()
        self._left: dict[str, list[Visit]] = {}
        self._left_urls: set[str] = set()
        self.seen: set[str] = set()
        self.reached: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def pop(self) -> Visit:
        """Returns the next URL to visit."""
        visit = heapq.heappop(self._waiting)
        self._waiting_urls.discard(visit.url)
        return visit

    def push(self, visits: Iterable[Visit]) -> None:
        """Adds URLs, each once, where they are of the site."""
        for visit in visits:
            is_new = visit.url not in self.seen
            if not (is_new or visit.as_itself) or not self._scope.contains(visit.url):
                continue
            if is_new and len(self.seen) >= MAX_SEEN:
                self._result.counts["not_fetched"] += 1
                self._result.is_complete = False
                continue
            self.seen.add(visit.url)
            if visit.url == self._scope.start or self._scope.wants(visit.url):
                heapq.heappush(self._waiting, visit)
                self._waiting_urls.add(visit.url)
            else:
                self._result.counts["excluded"] += int(is_new)

    def leave_to_canonical(self, visit: Visit, canonical: str | None) -> bool:
        """Returns whether a page is left to the URL that it names as canonical, which is then visited.

        It is not where that is no page of the site, was visited and is no page, or names this one in its turn.
        """
        if canonical is None or visit.as_itself or visit.hops >= MAX_REDIRECTS or canonical in self._left_urls:
            return False
        if not (self._scope.contains(canonical) and self._scope.wants(canonical)):
            return False
        if canonical in self.seen and canonical not in self.reached and canonical not in self._waiting_urls:
            return False
        self._left.setdefault(canonical, []).append(visit)
        self._left_urls.add(visit.url)
        self._result.counts["duplicates"] += 1
        self.push([Visit(visit.depth, canonical, visit.hops + 1)])
        return True

    def give_back(self, visit: Visit) -> None:
        """Visits the pages again that were left to a canonical URL which turned out to be no page."""
        for left in self._left.pop(visit.url, ()):
            self._left_urls.discard(left.url)
            self._result.counts["duplicates"] -= 1
            self.push([replace(left, as_itself=True)])


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
        if not response.is_page:
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
                body = to_utf8(body, response.headers.get("content-type", ""))
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
