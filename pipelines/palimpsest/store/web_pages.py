"""The pages that a home read from the web: `<home>/web/<collection>/`, read beside the collection's own sources.

A page has three files, whose names begin with the hash of its uri, which is its URL: a record, written last, which is
the one point of commit; the bytes that the server sent; and a sidecar with what readers must know. A page of other
bytes has another file, so that a record always names bytes that are whole. A record without a file says that something
of the page was deleted: what is kept of it is in the ingest log.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from palimpsest.core.errors import DamagedFile, PalimpsestError, first_line_of
from palimpsest.core.files import file_hash, folder_lock, read_sealed_json, write_private, write_sealed_json
from palimpsest.core.ids import content_id

SIDECAR_SUFFIX = ".meta.yaml"
CRAWLS_FILE = "crawls.json"
OWN_COLLECTION = "web"
"""Name of the collection that a home makes for pages where it has no other."""
DIRECT = "url"
"""Stands for a site in `PageRecord.sites` where a page was named by itself."""
_RECORD_SUFFIX = ".json"
_SCHEMES = ("http://", "https://")
_FIX = "run palimpsest build, which removes it, then crawl its site again"
_LOCK_WAIT_S = 30.0

Erased = Literal["", "memory", "expired"]


@dataclass(frozen=True)
class PageRecord:
    """What is known of a page.

    Attributes:
        uri: its canonical URL, the uri of its source.
        file: name of the file with its bytes.
        body_hash: of these bytes, as `core.files.file_hash` gives it.
        text_hash: of its main text: two pages with one text are duplicates.
        user_id: whose memories it makes.
        project_id: of its memories; None for the general memory.
        fetched_at: when this version of it was read, ISO 8601.
        session: the crawl that read this version.
        etag: validator of the server.
        last_modified: validator of the server.
        sites: hashes of the sites whose crawls reach it, and `DIRECT`.
        erased: `memory` where a part of it was deleted, so that it is not stored again; `expired` where a part of it is
            past its retention.
    """

    uri: str
    file: str
    body_hash: str
    text_hash: str
    user_id: str
    project_id: str | None
    fetched_at: str
    session: str
    etag: str | None = None
    last_modified: str | None = None
    sites: tuple[str, ...] = ()
    erased: Erased = ""


@dataclass(frozen=True)
class WebPage:
    """A page of a collection: its record, and the folder with its files."""

    folder: Path
    record: PageRecord

    @property
    def path(self) -> Path:
        """The file with its bytes; it is missing where something of the page was deleted."""
        return self.folder / self.record.file

    @property
    def is_damaged(self) -> bool:
        """Whether the file has other bytes than the server sent."""
        return self.path.is_file() and file_hash(self.path) != self.record.body_hash


def is_web_uri(uri: str) -> bool:
    """Returns whether a source is a page of the web; a file of a corpus never has such a uri."""
    return uri.startswith(_SCHEMES)


def page_id(uri: str) -> str:
    """Returns the hash that the names of a page's files begin with."""
    return content_id("page", uri)


def site_id(url: str, user_id: str, project_id: str | None) -> str:
    """Returns the hash of a site of a user, so that a delete of its pages leaves no name of them."""
    return content_id("site", url, user_id, project_id)


def web_pages(web: Path, collection: str) -> Iterator[WebPage]:
    """Yields the pages of a collection, sorted by their files.

    Raises:
        DamagedFile: a record is damaged.
    """
    folder = web / collection
    for path in sorted(folder.glob(f"*{_RECORD_SUFFIX}")):
        if path.name != CRAWLS_FILE:
            yield WebPage(folder, _read_record(path))


def find_page(web: Path, collection: str, uri: str) -> WebPage | None:
    """Returns a page by its uri.

    Raises:
        DamagedFile: its record is damaged.
    """
    path = web / collection / f"{page_id(uri)}{_RECORD_SUFFIX}"
    return WebPage(path.parent, _read_record(path)) if path.is_file() else None


def write_page(web: Path, collection: str, record: PageRecord, data: bytes, sidecar: bytes) -> None:
    """Writes a page and its record; the caller has the lock.

    The record alone is synced: bytes that a power loss damages are noticed by their hash, and fetched again.
    """
    folder = web / collection
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    write_private(folder / (record.file + SIDECAR_SUFFIX), sidecar)
    write_private(folder / record.file, data)
    write_record(web, collection, record)


def write_record(web: Path, collection: str, record: PageRecord) -> None:
    """Writes the record of a page whose bytes are as they were; the caller has the lock."""
    path = web / collection / f"{page_id(record.uri)}{_RECORD_SUFFIX}"
    write_sealed_json(path, {**asdict(record), "sites": list(record.sites)})
    path.chmod(0o600)


def remove_page(web: Path, collection: str, uri: str) -> int:
    """Removes a page with all its files; returns how many. The caller has the lock."""
    paths = sorted((web / collection).glob(f"{page_id(uri)}*"))
    for path in paths:
        path.unlink()
    return len(paths)


def retire_page(web: Path, collection: str, uri: str) -> None:
    """Removes the record of a page that is gone: the next build retires its memories, then removes its bytes."""
    (web / collection / f"{page_id(uri)}{_RECORD_SUFFIX}").unlink(missing_ok=True)


def erase_bytes(web: Path, collection: str, uri: str, why: Erased) -> int:
    """Removes the bytes of a page of which a part is deleted; returns how many files. The caller has the lock."""
    page = find_page(web, collection, uri)
    if page is None:
        return remove_page(web, collection, uri)
    erased: Erased = "memory" if "memory" in (why, page.record.erased) else why
    write_record(web, collection, replace(page.record, erased=erased))
    paths = [p for p in sorted(page.folder.glob(f"{page_id(uri)}*")) if p.suffix != _RECORD_SUFFIX or "-" in p.name]
    for path in paths:
        path.unlink()
    return len(paths)


def remove_collection(web: Path, collection: str) -> int:
    """Removes all pages of a collection; returns how many files. The caller has the lock."""
    folder = web / collection
    files = len([p for p in folder.glob("*") if p.is_file()])
    shutil.rmtree(folder, ignore_errors=True)
    return files


def sweep_pages(web: Path, collection: str) -> int:
    """Removes files that no record names: earlier bytes, and what a crawl that was killed left; returns how many.

    The caller has the lock of the home: no build is reading them.
    """
    folder = web / collection
    if not folder.is_dir():
        return 0
    with web_lock(web):
        records = {p.name for p in folder.glob(f"*{_RECORD_SUFFIX}")}
        files = {page.record.file for page in web_pages(web, collection)}
        named = records.union(files, (f + SIDECAR_SUFFIX for f in files))
        outdated = [p for p in sorted(folder.iterdir()) if p.name not in named]
        for path in outdated:
            path.unlink()
    return len(outdated)


def damaged_pages(web: Path, collection: str) -> list[Path]:
    """Returns the records that are damaged, and the files of pages that are not as the server sent them."""
    found = []
    for path in sorted((web / collection).glob(f"*{_RECORD_SUFFIX}")):
        try:
            if path.name == CRAWLS_FILE:
                read_crawls(web, collection)
            elif (page := WebPage(path.parent, _read_record(path))).is_damaged:
                found.append(page.path)
        except DamagedFile:
            found.append(path)
    return found


def read_crawls(web: Path, collection: str) -> dict[str, str]:
    """Returns when each site of a collection was last crawled, ISO 8601, by `site_id`.

    Raises:
        DamagedFile: the list is damaged.
    """
    found = read_sealed_json(web / collection / CRAWLS_FILE, _FIX) or {}
    return {name: str(when) for name, when in found.items()}


def record_crawl(web: Path, collection: str, site: str, when: str) -> None:
    """Records that a site was crawled; the caller has the lock."""
    (web / collection).mkdir(mode=0o700, exist_ok=True)
    path = web / collection / CRAWLS_FILE
    write_sealed_json(path, {**read_crawls(web, collection), site: when})
    path.chmod(0o600)


@contextmanager
def web_lock(web: Path) -> Iterator[None]:
    """Keeps other writers of the pages out, for the time of one write.

    Raises:
        ComponentFailed: another process does not let go of it.
    """
    with folder_lock(web, _LOCK_WAIT_S, f"{web}: another process is writing it; run again"):
        yield


def _read_record(path: Path) -> PageRecord:
    """Reads a record.

    Raises:
        DamagedFile: it is damaged.
    """
    try:
        value = cast(dict[str, Any], read_sealed_json(path, _FIX))
        return PageRecord(**{**value, "sites": tuple(map(str, value["sites"]))})
    except (TypeError, KeyError):
        raise DamagedFile(path, _FIX) from None


# The sites that a collection is kept up to date from: `sources.yaml` beside its collection.yaml.

SITES_FILE = "sources.yaml"
MAX_DEPTH, MAX_PAGES = 50, 100_000
DEFAULT_DEPTH, DEFAULT_PAGES = 5, 1_000
Mode = Literal["ingest", "reingest"]
Pattern = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class SiteEntry(BaseModel):
    """A site or a page that is crawled into the collection."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)] = Field(
        description="where the site begins: pages at and below it are read"
    )
    schedule: str | None = Field(
        default=None,
        description="cron expression of five fields in `PALIMPSEST_TIMEZONE`; without it the entry is crawled by "
        "`palimpsest ingest sites` alone",
    )
    mode: Mode = Field(
        default="reingest",
        description="`reingest`: new and changed pages are stored, pages that are gone retire; `ingest`: crawled once",
    )
    depth: int = Field(
        default=DEFAULT_DEPTH, ge=0, le=MAX_DEPTH, description="links from the start to a page, at most; 0: one page"
    )
    max_pages: int = Field(default=DEFAULT_PAGES, ge=1, le=MAX_PAGES, description="pages that are fetched, at most")
    include: tuple[Pattern, ...] = Field(
        default=(), description="only pages that match one of these: `/docs/*` is a path, `https://...` a whole URL"
    )
    exclude: tuple[Pattern, ...] = Field(default=(), description="no page that matches one of these")
    delay_s: float | None = Field(
        default=None,
        ge=0,
        le=60,
        description="seconds between two requests; default 0.2, 0 for hosts of `PALIMPSEST_WEB_ALLOW_PRIVATE`. "
        "A longer `Crawl-delay` of the site's robots.txt wins",
    )
    render: bool = Field(default=False, description="let a browser draw the pages: scripts write their text")
    user: _Name | None = Field(default=None, description="whose memories; default: the collection's `user_id`")
    project: _Name | None = Field(default=None, description="their project; default: the collection's `project_id`")

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, schedule: str | None) -> str | None:
        from cronsim import CronSim, CronSimError

        if schedule is not None:
            try:
                CronSim(schedule, datetime(2000, 1, 1))
            except CronSimError:
                raise ValueError("is no cron expression; write five fields, such as '0 2 * * *'") from None
        return schedule


class _SitesFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    web: tuple[SiteEntry, ...] = ()


def load_site_entries(folder: Path) -> tuple[SiteEntry, ...]:
    """Reads `<folder>/sources.yaml`: a mapping whose field `web` is a list of sites; none where there is no such file.

    Raises:
        PalimpsestError: it cannot be read, or a field is wrong; the message names the file, the field and the fix.
    """
    path = folder / SITES_FILE
    try:
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as e:
        line = first_line_of(e)
        raise PalimpsestError(f"{SITES_FILE}: not valid YAML: {line} ({path})") from None
    if not isinstance(raw, dict):
        raise PalimpsestError(f"{SITES_FILE}: must be a mapping with web, a list of entries with url ({path})")
    try:
        entries = _SitesFile.model_validate(raw).web
    except ValidationError as e:
        error = e.errors()[0]
        where = ".".join(map(str, error["loc"])) or "web"
        fix = f"; fields are {', '.join(SiteEntry.model_fields)}" if error["type"] == "extra_forbidden" else ""
        message = error["msg"].removeprefix("Value error, ")
        raise PalimpsestError(f"{SITES_FILE}: {where}: {message}{fix} ({path})") from None
    urls = [(entry.url, entry.user, entry.project) for entry in entries]
    if twice := next((url for url, *_ in urls if [u for u, *_ in urls].count(url) > 1), None):
        raise PalimpsestError(f"{SITES_FILE}: web: {twice[:100]} is given twice; remove one ({path})")
    return entries
