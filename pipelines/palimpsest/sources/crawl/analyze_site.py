"""How a site is structured: its pages by the pattern of their paths, within a fixed time, and what to crawl of it."""

import json
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode, urljoin, urlsplit

from palimpsest.core.errors import ArgumentError, ComponentFailed, Rejected
from palimpsest.core.ids import JsonObject, JsonRecord
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS, Fetcher, FetchFailed, FetchLimits
from palimpsest.sources.crawl.ingest_web import own_delay_s, parse_start
from palimpsest.sources.crawl.read_page import PageReader
from palimpsest.sources.crawl.robots import Robots, RobotsOfServers
from palimpsest.sources.crawl.sitemaps import SitemapPages, find_sitemaps
from palimpsest.sources.crawl.urls import HTML, SiteScope, folder_of, origin_of, suffix_of, try_normalize
from palimpsest.store.collection_config import Limits
from palimpsest.store.web_pages import DEFAULT_PAGES

# The pages of a site that Common Crawl has seen, for an analysis of a site without sitemaps.
#
# Only URLs are read from its index, no page. It learns which site is analyzed: it is queried where a person wants it.

VARIABLE, _SERVER = "PALIMPSEST_COMMON_CRAWL_URL", "https://index.commoncrawl.org/"
_MAX_BYTES = 5_000_000
_ASKED_FOR = 4  # URLs for each that is wanted: many differ in what is no part of a page's one URL


def find_in_common_crawl(fetcher: Fetcher, scope: SiteScope, max_urls: int) -> list[str]:
    """Returns normal URLs of a site that the newest crawl has, in its order, each once.

    Raises:
        FetchFailed: the index does not answer, or not as it should.
    """
    server = os.environ.get(VARIABLE, "").strip() or _SERVER
    listed = _read(fetcher, urljoin(server, "collinfo.json"))
    try:
        index = str(json.loads(listed)[0]["cdx-api"])
    except (ValueError, LookupError, TypeError):
        raise FetchFailed("the list of crawls of Common Crawl cannot be read") from None
    parts = urlsplit(folder_of(scope.start))
    query = {"url": f"{parts.netloc}{parts.path}*", "output": "json", "fl": "url", "limit": _ASKED_FOR * max_urls}
    found: dict[str, None] = {}
    for line in _read(fetcher, f"{urljoin(server, index)}?{urlencode(query)}").splitlines():
        try:
            url = try_normalize(str(json.loads(line)["url"]), scope.start)
        except (ValueError, LookupError, TypeError):
            continue
        if url is not None and scope.contains(url):
            found[url] = None
    return list(found)


def _read(fetcher: Fetcher, url: str) -> str:
    """Returns the text at a URL; empty where the index has no page of a site (404).

    Raises:
        FetchFailed: it cannot be read.
    """
    response = fetcher.get_following(url, _MAX_BYTES)
    if response.status == 404:
        return ""
    if not response.is_page:
        raise FetchFailed(f"Common Crawl answered with status {response.status}")
    return response.body.decode("utf-8", "replace")


# Groups the URLs of a site by the pattern of their paths.

MAX_GROUPS = 20
_EXAMPLES = 3
_NUMBER = re.compile(r"\d+")
_ID = re.compile(r"(?=.*\d)[0-9a-fA-F-]{8,}")


@dataclass(frozen=True)
class PathGroup:
    """URLs with one pattern: how many there are, and the first of them."""

    pattern: str
    count: int
    examples: tuple[str, ...]


def group_paths(urls: Iterable[str]) -> list[PathGroup]:
    """Returns the groups of URLs, the largest first, then by pattern; at most 20.

    The last segment of a path is `*`, a number `{n}` and an id `{id}`. Where that gives too many patterns, deeper
    segments are `*` too, until there are few enough.
    """
    paths = sorted(set(urls))
    deepest = max((len(_segments(url)) for url in paths), default=0)
    found: dict[str, list[str]] = {}
    for depth in range(deepest, -1, -1):
        found = _grouped(paths, depth)
        if len(found) <= MAX_GROUPS:
            break
    groups = [PathGroup(pattern, len(group), tuple(group[:_EXAMPLES])) for pattern, group in found.items()]
    groups.sort(key=lambda g: (-g.count, g.pattern))
    if len(groups) > MAX_GROUPS:
        rest = groups[MAX_GROUPS - 1 :]
        others = PathGroup("other", sum(g.count for g in rest), tuple(g.examples[0] for g in rest[:_EXAMPLES]))
        groups = [*groups[: MAX_GROUPS - 1], others]
    return groups


def _grouped(urls: Iterable[str], depth: int) -> dict[str, list[str]]:
    found = defaultdict(list)
    for url in urls:
        found[_pattern(url, depth)].append(url)
    return found


def _pattern(url: str, depth: int) -> str:
    segments = _segments(url)
    if not segments:
        return "/"
    named = [_name(segment) for segment in segments[:-1][:depth]]
    return "/" + "/".join([*named, "*"])


def _segments(url: str) -> list[str]:
    return [segment for segment in urlsplit(url).path.split("/") if segment]


def _name(segment: str) -> str:
    if _NUMBER.fullmatch(segment):
        return "{n}"
    return "{id}" if _ID.fullmatch(segment) else segment


MAX_SECONDS, MAX_URLS = 50.0, 150
_REQUEST_S = 15.0
_READ_S = 2.0  # of processor time for one page
_MAX_PAGE_BYTES = 5_000_000
_MAX_SITEMAP_BYTES = 10_000_000
_FETCH_SHARE = 0.9  # of the time; the rest is for what was fetched last
_LARGE_GROUP = 0.5


@dataclass(frozen=True)
class SiteAnalysis(JsonRecord):
    """How a site is structured.

    Attributes:
        url: where the analysis began.
        groups: pages by the pattern of their paths.
        listed: pages that the sitemaps list, or that links were found to, those beyond the limit included.
        grouped: pages in the groups.
        source: `sitemap`, `common_crawl` or `links`.
        sitemaps: that were read.
        refused: pages that robots.txt does not allow.
        problems: what could not be read, and why.
        is_timed_out: whether the time ended first.
        advice: what to do next, a sentence each.
        seconds: of the analysis.
    """

    json_names: ClassVar = {"grouped": "urls", "refused": "robots", "is_timed_out": "timed_out"}
    json_decimals = 2

    url: str
    groups: tuple[PathGroup, ...]
    listed: int
    grouped: int
    source: str
    sitemaps: tuple[str, ...]
    refused: int
    problems: tuple[tuple[str, str], ...]
    is_timed_out: bool
    advice: tuple[str, ...]
    seconds: float

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest analyze` prints."""
        return super().to_json() | {"problems": [{"url": url, "reason": why} for url, why in self.problems]}

    def summary(self) -> str:
        """Returns the lines that people read."""
        source = self.source.replace("_", " ")
        head = f"{self.url}: {self.grouped} of {self.listed} pages, by {source}, in {self.seconds:.1f} s"
        width = max((len(g.pattern) for g in self.groups), default=0)
        lines = [f"  {g.pattern:<{width}}  {g.count:>4}  {g.examples[0]}" for g in self.groups]
        lines += [f"  {self.refused} pages: robots.txt does not allow them"] if self.refused else []
        lines += [f"  {url}: {why}" for url, why in self.problems[:5]]
        return "\n".join([head, *lines, *self.advice])


def analyze_site(
    url: str,
    *,
    seconds: float = MAX_SECONDS,
    max_urls: int = MAX_URLS,
    common_crawl: bool = False,
    policy: AddressPolicy | None = None,
) -> SiteAnalysis:
    """Finds the pages of a site from its sitemaps, else by following its links, and groups them; stores nothing.

    Args:
        url: where the site begins.
        seconds: of the whole analysis, at most 50.
        max_urls: pages that are grouped, at most 150.
        common_crawl: ask Common Crawl for pages of a site without sitemaps, before links are followed.
        policy: which private hosts may be contacted; None means those that the environment names.

    Raises:
        ArgumentError: an argument cannot be used.
        PalimpsestError: robots.txt or the guard of addresses refuses the site.
        ComponentFailed: its server does not answer.
    """
    _check_limits(seconds, max_urls)
    started, start = time.monotonic(), parse_start(url)
    policy = policy or AddressPolicy.from_environment()
    limits = FetchLimits(
        _MAX_PAGE_BYTES, request_s=_REQUEST_S, connect_s=5.0, read_s=_REQUEST_S, attempts=2, max_wait_s=5
    )
    with Fetcher(
        policy, limits, ends_at=started + _FETCH_SHARE * seconds, delay_s=own_delay_s(policy, start, None)
    ) as fetcher:
        robots, sitemap = _read_lists(fetcher, start)
        scope = SiteScope(start)
        allowed = [page for page in sitemap.urls if robots.allows(page)]
        refused, problems = len(sitemap.urls) - len(allowed), list(sitemap.problems)
        source, pages, listed = "sitemap", allowed[:max_urls], len(sitemap.urls)
        if not pages and common_crawl:
            source, (pages, listed) = "common_crawl", _ask_common_crawl(fetcher, scope, robots, max_urls, problems)
        if not pages:
            with PageReader(Limits(max_seconds=_READ_S)) as reader:
                found = _follow_links(fetcher, scope, robots, max_urls, reader)
            if not found.pages and found.problems and fetcher.left_s > 0:
                raise ComponentFailed(f"{start}: {found.problems[0][1]}")
            source, pages, listed = "links", found.pages, found.listed
            refused, problems = refused + found.refused, problems + found.problems
        is_timed_out = fetcher.left_s <= 0 or any("time limit" in why for _, why in problems)
    groups = tuple(group_paths(pages))
    advice = _advice(start, groups, pages, listed, is_timed_out, sitemap.is_whole)
    spent = time.monotonic() - started
    return SiteAnalysis(
        url=start,
        groups=groups,
        listed=listed,
        grouped=len(pages),
        source=source,
        sitemaps=sitemap.sitemaps,
        refused=refused,
        problems=tuple(problems),
        is_timed_out=is_timed_out,
        advice=tuple(advice),
        seconds=spent,
    )


def _check_limits(seconds: float, max_urls: int) -> None:
    if not 0 < seconds <= MAX_SECONDS:
        raise ArgumentError("seconds", f"must be more than 0, and {MAX_SECONDS:.0f} at most", seconds)
    if not 0 < max_urls <= MAX_URLS:
        raise ArgumentError("max_urls", f"must be 1 to {MAX_URLS}", max_urls)


def _read_lists(fetcher: Fetcher, start: str) -> tuple[Robots, SitemapPages]:
    """Reads robots.txt and the sitemaps.

    Raises:
        PalimpsestError: the guard of addresses refuses the server.
        ComponentFailed: robots.txt could not be read.
    """
    try:
        robots = RobotsOfServers(fetcher).of(start)
        if robots.problem:
            raise ComponentFailed(f"{start}: {robots.problem}; nothing is read without it, run again later")
        return robots, find_sitemaps(fetcher, start, robots, SiteScope(start).contains, _MAX_SITEMAP_BYTES)
    except FetchFailed as e:
        raise e.of(start) from None


def _ask_common_crawl(
    fetcher: Fetcher, scope: SiteScope, robots: Robots, max_urls: int, problems: list[tuple[str, str]]
) -> tuple[list[str], int]:
    """Returns pages that Common Crawl has, and how many there are; that it does not answer is added to the problems."""
    try:
        found = [url for url in find_in_common_crawl(fetcher, scope, max_urls) if robots.allows(url)]
    except FetchFailed as e:
        problems.append((scope.start, f"Common Crawl: {e}"))
        return [], 0
    return found[:max_urls], len(found)


@dataclass
class _Links:
    pages: list[str]
    listed: int
    refused: int
    problems: list[tuple[str, str]]


def _follow_links(fetcher: Fetcher, scope: SiteScope, robots: Robots, max_urls: int, reader: PageReader) -> _Links:
    """Follows links, level by level, until enough pages are known or the time ends."""
    found = _Links([], 0, 0, [])
    waiting, seen = deque([(scope.start, 0)]), {scope.start}
    while waiting and len(found.pages) < max_urls:
        url, hops = waiting.popleft()
        if not robots.allows(url):
            found.refused += 1
            continue
        try:
            response = fetcher.get(url, is_wanted=lambda h, u=url: suffix_of(u, h) == HTML)  # type: ignore[misc]
            links: Sequence[str] = ()
            if response.is_redirect:
                target = response.redirect
                if target and target not in seen and hops < MAX_REDIRECTS and (scope.contains(target) or hops == 0):
                    seen.add(target)
                    waiting.appendleft((target, hops + 1))
                continue
            if not response.is_page:
                found.problems.append((url, f"status {response.status}"))
                continue
            if response.body:
                links = reader.read(response.body, url, "").links
        except (FetchFailed, Rejected) as e:
            found.problems.append((url, str(e)))
            if fetcher.left_s <= 0 or "time limit" in str(e):
                break
            continue
        found.pages.append(url)
        new = [link for link in links if link not in seen and scope.contains(link)]
        seen.update(new)
        waiting.extend((link, 0) for link in sorted(new))
    # Pages that were only linked to are of the site too, and tell its patterns as well.
    linked = [url for url, _ in waiting if robots.allows(url)]
    found.listed = len(found.pages) + len(linked)
    found.pages += linked[: max_urls - len(found.pages)]
    return found


def _advice(
    start: str, groups: Sequence[PathGroup], pages: Sequence[str], listed: int, is_timed_out: bool, is_whole: bool
) -> list[str]:
    """Returns what to do next."""
    grouped = len(pages)
    large = [g for g in groups if g.pattern.count("/") > 1 and g.count >= 2]
    part = origin_of(start).rstrip("/") + large[0].pattern.rpartition("/")[0] + "/" if large else ""
    part = part if "{" not in part and "*" not in part and part != folder_of(start) else ""
    advice = []
    if is_timed_out:
        more = f", such as palimpsest analyze {part}" if part else ", below this URL"
        advice.append(f"The time ended before all pages were found: analyze subsections{more}.")
    elif listed > grouped or not is_whole:
        more = f", such as palimpsest analyze {part}" if part else ""
        advice.append(f"The site has more pages than are grouped here: analyze subsections{more}.")
    if listed > DEFAULT_PAGES:
        advice.append(
            f"palimpsest ingest site fetches {DEFAULT_PAGES:,} pages: raise --max-pages, or crawl subsections."
        )
    if large and large[0].count > _LARGE_GROUP * grouped:
        advice.append(
            f"Most pages are {large[0].pattern}: --include '{large[0].pattern.replace('{n}', '*')}' takes these alone."
        )
    if not is_timed_out and listed <= grouped and is_whole:
        fetched = listed + (start not in pages)  # a crawl begins there, also where no sitemap lists it
        advice.append(f"palimpsest ingest site {start} --max-pages {fetched} reads all of it.")
    return advice
