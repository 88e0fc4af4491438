"""The commands `palimpsest ingest url|site|sites|text|file|directory` and `palimpsest analyze`."""

import datetime as dt
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from zoneinfo import ZoneInfo

import click

from palimpsest.cli.shared import FOLDER, Output, collection_option, common
from palimpsest.core.errors import ArgumentError, ComponentFailed
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest.sources.crawl.crawl_result import CrawlResult
    from palimpsest.store.site_entries import Mode

_Command = TypeVar("_Command", bound=Callable[..., object])
_READ_BY_BUILD = "the next palimpsest build reads what was stored"


@click.group(short_help="Read pages, sites, texts and files into the home.")
def ingest() -> None:
    """Read pages and sites of the web, texts, files and folders into the home; the next build forms their memories."""


def _owner_options(f: _Command) -> _Command:
    """Adds --collection, --user and --project to a command that stores something."""
    f = click.option("--project", help="Project that it belongs to. [default: the general memory]")(f)
    f = click.option("--user", help="Whose it is; may be new. [default: the collection's user_id]")(f)
    return collection_option(f)


def _mode_option(f: _Command) -> _Command:
    return click.option(
        "--mode",
        type=click.Choice(["ingest", "reingest"]),
        default="reingest",
        show_default=True,
        help="ingest: an error where it was read before; reingest: store what changed, retire what is gone.",
    )(f)


def _render_option(f: _Command) -> _Command:
    return click.option("--render", is_flag=True, help="Let Chromium draw the pages: scripts write their text.")(f)


@ingest.command(short_help="Read one page.")
@common
@_owner_options
@_mode_option
@_render_option
@click.argument("url", metavar="URL")
def url(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    mode: "Mode",
    render: bool,
    url: str,
) -> None:
    """Read one page; redirects and its canonical URL are followed."""
    from palimpsest.sources.crawl import ingest_url

    done = ingest_url(home_path, url, mode=mode, render=render, collection=collection, user=user, project=project)
    _show(Output(as_json), done)


@ingest.command(short_help="Read the pages of a site.")
@common
@_owner_options
@_mode_option
@_render_option
@click.option("--depth", type=click.IntRange(0, 50), default=5, show_default=True, help="Links to a page, at most.")
@click.option(
    "--max-pages", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Pages to fetch, at most."
)
@click.option("--include", multiple=True, metavar="PATTERN", help="Only pages like /docs/*. [repeatable]")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="No pages like /docs/old/*. [repeatable]")
@click.option("--links", "follow_links", is_flag=True, help="Follow links although the site has a sitemap.")
@click.option(
    "--delay",
    "delay_s",
    type=click.FloatRange(0, 60),
    metavar="SECONDS",
    help="Pause between requests. [default: 0.2; 0 for hosts of PALIMPSEST_WEB_ALLOW_PRIVATE]",
)
@click.option(
    "--seconds",
    "max_seconds",
    type=click.FloatRange(1, 86_400),
    default=3600,
    show_default=True,
    help="Time of the whole crawl, at most.",
)
@click.argument("url", metavar="URL")
def site(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    url: str,
    **options: Any,
) -> None:
    """Read the pages of a site at and below URL: those of its sitemaps, else those that links lead to."""
    from palimpsest.sources.crawl import CrawlOptions, ingest_site

    done = ingest_site(home_path, url, CrawlOptions(**options), collection=collection, user=user, project=project)
    _show(Output(as_json), done)


@ingest.command(short_help="Read what sources.yaml of the collections names.")
@common
@click.option("--corpus", "corpora", type=FOLDER, multiple=True, help="Folder of collections. [default: the home's]")
@click.option("--collection", "only", multiple=True, help="Only entries of this collection. [repeatable]")
@click.option("--all", "all_entries", is_flag=True, help="Entries that their schedule says are not due, too.")
def sites(
    home_path: Path,
    as_json: bool,
    backend: str,
    corpora: tuple[Path, ...],
    only: tuple[str, ...],
    all_entries: bool,
) -> None:
    """Read the sites and pages that sources.yaml beside each collection.yaml names, where they are due."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.orchestration.schedule import schedule_timezone
    from palimpsest.sources.crawl.scheduled_sites import ingest_due

    out, now = Output(as_json), dt.datetime.now(ZoneInfo(schedule_timezone()))
    done = ingest_due(Home(home_path), list(corpora) or None, list(only), all_entries=all_entries, now=now)
    for crawl in done.crawls:
        out.text(crawl.summary())
    for entry, why in done.skipped:
        out.text(f"{entry}: {why}")
    for entry, why in done.failures:
        out.text(f"{entry}: failed: {why}")
    if not (done.crawls or done.skipped or done.failures):
        out.text("no entry: a file sources.yaml beside collection.yaml names sites")
    out.result(done.to_json())
    if done.failures:
        raise ComponentFailed(f"{len(done.failures)} of {done.number} entries failed; they are listed above")


@ingest.command(short_help="Send a text to the inbox.")
@common
@_owner_options
@click.argument("text", metavar="TEXT|-")
def text(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    text: str,
) -> None:
    """Send a text to the inbox, or what standard input has where TEXT is `-`."""
    from palimpsest.sources.inbox import ingest_text
    from palimpsest.sources.inbox.receive import MAX_TEXT_BYTES

    if text == "-":
        text = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1).decode("utf-8", "replace")
    receipt = ingest_text(home_path, text, collection=collection, user=user, project=project)
    out = Output(as_json)
    out.text(f"received: operation {receipt.operation_id} in collection {receipt.collection}; {_READ_BY_BUILD}")
    out.result(receipt.to_json())


@ingest.command()
@common
@_owner_options
@click.argument("path", metavar="PATH", type=FOLDER)
def file(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    path: Path,
) -> None:
    """Send a copy of a file to the inbox."""
    from palimpsest.sources.inbox import ingest_file

    receipt = ingest_file(home_path, path, collection=collection, user=user, project=project)
    out = Output(as_json)
    out.text(f"received: operation {receipt.operation_id} in collection {receipt.collection}; {_READ_BY_BUILD}")
    out.result(receipt.to_json())


@ingest.command(short_help="Send the files of a folder to the inbox.")
@common
@_owner_options
@click.argument("folder", metavar="DIR", type=FOLDER)
def directory(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    folder: Path,
) -> None:
    """Send copies of the files of a folder to the inbox, each once; those that cannot be sent are listed.

    An empty file is left out with a warning.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.sources.inbox.receive_folder import ingest_folder

    out = Output(as_json)
    done = ingest_folder(home_path, folder, collection=collection, user=user, project=project)
    where = f" in collection {', '.join(done.collections)}" if done.collections else ""
    out.text(f"received {done.received} new files, {done.known} as before{where}; {_READ_BY_BUILD}")
    for name in done.empty:
        out.text(f"  warning: {name}: is empty, left out")
    for name, why in done.failures:
        out.text(f"  {name}: {why}")
    out.result(done.to_json())
    if done.failures:
        raise ArgumentError("folder", f"{len(done.failures)} files cannot be sent; they are listed above", str(folder))


@click.command(short_help="Show how a site is structured, before it is read.")
@common
@click.option(
    "--seconds", type=click.FloatRange(1, 50), default=50, show_default=True, help="Time of the analysis, at most."
)
@click.option(
    "--max-urls", type=click.IntRange(1, 150), default=150, show_default=True, help="Pages that are grouped, at most."
)
@click.option("--common-crawl", is_flag=True, help="Ask Common Crawl for pages of a site without sitemaps.")
@click.argument("url", metavar="URL")
def analyze(
    home_path: Path, as_json: bool, backend: str, seconds: float, max_urls: int, common_crawl: bool, url: str
) -> None:
    """List the pages of a site by the pattern of their paths: from its sitemaps, else by its links. Stores nothing."""
    from palimpsest.sources.crawl.analyze_site import analyze_site

    out = Output(as_json)
    found = analyze_site(url, seconds=seconds, max_urls=max_urls, common_crawl=common_crawl)
    out.text(found.summary())
    out.result(found.to_json())


def _show(out: Output, done: "CrawlResult") -> None:
    out.text(done.summary())
    if done.stored or done.counts["gone"]:
        out.text(_READ_BY_BUILD)
    out.result(cast(dict[str, object], done.to_json()))
