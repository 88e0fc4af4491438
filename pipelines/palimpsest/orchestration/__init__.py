"""Dagster: assets, jobs, schedules, sensors, and the runs of the command line."""

import warnings

warnings.filterwarnings("ignore", message="Parameter `backfill_policy`")  # in beta since 2023
