"""The URLs that a crawl is to visit, in a fixed order, each once; and which pages are left to their canonical URL."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

from palimpsest.sources.crawl.crawl_result import CrawlResult
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS
from palimpsest.sources.crawl.urls import SiteScope

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
