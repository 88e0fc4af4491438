"""Dagster's own folder in a home: its settings, the limits of its pools, and the module that Dagster loads."""

import os
from typing import TYPE_CHECKING

from palimpsest.core.environment import whole_number
from palimpsest.store.home import Home

if TYPE_CHECKING:
    import dagster as dg

DEFINITIONS = "palimpsest.definitions"
"""The module that `dagster dev` loads: its location is named after it."""
_EARLIER_YAML = """\
# Everything Dagster keeps is next to this file. Runs of one home do not overlap: it has one writer.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 1
"""
_DAGSTER_YAML = f"""\
{_EARLIER_YAML}\
  pools:
    default_limit: 1
    granularity: run
# A run whose process dies is started again; what is wrong with an input stays wrong.
run_retries:
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 600
  cancel_timeout_seconds: 180
freshness:
  enabled: true
"""
POOL_LIMITS = {"embedder": "PALIMPSEST_POOL_EMBEDDER", "lm": "PALIMPSEST_POOL_LM", "neo4j": "PALIMPSEST_POOL_NEO4J"}
"""The variable with the limit of each pool. The pool `home` has none: a home has one writer."""
_WRITERS, _MAX_LIMIT = "home", 64


def write_dagster_yaml(home: Home) -> None:
    """Makes the home's DAGSTER_HOME with its settings; one that a person wrote or changed is left as it is."""
    path = home.dagster / "dagster.yaml"
    if not path.exists() or path.read_text() == _EARLIER_YAML:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_DAGSTER_YAML)


def set_pool_limits(instance: "dg.DagsterInstance") -> None:
    """Writes the limit of each pool: the environment's, else the default of dagster.yaml where a pool has none yet.

    Dagster itself writes a default only when a run of the pool is queued, too late for those queued with it.

    Raises:
        PalimpsestError: a variable is no whole number.
    """
    named = {p: whole_number(v, 1, 1, _MAX_LIMIT) for p, v in POOL_LIMITS.items() if os.environ.get(v, "").strip()}
    for pool, limit in named.items():
        instance.event_log_storage.set_concurrency_slots(pool, limit)
    known = instance.event_log_storage.get_concurrency_keys()
    if instance.global_op_concurrency_default_limit is not None:
        for pool in {_WRITERS, *POOL_LIMITS} - known:
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
