"""When the entries of `sources.yaml` are crawled: a look every quarter of an hour, and a run where one is due."""

import datetime as dt
from zoneinfo import ZoneInfo

import dagster as dg

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.orchestration.assets.steps import BY
from palimpsest.orchestration.automation import EXECUTOR, SCHEDULE
from palimpsest.orchestration.watch import alert_when_failed
from palimpsest.sources.crawl.scheduled_sites import list_sites

crawl_sites = dg.define_asset_job(
    "crawl_sites",
    dg.AssetSelection.assets("web_pages"),
    description="Reads what sources.yaml of the collections names from the web; changed pages start a build.",
    executor_def=EXECUTOR,
    hooks={alert_when_failed},
)


@dg.schedule(
    cron_schedule="*/15 * * * *",
    job=crawl_sites,
    execution_timezone=SCHEDULE.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING if SCHEDULE.on else dg.DefaultScheduleStatus.STOPPED,
    description="Crawls entries of sources.yaml whose own schedule says that they are due.",
)
def due_sites(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Returns a run where an entry is due, else the reason to skip."""
    now = context.scheduled_execution_time.astimezone(ZoneInfo(SCHEDULE.timezone))
    problems: list[tuple[str, str]] = []
    try:
        found = list_sites(home.home(), now=now, problems=problems)
        sites = [site for site in found if site.entry.schedule is not None]
    except PalimpsestError as e:
        return dg.SkipReason(str(e))
    for name, why in problems:
        context.log.warning(f"sites of {name}: {why}")
    if any(not site.why_not for site in sites):
        return dg.RunRequest(run_key=f"crawl-{now.astimezone(dt.UTC):%Y%m%dT%H%M}", tags={BY: "sites"})
    failed = "".join(f"; {name}: {why}" for name, why in problems)
    return dg.SkipReason(f"none of {len(sites)} entries with a schedule is due{failed}")
