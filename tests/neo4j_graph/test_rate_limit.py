"""Loads and writes keep to PALIMPSEST_NEO4J_RPM and queries do not: a driver that answers at once, and the waits."""

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.connect import Capabilities, Connection
from palimpsest.neo4j_graph.writer import Writer


class Answer:
    records = ()


class AtOnce:
    """Stands for a driver: these tests are of when requests are sent, and of nothing that a server does."""

    def __init__(self):
        self.sent = []

    def execute_query(self, statement, *_, **__):
        self.sent.append(statement)
        return Answer()

    def session(self, **_):
        return self

    def run(self, statement, _):
        self.sent.append(statement)
        return []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def connection(monkeypatch, rpm):
    monkeypatch.setenv("PALIMPSEST_NEO4J_RPM", rpm)
    waited = []
    monkeypatch.setattr("palimpsest.relations.labelers.lm_client.time.monotonic", lambda: 100.0)
    monkeypatch.setattr("palimpsest.relations.labelers.lm_client.time.sleep", waited.append)
    return Connection(AtOnce(), None, Capabilities("", "", ()), "bolt://127.0.0.1"), waited


def test_writes_are_spread_over_the_minute_and_queries_are_not(monkeypatch):
    made, waited = connection(monkeypatch, "120")
    for _ in range(3):
        made.write("CREATE ()")
    assert waited == [0.0, 0.5, 1.0]
    made.query("RETURN 1", {})
    made.read("RETURN 1")
    assert waited == [0.0, 0.5, 1.0] and len(made.driver.sent) == 5


def test_batches_of_a_load_wait_too(monkeypatch):
    made, waited = connection(monkeypatch, "60")
    writer = Writer(made, "home")
    for _ in range(2):
        writer._run("UNWIND $rows AS row", {})
    assert waited == [0.0, 1.0]


def test_no_limit_is_the_default_and_a_bad_one_is_an_error(monkeypatch):
    made, waited = connection(monkeypatch, "")
    made.write("CREATE ()")
    assert waited == []
    with pytest.raises(PalimpsestError, match="PALIMPSEST_NEO4J_RPM: 'many' must be a whole number"):
        connection(monkeypatch, "many")
