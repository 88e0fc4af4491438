"""The one Definitions that Dagster loads: workspace.yaml names this module."""

from palimpsest.core.setting_layers import apply_layers

apply_layers()  # Dagster loads this module in processes of its own; the schedule reads settings when it is imported

from palimpsest.orchestration.code_location import defs  # noqa: E402

__all__ = ["defs"]
