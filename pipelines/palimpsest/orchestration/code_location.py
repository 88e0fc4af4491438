"""All assets, jobs, schedules and sensors, as Dagster loads them."""

import dagster as dg

from palimpsest.orchestration import automation, crawls, night_shift, publishing, watch
from palimpsest.orchestration.assets import consolidation, evaluation, freshness, graph, labels, months, serving, web
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.orchestration.assets.stages import stage_assets

defs = dg.Definitions(
    assets=[
        *stage_assets,
        *dg.load_assets_from_modules([labels, serving, graph, consolidation, evaluation, months, web]),
    ],
    asset_checks=[freshness.fresh_collections],
    jobs=[
        automation.build_collection,
        automation.publish_build,
        automation.serve_graph,
        night_shift.consolidate_home,
        crawls.crawl_sites,
        automation.evaluate_suite,
        automation.measure_months,
        watch.check_freshness,
    ],
    schedules=[
        automation.nightly_rebuild,
        night_shift.nightly_consolidation,
        automation.weekly_evaluation,
        crawls.due_sites,
        watch.regular_freshness,
    ],
    sensors=[
        automation.changed_folders,
        automation.new_relation_program,
        publishing.publish_after_collections,
        publishing.publish_after_failures,
        publishing.serve_after_publishing,
        watch.overdue_build,
        watch.interrupted_runs,
        night_shift.consolidate_after_publishing,
    ],
    resources={"home": HomeResource()},
    executor=automation.EXECUTOR,
)
