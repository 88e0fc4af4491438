"""Commands about sources: what is sent to the inbox, what is read from the web or from files, single documents."""

import datetime as dt
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from zoneinfo import ZoneInfo

import click

from palimpsest.cli.shared import FOLDER, Call, Output, TimeParam, collection_option, columns, common, confirm, visible
from palimpsest.core.errors import ArgumentError, ComponentFailed
from palimpsest.core.files import counted
from palimpsest.core.ids import MEMORY_TYPES

if TYPE_CHECKING:
    from palimpsest.pipeline.document_info import DocumentInfo
    from palimpsest.sources.crawl.crawl_site import CrawlResult
    from palimpsest.sources.inbox import InboxOptions
    from palimpsest.store.web_pages import Mode


@click.command()
@common
@click.argument("text", metavar="TEXT|FILE")
@collection_option
@click.option("--user", help="Whose it is; may be new. [default: the collection's user_id]")
@click.option("--project", help="Project that it belongs to. [default: the general memory]")
@click.option("--session", help="Conversation that it is of.")
@click.option("--type", type=click.Choice(MEMORY_TYPES), help="Type of its memories.")
@click.option("--tag", "tags", multiple=True, help="Tag of its memories. [repeatable]")
@click.option("--speaker", help="Who says a text.")
@click.option(
    "--date",
    "observed_at",
    type=TimeParam(),
    metavar="TIME",
    help="When it was stated, ISO 8601; UTC where it names no zone. [default of a text: now]",
)
@click.option("--operation-id", help="Idempotency key: a second call with the same one writes nothing. [default: new]")
def remember(call: Call, text: str, speaker: str | None, **options: Unpack["InboxOptions"]) -> None:
    """Send a text, or a file where TEXT is the path of one, to the inbox of the home; print the operation's id."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.sources.inbox import ingest_file, ingest_text

    if not _is_file(text):
        if _is_path(text):
            raise click.UsageError(f"{text}: no such file; name a file, or write a sentence to remember")
        receipt = ingest_text(call.home_path, text, speaker=speaker, **options)
    elif speaker:
        raise click.UsageError("--speaker is of a text; a file states its own speakers")
    else:
        receipt = ingest_file(call.home_path, text, **options)
    known = "" if receipt.is_new else ", as before"
    call.text(
        f"received{known}: operation {receipt.operation_id} in collection {receipt.collection}; "
        "the next palimpsest build reads it"
    )
    call.result(receipt.to_json())


@click.command()
@common
@click.argument("operation_id", metavar="ID")
@click.option("--user", help="Only an operation of this user.")
def operation(call: Call, operation_id: str, user: str | None) -> None:
    """Show the state of an operation: received, rejected, built, published or failed, and why."""
    from palimpsest.pipeline.document_info import operation_status

    status = operation_status(call.home, operation_id, user)
    formed = _formed(status.chunks, status.entities, status.facts) if status.chunks else ""
    why = f" ({status.reason})" if status.reason else ""
    call.show(f"{status.state}{formed}{why}; {status.uri} in collection {status.collection}", status.to_json())


def _formed(chunks: int, entities: int | None, facts: int | None) -> str:
    return f": {counted(chunks, 'chunk')}, {counted(entities or 0, 'entity')}, {counted(facts or 0, 'fact')}"


def _is_path(text: str) -> bool:
    """Returns whether a text was meant as the path of a file: it is one word, with a slash or a suffix."""
    return " " not in text and ("/" in text or bool(re.search(r"\w\.[A-Za-z0-9]{2,5}$", text))) and "://" not in text


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # no text of a name: too long, or with a NUL
        return False


# The commands `palimpsest ingest url|site|sites|text|file|directory` and `palimpsest analyze`.

_Command = TypeVar("_Command", bound=Callable[..., object])
_READ_BY_BUILD = "the next palimpsest build reads what was stored"


@click.group()
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
    call: Call, collection: str | None, user: str | None, project: str | None, mode: "Mode", render: bool, url: str
) -> None:
    """Read one page; redirects and its canonical URL are followed."""
    from palimpsest.sources.crawl import ingest_url

    done = ingest_url(call.home_path, url, mode=mode, render=render, collection=collection, user=user, project=project)
    _show(call, done)


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
def site(call: Call, collection: str | None, user: str | None, project: str | None, url: str, **options: Any) -> None:
    """Read the pages of a site at and below URL: those of its sitemaps, else those that links lead to."""
    from palimpsest.sources.crawl import CrawlOptions, ingest_site

    done = ingest_site(call.home_path, url, CrawlOptions(**options), collection=collection, user=user, project=project)
    _show(call, done)


@ingest.command(short_help="Read what sources.yaml of the collections names.")
@common
@click.option("--corpus", "corpora", type=FOLDER, multiple=True, help="Folder of collections. [default: the home's]")
@click.option("--collection", "only", multiple=True, help="Only entries of this collection. [repeatable]")
@click.option("--all", "all_entries", is_flag=True, help="Entries that their schedule says are not due, too.")
def sites(call: Call, corpora: tuple[Path, ...], only: tuple[str, ...], all_entries: bool) -> None:
    """Read the sites and pages that sources.yaml beside each collection.yaml names, where they are due."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.orchestration.schedule import schedule_timezone
    from palimpsest.sources.crawl.ingest_web import ingest_due

    now = dt.datetime.now(ZoneInfo(schedule_timezone()))
    done = ingest_due(call.home, list(corpora) or None, list(only), all_entries=all_entries, now=now)
    for crawl in done.crawls:
        call.text(crawl.summary())
    for entry, why in done.skipped:
        call.text(f"{entry}: {why}")
    for entry, why in done.failures:
        call.text(f"{entry}: failed: {why}")
    if not (done.crawls or done.skipped or done.failures):
        call.text("no entry: a file sources.yaml beside collection.yaml names sites")
    call.result(done.to_json())
    if done.failures:
        raise ComponentFailed(f"{len(done.failures)} of {done.number} entries failed; they are listed above")


@ingest.command(short_help="Send a text to the inbox.")
@common
@_owner_options
@click.argument("text", metavar="TEXT|-")
def text(call: Call, collection: str | None, user: str | None, project: str | None, text: str) -> None:
    """Send a text to the inbox, or what standard input has where TEXT is `-`."""
    from palimpsest.sources.inbox import MAX_TEXT_BYTES, ingest_text

    if text == "-":
        text = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1).decode("utf-8", "replace")
    receipt = ingest_text(call.home_path, text, collection=collection, user=user, project=project)
    call.text(f"received: operation {receipt.operation_id} in collection {receipt.collection}; {_READ_BY_BUILD}")
    call.result(receipt.to_json())


@ingest.command()
@common
@_owner_options
@click.argument("path", metavar="PATH", type=FOLDER)
def file(call: Call, collection: str | None, user: str | None, project: str | None, path: Path) -> None:
    """Send a copy of a file to the inbox."""
    from palimpsest.sources.inbox import ingest_file

    receipt = ingest_file(call.home_path, path, collection=collection, user=user, project=project)
    call.text(f"received: operation {receipt.operation_id} in collection {receipt.collection}; {_READ_BY_BUILD}")
    call.result(receipt.to_json())


@ingest.command(short_help="Send the files of a folder to the inbox.")
@common
@_owner_options
@click.argument("folder", metavar="DIR", type=FOLDER)
def directory(call: Call, collection: str | None, user: str | None, project: str | None, folder: Path) -> None:
    """Send copies of the files of a folder to the inbox, each once; those that cannot be sent are listed.

    An empty file is left out with a warning.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.sources.inbox import ingest_folder

    done = ingest_folder(call.home_path, folder, collection=collection, user=user, project=project)
    where = f" in collection {', '.join(done.collections)}" if done.collections else ""
    call.text(f"received {counted(done.received, 'new file')}, {done.known} as before{where}; {_READ_BY_BUILD}")
    for name in done.empty:
        call.text(f"  warning: {name}: is empty, left out")
    for name, why in done.failures:
        call.text(f"  {name}: {why}")
    call.result(done.to_json())
    if done.failures:
        raise ArgumentError("folder", f"{counted(len(done.failures), 'file')} cannot be sent; see above", str(folder))


@click.command()
@common
@click.option(
    "--seconds", type=click.FloatRange(1, 50), default=50, show_default=True, help="Time of the analysis, at most."
)
@click.option(
    "--max-urls", type=click.IntRange(1, 150), default=150, show_default=True, help="Pages that are grouped, at most."
)
@click.option("--common-crawl", is_flag=True, help="Ask Common Crawl for pages of a site without sitemaps.")
@click.argument("url", metavar="URL")
def analyze(call: Call, seconds: float, max_urls: int, common_crawl: bool, url: str) -> None:
    """List the pages of a site by the pattern of their paths: from its sitemaps, else by its links. Stores nothing."""
    from palimpsest.sources.crawl.analyze_site import analyze_site

    found = analyze_site(url, seconds=seconds, max_urls=max_urls, common_crawl=common_crawl)
    call.show(found.summary(), found.to_json())


def _show(out: Output, done: "CrawlResult") -> None:
    out.text(done.summary())
    if done.stored or done.counts["gone"]:
        out.text(_READ_BY_BUILD)
    out.result(cast(dict[str, object], done.to_json()))


# The commands `palimpsest document ...`; `documents` is another name of the group.

_TITLE_CHARS = 32
_collection = click.option("--collection", help="Where it is. [default: the only one that has it]")


@click.group()
def document() -> None:
    """List the documents of a home, view one, replace what one of the inbox says, or delete one.

    For those who run a home: what is shown is not limited to one user unless --user names one.
    """


@document.command("list", short_help="List the documents that exist now.")
@common
@click.option("--collection", help="Only of this collection.")
@click.option("--user", help="Only of this user.")
def list_(call: Call, collection: str | None, user: str | None) -> None:
    """List the documents that exist now as a table; --json has all that is known of each.

    A document is pending until a build has read it.
    """
    from palimpsest.pipeline.document_info import list_documents

    found = list_documents(call.home, collection, user)
    if found:
        rows = [("ID", "TITLE", "SOURCE", "USER", "CHUNKS", "STATE"), *map(_row, found)]
        call.text(visible("\n".join(columns(rows))))
    if not found:
        call.text("no documents")
    call.result({"documents": [d.to_json() for d in found]})


def _row(document: "DocumentInfo") -> tuple[str, ...]:
    d, title = document, " ".join((document.title or "").split())
    return (
        d.document_id or "-",
        (f"{title[: _TITLE_CHARS - 1]}…" if len(title) > _TITLE_CHARS else title) or "-",
        f"{d.collection}: {d.uri}{f'#{d.session_id}' if d.session_id else ''}",
        f"{d.user_id}{f'/{d.project_id}' if d.project_id else ''}" or "-",
        str(d.chunks),
        _state(d),
    )


def _state(document: "DocumentInfo") -> str:
    return f"{document.state}{f': {document.reason}' if document.reason else ''}"


@document.command(short_help="Print the text of a document as the home has it.")
@common
@click.argument("uri")
@_collection
@click.option("--user", help="Only what is of this user.")
def view(call: Call, uri: str, collection: str | None, user: str | None) -> None:
    """Print the text of a document as the home has it: URI is its path inside the collection, or URI#SESSION."""
    from palimpsest.pipeline.document_info import view_document

    found = view_document(call.home, uri, collection, user)
    for d in found:
        i = d.info
        session = f"#{i.session_id}" if i.session_id else ""
        whose = f"user {i.user_id}{f', project {i.project_id}' if i.project_id else ''}"
        of = f", of {i.source_time}" if i.source_time else ""
        lines = (
            f"== {i.collection}: {i.uri}{session}{f' ({i.title})' if i.title else ''}",
            f"{whose}, {i.media_type}{of}, version {d.version} read {d.read_at}",
            f"{counted(i.memories, 'memory')}, {i.latest:,} latest" if i.state == "built" else _state(i),
            *(f"{name}: {value}" for name, value in sorted(d.metadata.items())),
            f"\n{d.text}",
        )
        call.text(visible("\n".join(lines)))
    call.result({"documents": [d.to_json() for d in found]})


@document.command(short_help="Replace what a document of the inbox says.")
@common
@click.argument("uri")
@click.argument("file", type=FOLDER)
@_collection
def update(call: Call, uri: str, file: Path, collection: str | None) -> None:
    """Replace what a document of the inbox says by FILE; the next build makes a new version of it.

    A document of a collection's folder is a file of yours: the command says where, edit it there. A page of the web is
    read again by palimpsest ingest url.
    """
    from palimpsest.pipeline.document_info import find_source
    from palimpsest.sources.inbox import replace_source

    name, source = find_source(call.home, uri, collection)
    written = replace_source(call.home, name, source, file)
    call.text(f"{name}: {source} is replaced; palimpsest build makes a new version of it")
    call.result({"collection": name, "uri": source, "file": str(written)})


@document.command(short_help="Delete a document from every build and log, and prove it.")
@common
@click.argument("uri")
@_collection
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")
def delete(call: Call, uri: str, collection: str | None, dry_run: bool, yes: bool) -> None:
    """Delete a document as `palimpsest delete --document` does: URI is its path in the collection, or URI#SESSION."""
    from palimpsest.pipeline.deletion.delete import delete as delete_from

    if not dry_run:
        confirm(f"Delete {uri} with all of its memories from home {call.home_path}?", yes)
    done = delete_from(call.home, document=uri, collection=collection, dry_run=dry_run)
    call.show(done.text, done.to_json())
