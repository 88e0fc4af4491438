"""The asset `month_figures`: what the published build has of one collection and month, a partition each.

Stages are not partitioned by month: a stage writes the tables of a collection whole, because a memory of one month may
supersede one of another.
"""

import datetime as dt

import dagster as dg

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import OWNERS, HomeResource, collections, tag_run
from palimpsest.orchestration.schedule import first_month
from palimpsest.store.builds import published

months = dg.MonthlyPartitionsDefinition(start_date=first_month(), fmt="%Y-%m", end_offset=1)  # the current month too
collection_months = dg.MultiPartitionsDefinition({"collection": collections, "month": months})


@dg.asset(
    group_name="figures",
    kinds={"polars"},
    owners=OWNERS,
    deps=["published"],
    partitions_def=collection_months,
)
def month_figures(context: dg.AssetExecutionContext, home: HomeResource) -> dg.MaterializeResult:
    """Memories of a collection and month of the published build, how many are superseded, R@5 of their questions."""  # noqa: DOC501 (the docstring is the description in the UI)
    from palimpsest_eval.runs.month_figures import month_figures as figures_of

    keys = context.partition_key.keys_by_dimension  # a MultiPartitionKey
    collection, month = keys["collection"], dt.date.fromisoformat(f"{keys['month']}-01")
    build = published(home.home())
    if build is None or collection not in build.collections:
        raise PalimpsestError(f"collection {collection}: nothing is published of it; run palimpsest build")
    tag_run(context, build.build_id, collection)
    found = figures_of(build, collection, month)
    metadata: dict[str, int | float | str] = {
        "dagster/row_count": found.memories,
        "latest": found.latest,
        "superseded": found.superseded,
        "questions": found.questions,
        "build": build.build_id,
    }
    return dg.MaterializeResult(metadata=metadata | ({} if found.recall is None else {"R@5": found.recall}))
