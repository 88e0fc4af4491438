"""Crawls what `sources.yaml` of the collections of a home names, where it is due."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.crawl.crawl_options import CrawlOptions
from palimpsest.sources.crawl.crawl_result import CrawlResult
from palimpsest.sources.crawl.ingest_web import ingest_site, parse_start
from palimpsest.store.collection_config import find_collections, load_collection
from palimpsest.store.home import Home
from palimpsest.store.site_entries import SITES_FILE, SiteEntry, load_site_entries
from palimpsest.store.web_pages import read_crawls, site_id


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
