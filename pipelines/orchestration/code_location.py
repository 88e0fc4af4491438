"""All assets, jobs, schedules and sensors, as Dagster loads them."""

import dagster as dg

from palimpsest.orchestration import automation, watch
from palimpsest.orchestration.assets import evaluation, graph, labels, serving
from palimpsest.orchestration.assets.resources import HomeResource
from palimpsest.orchestration.assets.stages import stage_assets

defs = dg.Definitions(
    assets=[*stage_assets, *dg.load_assets_from_modules([labels, serving, graph, evaluation])],
    jobs=[automation.build_collection, automation.publish_build, automation.serve_graph, automation.evaluate_suite],
    schedules=[automation.nightly_rebuild, automation.weekly_evaluation],
    sensors=[
        automation.changed_folders,
        automation.new_relation_program,
        automation.publish_after_collections,
        automation.serve_after_publishing,
        watch.overdue_build,
    ],
    resources={"home": HomeResource()},
    executor=dg.in_process_executor,
)
