"""Reads a page or a site into a home; the next build makes memories of what was stored."""

import datetime as dt
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

from palimpsest.core.errors import ArgumentError, ComponentFailed, PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.crawl_site import EXISTS, MAX_SECONDS, Crawl, CrawlOptions, CrawlResult, Renderer
from palimpsest.sources.crawl.fetch import MAX_REDIRECTS, Fetcher, FetchFailed, FetchLimits
from palimpsest.sources.crawl.read_page import PageReader
from palimpsest.sources.crawl.robots import Robots, RobotsOfServers
from palimpsest.sources.crawl.sitemaps import SitemapPages, find_sitemaps
from palimpsest.sources.crawl.stored_pages import StoredPages
from palimpsest.sources.crawl.urls import DEFAULT_PORTS, SiteScope, UrlRefused, normalize_url
from palimpsest.sources.inbox import Destination, InboxOptions, OwnCollection, resolve_destination
from palimpsest.store.collection_config import find_collections, load_collection
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home, copy_lock
from palimpsest.store.web_pages import (
    DIRECT,
    OWN_COLLECTION,
    SITES_FILE,
    Mode,
    SiteEntry,
    find_page,
    load_site_entries,
    read_crawls,
    site_id,
)

MAX_PAGE_BYTES = 20_000_000
"""Of a page, where `limits.max_bytes` of the collection is not lower."""
_DELAY_S = 0.2
_OWN = OwnCollection(OWN_COLLECTION, "Pages that were read from the web.", "chunk")


class WebOwner(TypedDict, total=False):
    """The keyword arguments that say where pages belong.

    Keys:
        collection: default: the home's only one, or the one marked default; `web` in a home without collections.
        user: default: the collection's user_id.
        project: default: the collection's project_id, else the user's general memory.
    """

    collection: str | None
    user: str | None
    project: str | None


def ingest_url(
    home: Home | Path | str,
    url: str,
    *,
    mode: Mode = "reingest",
    render: bool = False,
    policy: AddressPolicy | None = None,
    max_seconds: float = MAX_SECONDS,
    **owner: Unpack[WebOwner],
) -> CrawlResult:
    """Reads one page into a home.

    Args:
        home: the home or its path; it is made where it does not exist.
        url: of the page; redirects are followed.
        mode: `ingest` is an error where the home has the page; `reingest` updates it.
        render: let a browser draw it.
        policy: which private hosts may be contacted; None means those that the environment names.
        max_seconds: of the whole.
        **owner: see `WebOwner`.

    Raises:
        ArgumentError: the URL or an option cannot be used, or the home has the page and `mode` is `ingest`.
        PalimpsestError: robots.txt or the guard of addresses refuses it, or it is no page that can be read.
        ComponentFailed: it could not be fetched; another attempt may succeed.
    """
    options = CrawlOptions(depth=0, max_pages=MAX_REDIRECTS + 1, mode=mode, render=render, max_seconds=max_seconds)
    result = _ingest(home, url, options, owner, policy, is_site=False)
    if not result.stored and not any(result.counts[name] for name in ("unchanged", "duplicates", "deleted", "gone")):
        where, why = result.failures[-1] if result.failures else (url, "the page forbids robots to store it")
        if why == EXISTS:
            raise ArgumentError("url", EXISTS, where)
        raise PalimpsestError(f"{where}: {why}") if result.is_final else ComponentFailed(f"{where}: {why}")
    return result


def ingest_site(
    home: Home | Path | str, url: str, options: CrawlOptions | None = None, **owner: Unpack[WebOwner]
) -> CrawlResult:
    """Reads the pages of a site into a home: those of its sitemaps, else those that links lead to.

    Args:
        home: the home or its path.
        url: where the site begins; pages of its host at and below this path belong to it.
        options: depth, limits, patterns and mode.
        **owner: see `WebOwner`.

    Raises:
        ArgumentError: the URL or an option cannot be used, or the site was crawled and the mode is `ingest`.
        PalimpsestError: robots.txt or the guard of addresses refuses it, or none of its pages can be read.
        ComponentFailed: no page could be fetched; another attempt may succeed.
    """
    result = _ingest(home, url, options or CrawlOptions(), owner, None, is_site=True)
    if not result.counts["fetched"] and not result.counts["gone"] and result.failures:
        where, why = result.failures[0]
        kind = PalimpsestError if result.is_final else ComponentFailed
        raise kind(f"{where}: {why}; no page of the site was read")
    return result


def _ingest(
    home: Home | Path | str,
    url: str,
    options: CrawlOptions,
    owner: WebOwner,
    policy: AddressPolicy | None,
    *,
    is_site: bool,
) -> CrawlResult:
    home = home if isinstance(home, Home) else Home(Path(home))
    options.check()
    start, policy = parse_start(url), policy or AddressPolicy.from_environment()
    with copy_lock(home.path):
        return _crawl(home, start, options, owner, policy, is_site=is_site)


def _crawl(
    home: Home, start: str, options: CrawlOptions, owner: WebOwner, policy: AddressPolicy, *, is_site: bool
) -> CrawlResult:
    destination = resolve_destination(home, _inbox_options(owner), _OWN)
    home.create()
    if options.mode == "ingest":
        _check_new(home, destination, start, is_site)
    started = time.monotonic()
    result = CrawlResult(destination.config.name, uuid.uuid4().hex[:16], start)
    max_bytes = min(MAX_PAGE_BYTES, destination.config.limits.max_bytes)
    ends_at = started + options.max_seconds
    with Fetcher(policy, FetchLimits(max_bytes=max_bytes), ends_at=ends_at) as fetcher:
        fetcher.delay_s = own_delay_s(policy, start, options.delay_s)
        servers = RobotsOfServers(fetcher)
        _check_allowed(servers, start)
        scope = _find_scope(fetcher, servers, start, options) if is_site else _OnePage(start)
        robots = _check_allowed(servers, scope.start)
        fetcher.delay_s = robots.delay_s(fetcher.delay_s)
        sitemap = SitemapPages()
        if is_site and options.depth:
            try:
                sitemap = find_sitemaps(fetcher, scope.start, robots, scope.contains)
            except FetchFailed as e:
                raise e.of(scope.start) from None
        site = site_id(start, destination.user_id, destination.project_id) if is_site else DIRECT
        pages = StoredPages(home, destination, site, result.session)
        render = _renderer(policy) if options.render else None
        with PageReader(destination.config.limits) as reader:
            Crawl(fetcher, pages, scope, options, reader, result, render).run(servers, sitemap)
    result.seconds = time.monotonic() - started
    _write_event(home, destination, result)
    return result


def _renderer(policy: AddressPolicy) -> Renderer:
    from palimpsest.sources.crawl.render import Browser

    return Browser.find(policy).render


def _inbox_options(owner: WebOwner) -> InboxOptions:
    return {"collection": owner.get("collection"), "user": owner.get("user"), "project": owner.get("project")}


def parse_start(url: str) -> str:
    """Returns the normal URL of an argument.

    Raises:
        ArgumentError: it is no URL of a web page.
    """
    try:
        return normalize_url(url)
    except UrlRefused as e:
        raise ArgumentError("url", str(e), None if "@" in url else url[:100]) from None


def own_delay_s(policy: AddressPolicy, url: str, wanted_s: float | None) -> float:
    """Returns our pause between two requests: none for hosts that the operator names, where none is wanted."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    default_s = 0.0 if policy.names(parts.hostname or "", port) else _DELAY_S
    return default_s if wanted_s is None else wanted_s


def _check_allowed(servers: RobotsOfServers, start: str) -> Robots:
    """Returns the rules of a site that may be read at all.

    Raises:
        PalimpsestError: the guard of addresses refuses it, or its robots.txt forbids its start.
        ComponentFailed: robots.txt could not be read.
    """
    try:
        robots = servers.of(start)
    except FetchFailed as e:
        raise e.of(start) from None
    if robots.problem:
        raise ComponentFailed(f"{start}: {robots.problem}; nothing is read without it, run again later")
    if not robots.allows(start):
        raise PalimpsestError(f"{start}: robots.txt of its server does not allow to read it")
    return robots


def _check_new(home: Home, destination: Destination, start: str, is_site: bool) -> None:
    """Checks that a page or a site was not read before.

    Raises:
        ArgumentError: it was.
    """
    collection = destination.config.name
    if find_page(home.web, collection, start) is not None:
        raise ArgumentError("url", EXISTS, start)
    site = site_id(start, destination.user_id, destination.project_id)
    if is_site and site in read_crawls(home.web, collection):
        raise ArgumentError("url", "this site was crawled before; --mode reingest updates its pages", start)


def _find_scope(fetcher: Fetcher, servers: RobotsOfServers, start: str, options: CrawlOptions) -> SiteScope:
    """Returns the scope of a crawl; a site whose start leads elsewhere begins there.

    Raises:
        PalimpsestError: the guard of addresses or a robots.txt refuses where it leads.
        ComponentFailed: it cannot be fetched.
    """
    url = start
    for _ in range(MAX_REDIRECTS + 1):
        _check_allowed(servers, url)
        try:
            response = fetcher.get(url, is_wanted=lambda _: False)
        except FetchFailed as e:
            raise e.of(url) from None
        if not response.is_redirect:
            if response.status >= 400 and response.status not in (403, 404, 410):
                raise ComponentFailed(f"{url}: status {response.status}; run again later")
            inside = SiteScope(start, options.include, options.exclude)
            return inside if inside.contains(url) else replace(inside, start=url)
        if response.redirect is None:
            break
        url = response.redirect
    raise ComponentFailed(f"{start}: redirected more than {MAX_REDIRECTS} times, or to no web page")


class _OnePage(SiteScope):
    """The scope of one page: wherever redirects and its canonical URL lead."""

    def contains(self, url: str) -> bool:
        """Returns True: links of the page are not followed."""
        return True


def _write_event(home: Home, destination: Destination, result: CrawlResult) -> None:
    write_event(
        home.path,
        "web_crawled",
        collection=destination.config.name,
        fetched=result.counts["fetched"],
        stored=len(result.stored),
        gone=result.counts["gone"],
        failed=result.counts["failed"],
        seconds=round(result.seconds, 3),
    )


# Crawls what `sources.yaml` of the collections of a home names, where it is due.


@dataclass(frozen=True)
class DueSite:
    """An entry of a collection, and why it is not due; empty where it is."""

    collection: str
    entry: SiteEntry
    why_not: str = ""

    @property
    def name(self) -> str:
        """The entry as messages show it."""
        return f"{self.collection}: {self.entry.url}"


@dataclass
class DueCrawls:
    """What was done for the entries of a home: crawls, entries that were not due, and those that failed, with why."""

    crawls: list[CrawlResult] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def number(self) -> int:
        """How many entries there are."""
        return len(self.crawls) + len(self.skipped) + len(self.failures)

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest ingest sites` prints."""
        return {
            "crawls": [crawl.to_json() for crawl in self.crawls],
            "stored": sum(len(crawl.stored) for crawl in self.crawls),
            "skipped": [{"entry": entry, "reason": why} for entry, why in self.skipped],
            "failures": [{"entry": entry, "reason": why} for entry, why in self.failures],
        }


def ingest_due(
    home: Home,
    corpora: list[Path] | None = None,
    only: Sequence[str] = (),
    *,
    all_entries: bool = False,
    scheduled_only: bool = False,
    now: dt.datetime | None = None,
) -> DueCrawls:
    """Crawls the entries that are due; one that fails does not stop the others.

    Args:
        home: the home.
        corpora: folders of collections, which become known to the home; None means those that it knows.
        only: names of collections; none means all.
        all_entries: those whose schedule says that they are not due, too.
        scheduled_only: only entries with a schedule.
        now: the time at which they are due, in the zone of the schedules; default: now, in UTC.

    Raises:
        PalimpsestError: a sources.yaml or an option cannot be used.
    """
    done = DueCrawls()
    for site in list(list_sites(home, corpora, only, now=now, problems=done.failures)):
        if scheduled_only and site.entry.schedule is None:
            continue
        if site.why_not and not (all_entries and site.entry.mode == "reingest"):
            done.skipped.append((site.name, site.why_not))
            continue
        entry = site.entry
        owner = {"collection": site.collection, "user": entry.user, "project": entry.project}
        try:
            done.crawls.append(ingest_site(home, entry.url, CrawlOptions.of_entry(entry), **owner))
        except PalimpsestError as e:
            done.failures.append((site.name, str(e)))
    return done


def list_sites(
    home: Home,
    corpora: list[Path] | None = None,
    only: Sequence[str] = (),
    now: dt.datetime | None = None,
    problems: list[tuple[str, str]] | None = None,
) -> Iterator[DueSite]:
    """Yields the entries of the collections of a home, by collection and in the order of their files.

    Args:
        home: the home.
        corpora: folders of collections; None means those that the home knows.
        only: names of collections; none means all.
        now: the time at which they are due.
        problems: gets a collection and the reason for each entry or file that cannot be used; the others are yielded.

    Raises:
        PalimpsestError: a sources.yaml cannot be used, or a collection is not there.
    """
    moment = now or dt.datetime.now(dt.UTC)
    folders = {n: f for n, f in home.sources.items() if f.is_dir()} if corpora is None else find_collections(corpora)
    if unknown := sorted(set(only) - set(folders)):
        raise PalimpsestError(f"--collection {unknown[0]}: none of {', '.join(folders) or 'no collection'}")
    if corpora is not None:
        home.create()
        home.remember_sources({n: f for n, f in folders.items() if not only or n in only})
    for name, folder in folders.items():
        if only and name not in only:
            continue
        try:
            found = _sites_of(home, name, folder, moment)
        except PalimpsestError as e:
            found = [e]
        for site in found:
            if isinstance(site, DueSite):
                yield site
            elif problems is None:
                raise site
            else:
                problems.append((name, str(site)))


def _sites_of(home: Home, name: str, folder: Path, moment: dt.datetime) -> list[DueSite | PalimpsestError]:
    """Returns each entry of a collection, or the error that says why it cannot be used.

    Raises:
        PalimpsestError: none of them can be used.
    """
    entries = load_site_entries(folder)
    config = load_collection(folder)
    crawls = read_crawls(home.web, name) if entries else {}
    found: list[DueSite | PalimpsestError] = []
    for number, entry in enumerate(entries):
        owner = (entry.user or config.user_id, entry.project or config.project_id)
        try:
            last = crawls.get(site_id(parse_start(entry.url), *owner))
        except ArgumentError as e:
            place = f"web.{number}.url: {e.problem}"
            found.append(PalimpsestError(f"{SITES_FILE}: {place} ({folder / SITES_FILE})"))
        else:
            found.append(DueSite(name, entry, _why_not_due(entry, last, moment)))
    return found


def _why_not_due(entry: SiteEntry, last: str | None, now: dt.datetime) -> str:
    """Returns why an entry is not due; empty where it is."""
    if last is None:
        return ""
    if entry.mode == "ingest":
        return f"was crawled at {last}; mode: reingest crawls it again"
    if entry.schedule is None:
        return ""
    from cronsim import CronSim

    due = next(CronSim(entry.schedule, dt.datetime.fromisoformat(last).astimezone(now.tzinfo)))
    return "" if due <= now else f"is due at {due.isoformat(timespec='minutes')}"
