"""The table of all settings: what `palimpsest config` shows, and what files may set."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from palimpsest.core.times import is_cron, is_time_zone

# One setting: its names, the type of its value, and what a file may say of it.

Kind = Literal["text", "path", "whole", "amount", "switch", "names", "choice", "cron", "zone", "bytes", "prices"]
_MAX_CHARS = 4096
_EXAMPLES = {
    "text": "a text in quotes",
    "path": "a path in quotes",
    "amount": "a number of 0 or more",
    "switch": "true or false",
    "names": 'a list such as ["a", "b"]',
    "cron": "a cron expression of five fields, such as '0 3 * * *'",
    "zone": "the IANA name of a time zone, such as 'Europe/Berlin'",
    "bytes": "a number with k, m or g, such as '2g'",
    "prices": "two numbers in quotes, such as '0.15,0.6'",
}
_PATTERNS = {
    "bytes": re.compile(r"[1-9][0-9]{0,8}[kmgKMG]"),
    "prices": re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\s*,\s*[0-9]{1,9}(?:\.[0-9]{1,9})?"),
}


@dataclass(frozen=True)
class Setting:
    """A row of the table of settings.

    Attributes:
        key: its name in files: `section.name`, or a name alone.
        variable: the environment variable.
        default: what counts where no layer sets it, as the table shows it.
        kind: the type of its value.
        lowest: of a whole number; of a text its bytes.
        highest: of a whole number.
        choices: the words of a choice.
        words: what the variable is for true and for false.
        is_secret: it is never shown, and a project file may not have it.
        directs: it decides where texts or keys are sent, which model is loaded (its folder may have code) or whose word
            is taken; from a project file it counts only where the user trusts that file.
        alternatives: name of a group of which one counts: a layer that sets one hides the others of layers below it.
        description: what it is, in Markdown; links are relative to docs/reference.
    """

    key: str
    variable: str
    default: str = "none"
    kind: Kind = "text"
    lowest: int = 0
    highest: int = 0
    choices: tuple[str, ...] = ()
    words: tuple[str, str] = ("on", "off")
    is_secret: bool = False
    directs: bool = False
    alternatives: str = ""
    description: str = ""

    @property
    def section(self) -> str:
        """The section of a file that it is in; "" for none."""
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name inside the section."""
        return self.key.rpartition(".")[2]

    @property
    def wanted(self) -> str:
        """What a value in a file must be."""
        if self.kind == "whole":
            return f"a whole number from {self.lowest:,} to {self.highest:,}"
        if self.kind == "text" and self.lowest:
            return f"a text of {self.lowest} bytes or more, such as of `openssl rand -hex {self.lowest}`"
        if self.kind == "choice":
            return f"one of {', '.join(map(repr, self.choices))}"
        return _EXAMPLES[self.kind]

    def to_variable(self, value: object, folder: Path) -> str:
        """Returns what the environment variable is for a value in a file.

        Args:
            value: as TOML has it.
            folder: of the file: relative paths are relative to it.

        Raises:
            ValueError: the value is of another type, or outside its range; the message says what it must be.
        """
        if not self._is_valid(value):
            raise ValueError(f"must be {self.wanted}")
        if isinstance(value, bool):
            return self.words[0] if value else self.words[1]
        text = ",".join(value) if isinstance(value, list) else str(value)
        if len(text) > _MAX_CHARS or not text.isprintable():
            raise ValueError(f"must have {_MAX_CHARS:,} printable characters at most")
        is_path = self.kind == "path" and "://" not in text  # a home may be the URL of a bucket
        return str(folder.absolute() / Path(text).expanduser()) if is_path else text

    def from_text(self, text: str) -> str | int | float | bool | list[str]:
        """Returns the value for a file that is meant by a text on the command line.

        Raises:
            ValueError: the text is no such value; the message says what it must be.
        """
        value: str | int | float | bool | list[str] = text
        try:
            if self.kind == "whole":
                value = int(text)
            elif self.kind == "amount":
                value = float(text)
        except ValueError:
            raise ValueError(f"must be {self.wanted}") from None
        if self.kind == "switch":
            value = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}.get(text, text)
        elif self.kind == "names":
            value = [name.strip() for name in text.split(",") if name.strip()]
        self.to_variable(value, Path())
        return value

    def _is_valid(self, value: object) -> bool:
        if self.kind == "switch":
            return isinstance(value, bool)
        if isinstance(value, bool):
            return False
        if self.kind == "whole":
            return isinstance(value, int) and self.lowest <= value <= self.highest
        if self.kind == "amount":
            return isinstance(value, int | float) and math.isfinite(value) and value >= 0
        if self.kind == "names":
            return isinstance(value, list) and all(isinstance(n, str) and n.strip() and "," not in n for n in value)
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if not isinstance(value, str) or not value.strip():
            return False
        if self.kind in _PATTERNS:
            return _PATTERNS[self.kind].fullmatch(value) is not None
        if self.kind == "cron":
            return is_cron(value)
        return is_time_zone(value) if self.kind == "zone" else len(value.encode()) >= self.lowest


# The table.

MIN_SECRET_BYTES = 32
"""Of the secret of HS256: a shorter one could be guessed from a token."""
_JWT, _BOLT = "key of the service", "password of Neo4j"
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

_TABLE: dict[Setting, str] = {
    # General.
    Setting("home", "PALIMPSEST_HOME", "`data/home`", "path"): "home: the folder with everything that a build writes",
    Setting("data", "PALIMPSEST_DATA", "`./data`", "path", directs=True): (
        "folder of golden questions, baselines and relation programs; set it for a service that starts in another "
        "folder"
    ),
    Setting("cache", "PALIMPSEST_CACHE", "the user's cache folder", "path"): "folder of the cache of suites",
    Setting("suites", "PALIMPSEST_SUITES", kind="path"): (
        "folder of suites: each is a partition of the asset `suite_metrics`, and `make suites` measures them"
    ),
    Setting("backend", "PALIMPSEST_BACKEND", "`duckdb`", "choice", choices=("duckdb", "neo4j")): (
        "where queries are answered, of commands without `--backend`: `duckdb` or `neo4j`"
    ),
    Setting("debug", "PALIMPSEST_DEBUG", "off", "switch", words=("1", "")): (
        "`1`: an unexpected error shows its traceback"
    ),
    Setting("lease_seconds", "PALIMPSEST_LEASE_S", "60", "whole", 1, 3600): (
        "seconds after which a builder of a home on object storage that was stopped is no longer waited for "
        "([object storage](../object-storage.md))"
    ),
    Setting("usage_days", "PALIMPSEST_USAGE_DAYS", "90", "whole", 0, 3650): (
        "days for which reads of memories are kept, for `--accessed-within`; `0` counts none "
        "([privacy](../privacy.md#usage-log))"
    ),
    Setting("backup_password", "PALIMPSEST_BACKUP_PASSWORD", is_secret=True): (
        "password of encrypted backups ([backups](../backup.md#encryption))"
    ),
    Setting("backup_folder", "PALIMPSEST_BACKUP_FOLDER", kind="path", directs=True): (
        "folder of nightly backups; none are made without it"
    ),
    Setting("backups_kept", "PALIMPSEST_BACKUPS_KEPT", "7", "whole", 1, 10_000): (
        "nightly backups of a home that stay"
    ),
    Setting("log_days", "PALIMPSEST_LOG_DAYS", "30", "whole", 1, 3650): (
        "days for which files of the event log are kept ([operations](../operations.md#event-log))"
    ),
    Setting("log_mib", "PALIMPSEST_LOG_MIB", "64", "whole", 1, 1 << 20): (
        "MiB of closed files of the event log that are kept, besides the open one"
    ),
    Setting("run_days", "PALIMPSEST_RUN_DAYS", "365", "whole", 1, 36_500): (
        "days after which `palimpsest housekeeping` removes runs of Dagster"
    ),
    Setting("telemetry.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", directs=True): (
        "OpenTelemetry collector that gets a span of each stage ([operations](../operations.md#metrics-and-spans)); "
        "needs the extra `telemetry`"
    ),
    Setting("telemetry.service_name", "OTEL_SERVICE_NAME", "`palimpsest`"): (
        "name of the service in those spans; the SDK's other variables count too"
    ),
    # The service.
    Setting("service.port", "PALIMPSEST_SERVE_PORT", "8765", "whole", 0, 65_535): (
        "port of `palimpsest serve` and `palimpsest service start`; `0` means any free port"
    ),
    Setting("service.build_every", "PALIMPSEST_SERVE_BUILD_EVERY", "10", "amount"): (
        "minutes between builds by the service of what was sent or changed; `0` never, as where other machines build "
        "([service](../service.md#builds))"
    ),
    Setting(
        "service.jwt_secret", "PALIMPSEST_JWT_SECRET", lowest=MIN_SECRET_BYTES, is_secret=True, alternatives=_JWT
    ): (
        f"secret of HS256 by which `palimpsest serve` verifies tokens, {MIN_SECRET_BYTES} bytes or more "
        "([service](../service.md))"
    ),
    Setting("service.jwt_public_key", "PALIMPSEST_JWT_PUBLIC_KEY", kind="path", directs=True, alternatives=_JWT): (
        "PEM file with the public key of RS256, in place of the secret"
    ),
    Setting("service.jwks_url", "PALIMPSEST_JWKS_URL", directs=True, alternatives=_JWT): (
        "where the keys of RS256 are, over https, in place of both"
    ),
    Setting("service.jwt_issuer", "PALIMPSEST_JWT_ISSUER", "`palimpsest`", directs=True): (
        "`iss` that a token must have"
    ),
    Setting(
        "service.jwt_audience",
        "PALIMPSEST_JWT_AUDIENCE",
        "`palimpsest`, or `PALIMPSEST_SERVE_URL` with `/mcp`",
        directs=True,
    ): ("`aud` that a token must name"),
    Setting("service.token", "PALIMPSEST_TOKEN", is_secret=True): (
        "token of the user whose memories `palimpsest serve mcp` reads"
    ),
    Setting("service.shared", "PALIMPSEST_SERVE_SHARED", kind="names", directs=True): (
        "collections whose memories without an owner every caller may read, separated by commas"
    ),
    Setting("service.rpm", "PALIMPSEST_SERVE_RPM", "600", "whole", 1, 1_000_000): "requests a minute of one user",
    Setting("service.failures_rpm", "PALIMPSEST_SERVE_FAILURES_RPM", "60", "whole", 1, 1_000_000): (
        "requests a minute without a valid token, of one address"
    ),
    Setting("service.max_mib", "PALIMPSEST_SERVE_MAX_MIB", "32", "whole", 1, 4096): "MiB of one request",
    Setting("service.timeout_s", "PALIMPSEST_SERVE_TIMEOUT_S", "30", "whole", 1, 3600): "seconds of one request",
    Setting("service.mcp_tools", "PALIMPSEST_MCP_TOOLS", "`common`", "choice", choices=("common", "all")): (
        "tools of agents: `common`, or `all` with those for files, pages, documents and collections"
    ),
    Setting("service.url", "PALIMPSEST_SERVE_URL", directs=True): (
        "where callers reach the service, such as `https://memory.example.com`: clients of MCP then find the identity "
        "provider, whose address `PALIMPSEST_JWT_ISSUER` is"
    ),
    Setting("service.page_jars", "PALIMPSEST_PAGE_JARS", "the user's cache folder", "path"): (
        "folder of the jar with the library that draws the page's graph"
    ),
    # The embedder.
    Setting("embedder.name", "PALIMPSEST_EMBEDDER", "`minilm`", directs=True): (
        "embedder of homes that have none of their own ([embedders](../embedders.md))"
    ),
    Setting("embedder.url", "PALIMPSEST_EMBEDDER_URL", directs=True): (
        "OpenAI-compatible server of `openai:MODEL`, up to and with `/v1`"
    ),
    Setting("embedder.key", "PALIMPSEST_EMBEDDER_KEY", is_secret=True): (
        "key sent with each request; never logged or stored"
    ),
    Setting("embedder.price", "PALIMPSEST_EMBEDDER_PRICE", "0", "amount"): (
        "price of a million tokens, for the cost in the record of the stage `embeddings`"
    ),
    Setting("embedder.jars", "PALIMPSEST_EMBEDDER_JARS", "the user's cache folder", "path"): (
        "folder of the jar with bge-small-en-v1.5"
    ),
    # Relations.
    Setting(
        "relations.changes", "PALIMPSEST_CHANGES", "`balanced`", "choice", choices=("careful", "balanced", "eager")
    ): (
        "how readily a build says that a newer memory ends an older one: `careful`, `balanced` or `eager`; the measured"
        " rates of wrong ones are in [figures](../figures.md#changes-in-plain-words)"
    ),
    # Searches.
    Setting("search.min_relevance", "PALIMPSEST_MIN_RELEVANCE", "1", "whole", 0, 100): (
        "chance in per cent that a result is evidence for its question, from which a search returns it, where it has a"
        " share of .03 of the best one's; the best is returned in any case, and 0 returns as many as were wanted"
    ),
    # Language models.
    Setting(
        "lm.labeler", "PALIMPSEST_LABELER", "`offline`", "choice", choices=("offline", "dspy", "cascade"), directs=True
    ): ("labeler of relations: `offline`, `dspy` or `cascade`"),
    Setting("lm.server", "PALIMPSEST_LM", directs=True): (
        "`MODEL@URL` of an OpenAI-compatible server, up to and with `/v1`, or `PROVIDER/MODEL` of LiteLLM, such as"
        " `anthropic/claude-sonnet-4-5`; a provider's own variables name its key and address. Or a"
        " [local model](../local-model.md): `local`, `local:0.5b`, `local:` and the path of a GGUF file"
    ),
    Setting("lm.key", "PALIMPSEST_LM_KEY", is_secret=True): (
        "key sent with each request, instead of a provider's own variable; never logged or stored"
    ),
    Setting("lm.price", "PALIMPSEST_LM_PRICE", "`0,0`", "prices"): (
        "price of a million tokens read and written: `IN,OUT`; `--max-cost` needs one and is in its currency; models of"
        " providers have LiteLLM's prices, in US dollars"
    ),
    Setting("lm.concurrency", "PALIMPSEST_LM_CONCURRENCY", "8", "whole", 1, 1000): (
        "requests at once; 1 for a local model"
    ),
    Setting("lm.rpm", "PALIMPSEST_LM_RPM", "no limit", "whole", 0, 1_000_000): "requests per minute",
    Setting("lm.timeout_s", "PALIMPSEST_LM_TIMEOUT", "60", "amount"): (
        "seconds for one request; 1800 for a local model"
    ),
    Setting("lm.attempts", "PALIMPSEST_LM_ATTEMPTS", "6", "whole", 1, 100): (
        "attempts for one answer, the first included; 1 for a local model"
    ),
    Setting("lm.max_tokens", "PALIMPSEST_LM_MAX_TOKENS", "300", "whole", 1, 1_000_000): (
        "tokens of an answer, reasoning included; a model that reasons needs thousands, steps with long answers have up"
        " to 2400 of their own"
    ),
    Setting("lm.format", "PALIMPSEST_LM_FORMAT", "`text`", "choice", choices=("text", "json_object", "json_schema")): (
        "form of an answer: `text`, or JSON that the server keeps to a schema, `json_object` or `json_schema` by what "
        "it knows ([local model](../local-model.md)); unless it is set, `json_schema` of a provider, `json_object` of a"
        " local model"
    ),
    Setting("lm.reranker", "PALIMPSEST_RERANKER", "`answers`", directs=True): (
        "reads the best candidates of each search: `answers`, the model that is shipped, of eight; `lm`, the model of "
        "`PALIMPSEST_LM`, or the folder or name of a cross-encoder, of 30; `none` ranks by scores alone"
    ),
    Setting("lm.reranker_max_cost", "PALIMPSEST_RERANKER_MAX_COST", "no limit", "amount"): (
        "what the reranker's calls of a language model may cost in one process"
    ),
    Setting("lm.compressor", "PALIMPSEST_COMPRESSOR", kind="choice", choices=("lm",)): (
        '`lm` lets searches with `compress="lm"` have the model of `PALIMPSEST_LM` pick the sentences of long results'
    ),
    Setting("lm.compressor_max_cost", "PALIMPSEST_COMPRESSOR_MAX_COST", "no limit", "amount"): (
        "what those calls may cost in one process"
    ),
    Setting("lm.summary_max_cost", "PALIMPSEST_SUMMARY_MAX_COST", "no limit", "amount"): (
        "what abstractive summaries may cost in one process"
    ),
    # Where batches are computed.
    Setting("batches.runner", "PALIMPSEST_BATCHES", "`local`", "choice", choices=("local", "ray"), directs=True): (
        "where texts are embedded and pairs are labelled: `local`, in the process of the build, or `ray`, on a cluster "
        "([scale](../scale.md)); needs the extra `ray`"
    ),
    Setting("batches.ray_address", "RAY_ADDRESS", "a Ray of this machine, as long as the build", directs=True): (
        "`HOST:PORT` of a Ray cluster that this machine is a node of, or `auto`"
    ),
    # The web.
    Setting("web.allow_private", "PALIMPSEST_WEB_ALLOW_PRIVATE", kind="names", directs=True): (
        "hosts, addresses and networks of an intranet that crawls may read, separated by commas "
        "([the web](../web.md#what-is-not-requested))"
    ),
    Setting("web.common_crawl_url", "PALIMPSEST_COMMON_CRAWL_URL", "`https://index.commoncrawl.org/`", directs=True): (
        "index that `analyze --common-crawl` queries"
    ),
    Setting("web.chromium", "PALIMPSEST_CHROMIUM", "the first of the search path", "path", directs=True): (
        "Chromium that draws pages for `--render`"
    ),
    # The schedule.
    Setting("schedule.automation", "PALIMPSEST_AUTOMATION", "`on`", "switch"): (
        "`off`: the schedules and the folder sensor start stopped"
    ),
    Setting("schedule.nightly", "PALIMPSEST_SCHEDULE", "`0 3 * * *`", "cron"): "cron expression of the nightly build",
    Setting("schedule.consolidate", "PALIMPSEST_CONSOLIDATE", "`nightly`", "choice", choices=("nightly", "always")): (
        "`always`: every build that publishes something is followed by [consolidation](../consolidation.md), not only "
        "that of the night"
    ),
    Setting("schedule.weekly", "PALIMPSEST_WEEKLY_SCHEDULE", "`0 4 * * 0`", "cron"): (
        "cron expression of the weekly evaluation, which is off until it is started"
    ),
    Setting("schedule.timezone", "PALIMPSEST_TIMEZONE", "the machine's", "zone"): (
        "IANA name, such as `Europe/Berlin`"
    ),
    Setting("schedule.alert_url", "PALIMPSEST_ALERT_URL", is_secret=True): (
        "webhook called when the gate closes, a collection cannot be read, a build fails or is overdue "
        "([operations](../operations.md#alerts))"
    ),
    Setting("schedule.alert_format", "PALIMPSEST_ALERT_FORMAT", "`json`", "choice", choices=("json", "slack")): (
        "what the webhook gets: `slack` sends the text alone, as chat programs take it"
    ),
    Setting("schedule.alert_mail", "PALIMPSEST_ALERT_MAIL", directs=True): (
        "mail addresses that get the same alerts, separated by commas"
    ),
    Setting("schedule.alert_smtp", "PALIMPSEST_ALERT_SMTP", "`smtp://localhost`", is_secret=True): (
        "the mail server: `smtp://host:587`, with TLS where it offers it or a user is named, or "
        "`smtps://user:password@host`"
    ),
    Setting("schedule.overdue_hours", "PALIMPSEST_OVERDUE_HOURS", "26", "whole", 1, 8_760): (
        "hours after which a published build that no run has confirmed is overdue"
    ),
    Setting(
        "schedule.executor",
        "PALIMPSEST_EXECUTOR",
        "`in_process`",
        "choice",
        choices=("in_process", "multiprocess", "k8s"),
    ): (
        "what runs the steps of jobs that Dagster starts: `in_process`, `multiprocess` or `k8s` "
        "([Dagster](../dagster.md#executors))"
    ),
    Setting("schedule.executor_processes", "PALIMPSEST_EXECUTOR_PROCESSES", "2", "whole", 1, 64): (
        "processes of steps at once with `multiprocess`"
    ),
    Setting("schedule.pool_embedder", "PALIMPSEST_POOL_EMBEDDER", "1", "whole", 1, 64): (
        "runs of Dagster at once that embed ([Dagster](../dagster.md#pools))"
    ),
    Setting("schedule.pool_lm", "PALIMPSEST_POOL_LM", "1", "whole", 1, 64): "runs at once that may call a model",
    Setting("schedule.pool_neo4j", "PALIMPSEST_POOL_NEO4J", "1", "whole", 1, 64): "runs at once that load Neo4j",
    # Neo4j.
    Setting("neo4j.uri", "NEO4J_URI", "the local server", directs=True): (
        "Bolt address of another server; an address that contains a password is refused"
    ),
    Setting("neo4j.user", "NEO4J_USER", "`neo4j`"): "its user",
    Setting("neo4j.password", "NEO4J_PASSWORD", is_secret=True, alternatives=_BOLT): "its password",
    Setting("neo4j.password_file", "NEO4J_PASSWORD_FILE", kind="path", directs=True, alternatives=_BOLT): (
        "file with the password, instead of the variable"
    ),
    Setting("neo4j.database", "NEO4J_DATABASE", "the server's default"): "database on that server",
    Setting("neo4j.home", "PALIMPSEST_NEO4J_HOME", "the user's data folder", "path", directs=True): (
        "folder of the local server"
    ),
    Setting("neo4j.jars", "PALIMPSEST_NEO4J_JARS", "the user's cache folder", "path"): "folder of the server's jars",
    Setting("neo4j.rpm", "PALIMPSEST_NEO4J_RPM", "no limit", "whole", 0, 1_000_000): (
        "requests per minute of loads and deletes, spread evenly; queries are not limited"
    ),
    Setting("neo4j.heap", "PALIMPSEST_NEO4J_HEAP", "`1g`", "bytes"): "Java heap of the local server",
    Setting("neo4j.pagecache", "PALIMPSEST_NEO4J_PAGECACHE", "`512m`", "bytes"): "page cache of the local server",
    Setting("neo4j.maven", "PALIMPSEST_MAVEN", "Maven Central", directs=True): (
        "repository, or folder, that the jars of Neo4j and of bge-small-en-v1.5 are fetched from"
    ),
}

SETTINGS = tuple(replace(setting, description=description) for setting, description in _TABLE.items())
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
