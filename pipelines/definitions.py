"""The one Definitions that Dagster loads: workspace.yaml names this module."""

from palimpsest.orchestration.code_location import defs

__all__ = ["defs"]
