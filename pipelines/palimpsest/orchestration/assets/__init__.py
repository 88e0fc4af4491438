"""Dagster glue: one file a group of assets."""
