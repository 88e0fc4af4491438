"""Dagster: assets, jobs, schedules, sensors, and the runs of the command line."""
