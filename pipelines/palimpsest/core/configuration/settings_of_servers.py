"""Settings of the service, of the schedule and of Neo4j."""

from palimpsest.core.configuration.setting import Setting

MIN_SECRET_BYTES = 32
"""Of the secret of HS256: a shorter one could be guessed from a token."""
_JWT, _BOLT = "key of the service", "password of Neo4j"

SERVICE = (
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
        f"secret of HS256 by which `palimpsest serve` verifies tokens, {MIN_SECRET_BYTES} bytes or more "
        "([service](../service.md))",
        lowest=MIN_SECRET_BYTES,
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
    Setting(
        "service.mcp_tools",
        "PALIMPSEST_MCP_TOOLS",
        "`common`",
        "tools of agents: `common`, or `all` with those for files, pages, documents and collections",
        "choice",
        choices=("common", "all"),
    ),
    Setting(
        "service.page_jars",
        "PALIMPSEST_PAGE_JARS",
        "the user's cache folder",
        "folder of the jar with the library that draws the page's graph",
        "path",
    ),
)

WEB = (
    Setting(
        "web.allow_private",
        "PALIMPSEST_WEB_ALLOW_PRIVATE",
        "none",
        "hosts, addresses and networks of an intranet that crawls may read, separated by commas "
        "([the web](../web.md#what-is-not-requested))",
        "names",
        directs=True,
    ),
    Setting(
        "web.common_crawl_url",
        "PALIMPSEST_COMMON_CRAWL_URL",
        "`https://index.commoncrawl.org/`",
        "index that `analyze --common-crawl` queries",
        directs=True,
    ),
    Setting(
        "web.chromium",
        "PALIMPSEST_CHROMIUM",
        "the first of the search path",
        "Chromium that draws pages for `--render`",
        "path",
        directs=True,
    ),
)

SCHEDULE = (
    Setting(
        "schedule.automation",
        "PALIMPSEST_AUTOMATION",
        "`on`",
        "`off`: the schedules and the folder sensor start stopped",
        "switch",
    ),
    Setting("schedule.nightly", "PALIMPSEST_SCHEDULE", "`0 3 * * *`", "cron expression of the nightly build", "cron"),
    Setting(
        "schedule.weekly",
        "PALIMPSEST_WEEKLY_SCHEDULE",
        "`0 4 * * 0`",
        "cron expression of the weekly evaluation, which is off until it is started",
        "cron",
    ),
    Setting("schedule.timezone", "PALIMPSEST_TIMEZONE", "the machine's", "IANA name, such as `Europe/Berlin`", "zone"),
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
    Setting(
        "schedule.executor",
        "PALIMPSEST_EXECUTOR",
        "`in_process`",
        "what runs the steps of jobs that Dagster starts: `in_process`, `multiprocess`, `celery` or `k8s` "
        "([Dagster](../dagster.md#executors))",
        "choice",
        choices=("in_process", "multiprocess", "celery", "k8s"),
    ),
    Setting(
        "schedule.celery_broker",
        "PALIMPSEST_CELERY_BROKER",
        "none",
        "URL of the broker of the Celery workers, with its password ([Dagster](../dagster.md#celery))",
        is_secret=True,
    ),
    Setting(
        "schedule.executor_processes",
        "PALIMPSEST_EXECUTOR_PROCESSES",
        "2",
        "processes of steps at once with `multiprocess`",
        "whole",
        1,
        64,
    ),
    Setting(
        "schedule.first_month",
        "PALIMPSEST_FIRST_MONTH",
        "`2015-01`",
        "first month that `month_figures` has partitions of ([Dagster](../dagster.md#months))",
    ),
    Setting(
        "schedule.pool_embedder",
        "PALIMPSEST_POOL_EMBEDDER",
        "1",
        "runs of Dagster at once that embed ([Dagster](../dagster.md#pools))",
        "whole",
        1,
        64,
    ),
    Setting("schedule.pool_lm", "PALIMPSEST_POOL_LM", "1", "runs at once that may call a model", "whole", 1, 64),
    Setting("schedule.pool_neo4j", "PALIMPSEST_POOL_NEO4J", "1", "runs at once that load Neo4j", "whole", 1, 64),
)

NEO4J = (
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
    Setting("neo4j.heap", "PALIMPSEST_NEO4J_HEAP", "`1g`", "Java heap of the local server", "bytes"),
    Setting("neo4j.pagecache", "PALIMPSEST_NEO4J_PAGECACHE", "`512m`", "page cache of the local server", "bytes"),
    Setting(
        "neo4j.maven",
        "PALIMPSEST_MAVEN",
        "Maven Central",
        "repository, or folder, that the jars of Neo4j and of bge-small-en-v1.5 are fetched from",
        directs=True,
    ),
)
