"""The asset `web_pages`: what `sources.yaml` of the collections names is read from the web, where it is due."""

import datetime as dt
from zoneinfo import ZoneInfo

import dagster as dg

from palimpsest.orchestration.assets.resources import OWNERS, HomeResource
from palimpsest.orchestration.schedule import schedule_timezone
from palimpsest.sources.crawl.ingest_web import ingest_due


@dg.asset(group_name="sources", kinds={"python"}, owners=OWNERS)
def web_pages(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Sites of sources.yaml whose schedule says they are due: new and changed pages are stored for the next build."""  # noqa: DOC501 (the docstring is the description in the UI)
    done = ingest_due(home.home(), scheduled_only=True, now=dt.datetime.now(ZoneInfo(schedule_timezone())))
    for crawl in done.crawls:
        context.log.info(crawl.summary())
    numbers = {name: sum(crawl.counts[name] for crawl in done.crawls) for name in ("fetched", "unchanged", "gone")}
    stored = sum(len(crawl.stored) for crawl in done.crawls)
    metadata = {"crawls": len(done.crawls), "stored": stored, "failed_entries": len(done.failures), **numbers}
    if done.failures:
        entry, why = done.failures[0]
        raise dg.Failure(
            f"{len(done.failures)} of {done.number} entries failed, first {entry}: {why}", metadata=metadata
        )
    return dg.MaterializeResult(metadata=metadata)
