"""The table of all settings: what `palimpsest config` shows, and what files may set."""

from palimpsest.core.configuration.setting import Setting
from palimpsest.core.configuration.settings_of_models import BATCHES, EMBEDDER, LM, RELATIONS, SEARCH
from palimpsest.core.configuration.settings_of_servers import NEO4J, SCHEDULE, SERVICE, WEB

SECTIONS = {
    "": "General",
    "telemetry": "Telemetry",
    "service": "Service",
    "embedder": "Embedder",
    "relations": "Relations",
    "search": "Search",
    "lm": "Language model",
    "batches": "Batches",
    "web": "Web",
    "schedule": "Schedule",
    "neo4j": "Neo4j",
}

_GENERAL = (
    Setting("home", "PALIMPSEST_HOME", "`data/home`", "home: the folder with everything that a build writes", "path"),
    Setting(
        "data",
        "PALIMPSEST_DATA",
        "`./data`",
        "folder of golden questions, baselines and relation programs; set it for a service that starts in another "
        "folder",
        "path",
        directs=True,
    ),
    Setting("cache", "PALIMPSEST_CACHE", "the user's cache folder", "folder of the cache of suites", "path"),
    Setting(
        "suites",
        "PALIMPSEST_SUITES",
        "none",
        "folder of suites: each is a partition of the asset `suite_metrics`, and `make suites` measures them",
        "path",
    ),
    Setting(
        "backend",
        "PALIMPSEST_BACKEND",
        "`duckdb`",
        "where queries are answered, of commands without `--backend`: `duckdb` or `neo4j`",
        "choice",
        choices=("duckdb", "neo4j"),
    ),
    Setting(
        "debug",
        "PALIMPSEST_DEBUG",
        "off",
        "`1`: an unexpected error shows its traceback",
        "switch",
        words=("1", ""),
    ),
    Setting(
        "lease_seconds",
        "PALIMPSEST_LEASE_S",
        "60",
        "seconds after which a builder of a home on object storage that was stopped is no longer waited for "
        "([object storage](../object-storage.md))",
        "whole",
        1,
        3600,
    ),
    Setting(
        "usage_days",
        "PALIMPSEST_USAGE_DAYS",
        "90",
        "days for which reads of memories are kept, for `--accessed-within`; `0` counts none "
        "([privacy](../privacy.md#usage-log))",
        "whole",
        0,
        3650,
    ),
    Setting(
        "backup_password",
        "PALIMPSEST_BACKUP_PASSWORD",
        "none",
        "password of encrypted backups ([backups](../backup.md#encryption))",
        is_secret=True,
    ),
    Setting(
        "backup_folder",
        "PALIMPSEST_BACKUP_FOLDER",
        "none",
        "folder of nightly backups; none are made without it",
        "path",
        directs=True,
    ),
    Setting(
        "backups_kept",
        "PALIMPSEST_BACKUPS_KEPT",
        "7",
        "nightly backups of a home that stay",
        "whole",
        1,
        10_000,
    ),
    Setting(
        "log_days",
        "PALIMPSEST_LOG_DAYS",
        "30",
        "days for which files of the event log are kept ([operations](../operations.md#event-log))",
        "whole",
        1,
        3650,
    ),
    Setting(
        "log_mib",
        "PALIMPSEST_LOG_MIB",
        "64",
        "MiB of closed files of the event log that are kept, besides the open one",
        "whole",
        1,
        1 << 20,
    ),
    Setting(
        "run_days",
        "PALIMPSEST_RUN_DAYS",
        "365",
        "days after which `palimpsest housekeeping` removes runs of Dagster",
        "whole",
        1,
        36_500,
    ),
    Setting(
        "telemetry.endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "none",
        "OpenTelemetry collector that gets a span of each stage ([operations](../operations.md#metrics-and-spans)); "
        "needs the extra `telemetry`",
        directs=True,
    ),
    Setting(
        "telemetry.service_name",
        "OTEL_SERVICE_NAME",
        "`palimpsest`",
        "name of the service in those spans; the SDK's other variables count too",
    ),
)

SETTINGS: tuple[Setting, ...] = (
    *_GENERAL,
    *SERVICE,
    *EMBEDDER,
    *RELATIONS,
    *SEARCH,
    *LM,
    *BATCHES,
    *WEB,
    *SCHEDULE,
    *NEO4J,
)
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
