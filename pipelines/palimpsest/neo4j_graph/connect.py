"""The connection: which server and user, and once per driver whether that server can do what is needed."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import neo4j
from neo4j.exceptions import AuthError, ClientError, ConfigurationError, DriverError, Neo4jError

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.lm.client import RateLimiter
from palimpsest.neo4j_graph.cypher import COMPONENTS, PROBE_CYPHER_25, PROBE_INDEX, PROBE_SEARCH
from palimpsest.neo4j_graph.local_server import USER, checked_uri, server_status, server_url
from palimpsest.neo4j_graph.model import DIMENSIONS

_REQUIRED = "Neo4j 2026.01 or later (Community is enough)"
_POOL_SIZE = 32
_MAX_TRIES = 4
RPM_VARIABLE = "PALIMPSEST_NEO4J_RPM"
"""Requests per minute of loads and deletes; 0 means no limit."""
RETRY_S = 10.0  # how long the driver retries, with back-off, after a transient error


CypherParameters: TypeAlias = Mapping[str, object]
"""Values of a statement's parameters, by name, in types that the driver takes."""


@dataclass(frozen=True)
class Capabilities:
    """What a server reports of itself."""

    version: str
    edition: str
    cypher: tuple[str, ...]


class Connection:
    """A driver that was probed. Safe to share between threads."""

    def __init__(self, driver: neo4j.Driver, database: str | None, capabilities: Capabilities, uri: str):
        """Makes a connection; writes and the statements of a load wait for `rate_limiter`, and queries do not.

        Raises:
            PalimpsestError: PALIMPSEST_NEO4J_RPM is no whole number.
        """
        self.driver, self.database, self.capabilities, self.uri = driver, database, capabilities, uri
        self.rate_limiter = RateLimiter(whole_number(RPM_VARIABLE))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection of the pool."""
        self.driver.close()

    def session(self, fetch_size: int = 1000) -> neo4j.Session:
        """Returns a session on the database that fetches `fetch_size` records at a time."""
        return self.driver.session(database=self.database, fetch_size=fetch_size)

    def read(self, statement: str, **parameters: object) -> list[neo4j.Record]:
        """Runs a read, retried on transient errors, and returns its records."""
        return self._execute(statement, parameters, neo4j.RoutingControl.READ)

    def query(self, statement: str, parameters: CypherParameters) -> list[neo4j.Record]:
        """Runs a read and returns its records; retried on transient errors.

        One round trip: `read`, in a transaction, takes another.

        Raises:
            PalimpsestError: the server refuses the password, or the address is wrong.
            ComponentFailed: the server does not answer, or failed.
        """  # noqa: DOC501 (plain_errors converts the driver's errors; the last line is never reached)
        with plain_errors(self.uri):
            for attempt in range(_MAX_TRIES):
                try:
                    with self.driver.session(database=self.database, default_access_mode=neo4j.READ_ACCESS) as session:
                        return list(session.run(statement, dict(parameters)))
                except (Neo4jError, DriverError) as e:
                    if attempt == _MAX_TRIES - 1 or not e.is_retryable():
                        raise
                    time.sleep(0.1 * 2**attempt)
        raise AssertionError

    def write(self, statement: str, **parameters: object) -> list[neo4j.Record]:
        """Runs a write in one transaction, retried on transient errors, and returns its records."""
        self.rate_limiter.wait()
        return self._execute(statement, parameters, neo4j.RoutingControl.WRITE)

    def ddl(self, statement: str) -> None:
        """Runs a statement that changes the schema."""
        self.write(statement)

    def _execute(
        self, statement: str, parameters: dict[str, object], routing: neo4j.RoutingControl
    ) -> list[neo4j.Record]:
        with plain_errors(self.uri):
            return self.driver.execute_query(statement, parameters, database_=self.database, routing_=routing).records


@contextmanager
def plain_errors(uri: str) -> Iterator[None]:
    """Turns errors of the driver into one line that names the fix.

    Raises:
        PalimpsestError: the server refuses the password, or NEO4J_URI is wrong.
        ComponentFailed: the server does not answer, or failed.
    """
    try:
        yield
    except AuthError:
        raise PalimpsestError(f"neo4j: {uri} refuses user or password; set NEO4J_USER and NEO4J_PASSWORD") from None
    except ConfigurationError as e:
        raise PalimpsestError(f"neo4j: NEO4J_URI {uri}: {e}") from None
    except Neo4jError as e:
        raise ComponentFailed(f"neo4j: {e.code}: {' '.join((e.message or '').split())[:200]}; run again") from e
    except (DriverError, OSError) as e:
        raise ComponentFailed(
            f"neo4j: no answer from {uri} ({type(e).__name__}); run palimpsest neo4j start, or set NEO4J_URI"
        ) from e


def connect(uri: str | None = None, user: str | None = None, password: str | None = None) -> Connection:
    """Returns a probed connection: to the arguments, else NEO4J_URI/NEO4J_USER/NEO4J_PASSWORD, else the local server.

    Raises:
        PalimpsestError: there is no server, it refuses the password, or it cannot do what is needed.
        ComponentFailed: it does not answer.
    """
    logging.getLogger("neo4j").addHandler(logging.NullHandler())  # each retry is a warning otherwise
    uri = checked_uri(uri) if uri else server_url()
    user = user or os.environ.get("NEO4J_USER") or USER
    password = password or os.environ.get("NEO4J_PASSWORD") or _read_password(uri)
    try:
        driver = neo4j.GraphDatabase.driver(
            uri,
            auth=(user, password),
            notifications_min_severity="OFF",
            max_connection_pool_size=_POOL_SIZE,
            connection_timeout=10,
            max_transaction_retry_time=RETRY_S,
            user_agent="palimpsest",
        )
    except (ConfigurationError, ValueError) as e:
        raise PalimpsestError(f"neo4j: NEO4J_URI {uri}: {e}") from None
    try:
        database = os.environ.get("NEO4J_DATABASE") or None
        return Connection(driver, database, probe(driver, database, uri), uri)
    except BaseException:
        driver.close()
        raise


def probe(driver: neo4j.Driver, database: str | None, uri: str) -> Capabilities:
    """Returns version and edition of a server that has Cypher 25 and filtered vector search.

    Raises:
        PalimpsestError: one of them is missing; the message names what to install.
        ComponentFailed: nothing answers at the address.
    """
    try:
        with plain_errors(uri):
            driver.verify_connectivity()
    except ValueError:
        raise ComponentFailed(f"neo4j: NEO4J_URI {uri}: no such host or port; correct it") from None
    capabilities = _capabilities(driver, database, uri)
    try:
        driver.execute_query(PROBE_CYPHER_25, database_=database)
        driver.execute_query(PROBE_INDEX, database_=database)
        driver.execute_query(PROBE_SEARCH, vector=[0.0] * DIMENSIONS, user="", database_=database)
    except ClientError as e:
        if "Security" in (e.code or ""):
            raise PalimpsestError(
                f"neo4j: {uri}: the user may not change the schema; grant schema privileges"
            ) from None
        raise PalimpsestError(
            f"neo4j: {uri} is {capabilities.version} and cannot search a vector index with WHERE in Cypher 25 "
            f"({e.code}); install {_REQUIRED}, or run palimpsest neo4j start"
        ) from None
    return capabilities


def _capabilities(driver: neo4j.Driver, database: str | None, uri: str) -> Capabilities:
    try:
        with plain_errors(uri):
            records = driver.execute_query(COMPONENTS, database_=database).records
    except ComponentFailed as e:
        if "ProcedureNotFound" not in str(e):
            raise
        raise PalimpsestError(
            f"neo4j: {uri} is not a Neo4j server; install {_REQUIRED}, or run palimpsest neo4j start"
        ) from None
    components = {r["name"]: r for r in records}
    kernel, cypher = components.get("Neo4j Kernel"), components.get("Cypher")
    return Capabilities(
        version=kernel["versions"][0] if kernel else "unknown",
        edition=kernel["edition"] if kernel else "",
        cypher=tuple(cypher["versions"]) if cypher else (),
    )


def _read_password(uri: str) -> str:
    status = server_status()
    file = os.environ.get("NEO4J_PASSWORD_FILE")
    path = Path(file) if file else status.password_file
    if not path.exists() or (not file and uri != status.uri):
        raise PalimpsestError(f"neo4j: no password for {uri}; set NEO4J_PASSWORD")
    return path.read_text(encoding="utf-8").strip()


# One line about the server for `palimpsest doctor`.


class ServerSummary(NamedTuple):
    """Whether the server can be used, what was found, and what to do where it cannot."""

    ok: bool
    found: str
    fix: str


def summarize_server() -> ServerSummary:
    """Returns what is found of the server. None at all is fine: it is needed only with `--backend neo4j`."""
    if not os.environ.get("NEO4J_URI") and not server_status().running:
        return ServerSummary(
            True, "no server runs; needed only for --graph and --backend neo4j", "palimpsest neo4j start"
        )

    try:
        with connect() as connection:
            found = connection.capabilities
            cypher = " and ".join(found.cypher)
            line = f"{found.version} {found.edition}, Cypher {cypher}, filtered vector search at {connection.uri}"
            return ServerSummary(True, line, "")
    except PalimpsestError as e:
        return ServerSummary(False, str(e), "palimpsest neo4j start, or set NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD")
