"""The connection: which server, who asks, and once per driver whether that server can do what is needed."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import neo4j
from neo4j.exceptions import AuthError, ClientError, ConfigurationError, DriverError, Neo4jError

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.server import USER, checked_uri, server_status, server_url

_NEEDS = "Neo4j 2026.01 or later (Community is enough)"
_POOL = 32
_TRIES = 4
RETRY_S = 10.0  # how long the driver tries again, with back-off, what a passing error stopped


@dataclass(frozen=True)
class Capabilities:
    """What a server says of itself."""

    version: str
    edition: str
    cypher: tuple[str, ...]


class Connection:
    """A driver that was probed. Safe to share between threads."""

    def __init__(self, driver: neo4j.Driver, database: str | None, capabilities: Capabilities, uri: str):
        self.driver, self.database, self.capabilities, self.uri = driver, database, capabilities, uri

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection of the pool."""
        self.driver.close()

    def session(self, fetch_size: int = 1000) -> neo4j.Session:
        """Returns a session on the database that reads so many records at a time."""
        return self.driver.session(database=self.database, fetch_size=fetch_size)

    def read(self, statement: str, **values: Any) -> list[neo4j.Record]:
        """Runs a read, tried again on transient errors, and returns its records."""
        return self._execute(statement, values, neo4j.RoutingControl.READ)

    def ask(self, statement: str, values: dict[str, Any]) -> list[neo4j.Record]:
        """Runs a read and returns its records; tried again on transient errors.

        One round trip: `read`, in a transaction, takes another.
        """

        def run() -> list[neo4j.Record]:
            for attempt in range(_TRIES):
                try:
                    with self.driver.session(database=self.database, default_access_mode=neo4j.READ_ACCESS) as session:
                        return list(session.run(statement, values))
                except (Neo4jError, DriverError) as e:
                    if attempt == _TRIES - 1 or not e.is_retryable():
                        raise
                    time.sleep(0.1 * 2**attempt)
            raise AssertionError

        return list(told_plainly(run, self.uri))

    def write(self, statement: str, **values: Any) -> list[neo4j.Record]:
        """Runs a write in one transaction, tried again on transient errors, and returns its records."""
        return self._execute(statement, values, neo4j.RoutingControl.WRITE)

    def _execute(self, statement: str, values: dict[str, Any], routing: Any) -> list[neo4j.Record]:
        return told_plainly(
            lambda: self.driver.execute_query(statement, values, database_=self.database, routing_=routing).records,
            self.uri,
        )

    def ddl(self, statement: str) -> None:
        """Runs a statement that changes the schema."""
        self.write(statement)


def told_plainly(run: Callable[[], Any], uri: str) -> Any:
    """Runs what talks to the server and turns its errors into one line that names the fix."""
    try:
        return run()
    except AuthError:
        raise PalimpsestError(f"neo4j: {uri} refuses user or password; set NEO4J_USER and NEO4J_PASSWORD") from None
    except ConfigurationError as e:
        raise PalimpsestError(f"neo4j: NEO4J_URI {uri}: {e}") from None
    except Neo4jError as e:
        raise ComponentFailed(f"neo4j: {e.code}: {' '.join((e.message or '').split())[:200]}; run again") from e
    except (DriverError, OSError) as e:
        raise ComponentFailed(
            f"neo4j: no answer from {uri} ({type(e).__name__}); palimpsest neo4j start, or set NEO4J_URI"
        ) from e


def connect(uri: str | None = None, user: str | None = None, password: str | None = None) -> Connection:
    """Returns a probed connection: to what is named, else NEO4J_URI/NEO4J_USER/NEO4J_PASSWORD, else the local server.

    Raises:
        PalimpsestError: there is no server to ask, it refuses the password, or it cannot do what is needed.
        ComponentFailed: it does not answer.
    """
    logging.getLogger("neo4j").addHandler(logging.NullHandler())  # each retry is a warning otherwise
    uri = checked_uri(uri) if uri else server_url()
    user = user or os.environ.get("NEO4J_USER") or USER
    password = password or os.environ.get("NEO4J_PASSWORD") or _local_password(uri)
    try:
        driver = neo4j.GraphDatabase.driver(
            uri,
            auth=(user, password),
            notifications_min_severity="OFF",
            max_connection_pool_size=_POOL,
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
    """Asks a server for version, edition, Cypher 25 and filtered vector search.

    Raises:
        PalimpsestError: one of them is missing; the message says what to install.
    """
    try:
        told_plainly(driver.verify_connectivity, uri)
    except ValueError:
        raise ComponentFailed(f"neo4j: NEO4J_URI {uri}: no such host or port; correct it") from None
    try:
        found = told_plainly(lambda: driver.execute_query(cypher.COMPONENTS, database_=database).records, uri)
    except ComponentFailed as e:
        if "ProcedureNotFound" not in str(e):
            raise
        raise PalimpsestError(f"neo4j: {uri} is no Neo4j server; install {_NEEDS}, or palimpsest neo4j start") from None
    told = {r["name"]: r for r in found}
    kernel = told.get("Neo4j Kernel")
    version = kernel["versions"][0] if kernel else "unknown"
    able = Capabilities(
        version, kernel["edition"] if kernel else "", tuple(told["Cypher"]["versions"]) if "Cypher" in told else ()
    )
    try:
        driver.execute_query(cypher.PROBE_CYPHER_25, database_=database)
        driver.execute_query(cypher.PROBE_INDEX, database_=database)
        driver.execute_query(cypher.PROBE_SEARCH, vector=[0.0] * 384, user="", database_=database)
    except ClientError as e:
        if "Security" in (e.code or ""):
            raise PalimpsestError(f"neo4j: {uri}: the user may not change the schema; grant it") from None
        raise PalimpsestError(
            f"neo4j: {uri} is {version} and cannot search a vector index with WHERE in Cypher 25; install {_NEEDS}, or "
            "palimpsest neo4j start"
        ) from None
    return able


def _local_password(uri: str) -> str:
    status = server_status()
    file = os.environ.get("NEO4J_PASSWORD_FILE")
    path = Path(file) if file else status.password_file
    if not path.exists() or (not file and uri != status.uri):
        raise PalimpsestError(f"neo4j: no password for {uri}; set NEO4J_PASSWORD")
    return path.read_text(encoding="utf-8").strip()
