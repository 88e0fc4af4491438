"""All assets, jobs, schedules and sensors, as Dagster loads them."""

import dagster as dg

from palimpsest.orchestration import automation, build_assets, published_assets, publishing, watch
from palimpsest.orchestration.resources import HomeResource

defs = dg.Definitions(
    assets=dg.load_assets_from_modules([build_assets, published_assets], include_specs=True),
    asset_checks=[build_assets.fresh_collections, build_assets.readable],
    jobs=[
        automation.rebuild,
        automation.serve_graph,
        publishing.consolidate_home,
        publishing.crawl_sites,
        automation.evaluate_suite,
        watch.check_freshness,
    ],
    schedules=[
        automation.nightly_rebuild,
        publishing.nightly_consolidation,
        automation.weekly_evaluation,
        publishing.due_sites,
        watch.regular_freshness,
    ],
    sensors=[
        automation.changed_folders,
        automation.new_relation_program,
        publishing.publish_after_collections,
        publishing.publish_after_failures,
        publishing.serve_after_publishing,
        watch.overdue_build,
        watch.unreadable_collections,
        watch.interrupted_runs,
        publishing.consolidate_after_publishing,
    ],
    resources={"home": HomeResource()},
    executor=automation.EXECUTOR,
)
