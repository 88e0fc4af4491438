"""The sites that a collection is kept up to date from: `sources.yaml` beside its collection.yaml."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from palimpsest.core.errors import PalimpsestError, first_line_of

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
