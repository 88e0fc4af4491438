"""Dagster's own folder in a home, and the module that Dagster loads."""

from palimpsest.store.home import Home

DEFINITIONS = "palimpsest.definitions"
"""The module that `dagster dev` loads: its location is named after it."""
_DAGSTER_YAML = """\
# Everything Dagster keeps is next to this file. Runs of one home do not overlap: it has one writer.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 1
"""


def write_dagster_yaml(home: Home) -> None:
    """Makes the home's DAGSTER_HOME: telemetry off, one run at a time."""
    path = home.dagster / "dagster.yaml"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_DAGSTER_YAML)
