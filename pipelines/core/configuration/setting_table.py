"""The table of all settings: what `palimpsest config` shows, and what files may set."""

from palimpsest.core.configuration.setting import Setting

SECTIONS = {
    "": "General",
    "telemetry": "Telemetry",
    "service": "Service",
    "embedder": "Embedder",
    "lm": "Language model",
    "schedule": "Schedule",
    "neo4j": "Neo4j",
}
_JWT, _BOLT = "key of the service", "password of Neo4j"

_GENERAL = (
    Setting("home", "PALIMPSEST_HOME", "`data/home`", "home: the folder with everything that a build writes", "path"),
    Setting(
        "data",
        "PALIMPSEST_DATA",
        "`./data`",
        "folder of golden questions, baselines and relation programs; set it for a service that starts in another "
        "folder",
        "path",
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

_SERVICE = (
    Setting(
        "service.port",
        "PALIMPSEST_SERVE_PORT",
        "8765",
        "port of `palimpsest serve` and `palimpsest service start`; `0` means any free port",
        "whole",
        0,
        65_535,
    ),
    Setting(
        "service.jwt_secret",
        "PALIMPSEST_JWT_SECRET",
        "none",
        "secret of HS256 by which `palimpsest serve` verifies tokens, 32 bytes or more ([service](../service.md))",
        is_secret=True,
        alternatives=_JWT,
    ),
    Setting(
        "service.jwt_public_key",
        "PALIMPSEST_JWT_PUBLIC_KEY",
        "none",
        "PEM file with the public key of RS256, in place of the secret",
        "path",
        directs=True,
        alternatives=_JWT,
    ),
    Setting(
        "service.jwks_url",
        "PALIMPSEST_JWKS_URL",
        "none",
        "where the keys of RS256 are, over https, in place of both",
        directs=True,
        alternatives=_JWT,
    ),
    Setting(
        "service.jwt_issuer", "PALIMPSEST_JWT_ISSUER", "`palimpsest`", "`iss` that a token must have", directs=True
    ),
    Setting(
        "service.jwt_audience", "PALIMPSEST_JWT_AUDIENCE", "`palimpsest`", "`aud` that a token must name", directs=True
    ),
    Setting(
        "service.token",
        "PALIMPSEST_TOKEN",
        "none",
        "token of the user whose memories `palimpsest serve mcp` reads",
        is_secret=True,
    ),
    Setting(
        "service.shared",
        "PALIMPSEST_SERVE_SHARED",
        "none",
        "collections whose memories without an owner every caller may read, separated by commas",
        "names",
        directs=True,
    ),
    Setting("service.rpm", "PALIMPSEST_SERVE_RPM", "600", "requests a minute of one user", "whole", 1, 1_000_000),
    Setting(
        "service.failures_rpm",
        "PALIMPSEST_SERVE_FAILURES_RPM",
        "60",
        "requests a minute without a valid token, of one address",
        "whole",
        1,
        1_000_000,
    ),
    Setting("service.max_mib", "PALIMPSEST_SERVE_MAX_MIB", "32", "MiB of one request", "whole", 1, 4096),
    Setting("service.timeout_s", "PALIMPSEST_SERVE_TIMEOUT_S", "30", "seconds of one request", "whole", 1, 3600),
)

_EMBEDDER = (
    Setting(
        "embedder.name",
        "PALIMPSEST_EMBEDDER",
        "`minilm`",
        "embedder of homes that have none of their own ([embedders](../embedders.md))",
    ),
    Setting(
        "embedder.url",
        "PALIMPSEST_EMBEDDER_URL",
        "none",
        "OpenAI-compatible server of `openai:MODEL`, up to and with `/v1`",
        directs=True,
    ),
    Setting(
        "embedder.key",
        "PALIMPSEST_EMBEDDER_KEY",
        "none",
        "key sent with each request; never logged or stored",
        is_secret=True,
    ),
    Setting(
        "embedder.price",
        "PALIMPSEST_EMBEDDER_PRICE",
        "0",
        "price of a million tokens, for the cost in the record of the stage `embeddings`",
        "amount",
    ),
    Setting(
        "embedder.jars",
        "PALIMPSEST_EMBEDDER_JARS",
        "the user's cache folder",
        "folder of the jar with bge-small-en-v1.5",
        "path",
    ),
)

_LM = (
    Setting(
        "lm.labeler",
        "PALIMPSEST_LABELER",
        "`offline`",
        "labeler of relations: `offline`, `dspy` or `cascade`",
        "choice",
        choices=("offline", "dspy", "cascade"),
    ),
    Setting(
        "lm.server",
        "PALIMPSEST_LM",
        "none",
        "`MODEL@URL` of an OpenAI-compatible server, up to and with `/v1`",
        directs=True,
    ),
    Setting(
        "lm.key", "PALIMPSEST_LM_KEY", "none", "key sent with each request; never logged or stored", is_secret=True
    ),
    Setting(
        "lm.price",
        "PALIMPSEST_LM_PRICE",
        "`0,0`",
        "price of a million tokens read and written: `IN,OUT`; `--max-cost` needs it",
    ),
    Setting("lm.concurrency", "PALIMPSEST_LM_CONCURRENCY", "8", "requests at once", "whole", 1, 1000),
    Setting("lm.rpm", "PALIMPSEST_LM_RPM", "no limit", "requests per minute", "whole", 0, 1_000_000),
    Setting("lm.timeout_s", "PALIMPSEST_LM_TIMEOUT", "60", "seconds for one request", "amount"),
    Setting(
        "lm.attempts", "PALIMPSEST_LM_ATTEMPTS", "6", "attempts for one answer, the first included", "whole", 1, 100
    ),
    Setting(
        "lm.format",
        "PALIMPSEST_LM_FORMAT",
        "`text`",
        "form of an answer: `text`, or JSON that the server keeps to a schema, `json_object` or `json_schema` by what "
        "it knows ([local model](../local-model.md))",
        "choice",
        choices=("text", "json_object", "json_schema"),
    ),
    Setting(
        "lm.reranker",
        "PALIMPSEST_RERANKER",
        "none",
        "reads the best 30 candidates of each search: `lm` for the model of `PALIMPSEST_LM`, else the folder or the "
        "name of a cross-encoder",
    ),
    Setting(
        "lm.reranker_max_cost",
        "PALIMPSEST_RERANKER_MAX_COST",
        "no limit",
        "what the reranker's calls of a language model may cost in one process",
        "amount",
    ),
    Setting(
        "lm.compressor",
        "PALIMPSEST_COMPRESSOR",
        "none",
        '`lm` lets searches with `compress="lm"` have the model of `PALIMPSEST_LM` pick the sentences of long results',
        "choice",
        choices=("lm",),
    ),
    Setting(
        "lm.compressor_max_cost",
        "PALIMPSEST_COMPRESSOR_MAX_COST",
        "no limit",
        "what those calls may cost in one process",
        "amount",
    ),
    Setting(
        "lm.summary_max_cost",
        "PALIMPSEST_SUMMARY_MAX_COST",
        "no limit",
        "what abstractive summaries may cost in one process",
        "amount",
    ),
)

_SCHEDULE = (
    Setting(
        "schedule.automation",
        "PALIMPSEST_AUTOMATION",
        "`on`",
        "`off`: the schedule and the folder sensor start stopped",
        "switch",
    ),
    Setting("schedule.nightly", "PALIMPSEST_SCHEDULE", "`0 3 * * *`", "cron expression of the nightly build"),
    Setting(
        "schedule.weekly",
        "PALIMPSEST_WEEKLY_SCHEDULE",
        "`0 4 * * 0`",
        "cron expression of the weekly evaluation, which is off until it is started",
    ),
    Setting("schedule.timezone", "PALIMPSEST_TIMEZONE", "the machine's", "IANA name, such as `Europe/Berlin`"),
    Setting(
        "schedule.alert_url",
        "PALIMPSEST_ALERT_URL",
        "none",
        "webhook called when the gate closes, a build fails or is overdue ([operations](../operations.md#alerts))",
        is_secret=True,
    ),
    Setting(
        "schedule.overdue_hours",
        "PALIMPSEST_OVERDUE_HOURS",
        "26",
        "hours after which a published build that no run has confirmed is overdue",
        "whole",
        1,
        8_760,
    ),
)

_NEO4J = (
    Setting(
        "neo4j.uri",
        "NEO4J_URI",
        "the local server",
        "Bolt address of another server; an address that contains a password is refused",
        directs=True,
    ),
    Setting("neo4j.user", "NEO4J_USER", "`neo4j`", "its user"),
    Setting("neo4j.password", "NEO4J_PASSWORD", "none", "its password", is_secret=True, alternatives=_BOLT),
    Setting(
        "neo4j.password_file",
        "NEO4J_PASSWORD_FILE",
        "none",
        "file with the password, instead of the variable",
        "path",
        directs=True,
        alternatives=_BOLT,
    ),
    Setting("neo4j.database", "NEO4J_DATABASE", "the server's default", "database on that server"),
    Setting(
        "neo4j.home",
        "PALIMPSEST_NEO4J_HOME",
        "the user's data folder",
        "folder of the local server",
        "path",
        directs=True,
    ),
    Setting("neo4j.jars", "PALIMPSEST_NEO4J_JARS", "the user's cache folder", "folder of the server's jars", "path"),
    Setting(
        "neo4j.rpm",
        "PALIMPSEST_NEO4J_RPM",
        "no limit",
        "requests per minute of loads and deletes, spread evenly; queries are not limited",
        "whole",
        0,
        1_000_000,
    ),
    Setting("neo4j.heap", "PALIMPSEST_NEO4J_HEAP", "`1g`", "Java heap of the local server"),
    Setting("neo4j.pagecache", "PALIMPSEST_NEO4J_PAGECACHE", "`512m`", "page cache of the local server"),
    Setting(
        "neo4j.maven",
        "PALIMPSEST_MAVEN",
        "Maven Central",
        "repository, or folder, that the jars of Neo4j and of bge-small-en-v1.5 are fetched from",
        directs=True,
    ),
)

SETTINGS: tuple[Setting, ...] = (*_GENERAL, *_SERVICE, *_EMBEDDER, *_LM, *_SCHEDULE, *_NEO4J)
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
