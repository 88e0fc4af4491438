"""What the peers on Neo4j share: a store for each scope, because their hybrid searches take no filter."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text, by_scope

# The database that peers share: emptied before each of their corpora. Needs the driver and nothing else.

_DELETE_NODES = "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 5000 ROWS"
_CONSTRAINTS = "SHOW CONSTRAINTS YIELD name"
_INDEXES = "SHOW INDEXES YIELD name, type, owningConstraint WHERE type <> 'LOOKUP' AND owningConstraint IS NULL"
_AWAIT = "CALL db.awaitIndexes(120)"


def empty_database(driver: Any) -> None:
    """Deletes every node, constraint and index of a database."""
    with driver.session() as session:
        session.run(_DELETE_NODES).consume()
        for record in list(session.run(_CONSTRAINTS + " RETURN name")):
            session.run(f"DROP CONSTRAINT `{_quoted(record['name'])}` IF EXISTS").consume()
        for record in list(session.run(_INDEXES + " RETURN name")):
            session.run(f"DROP INDEX `{_quoted(record['name'])}` IF EXISTS").consume()


def await_indexes(driver: Any) -> None:
    """Waits until every index is online: what is not in an index yet is not found."""
    with driver.session() as session:
        session.run(_AWAIT).consume()


def _quoted(name: str) -> str:
    return name.replace("`", "``")


_KEY = "CREATE CONSTRAINT `{label}_key` IF NOT EXISTS FOR (n:`{label}`) REQUIRE n.`{key}` IS UNIQUE"
_Store = TypeVar("_Store")


class Neo4jPeer(BasePeer, ABC, Generic[_Store]):
    """A store for each scope, with a label and two indexes of its own, in one database."""

    key: str | None = "id"
    """The property that nodes are merged by: a constraint keeps the load from scanning all of them."""

    def __init__(self, setting: Setting):
        import neo4j

        super().__init__(setting)
        login = setting.server
        self.driver: Any = neo4j.GraphDatabase.driver(
            login.uri, auth=(login.user, login.password), notifications_min_severity="OFF"
        )
        empty_database(self.driver)
        self._stores: dict[str, _Store] = {}

    @abstractmethod
    def open_store(self, number: int, label: str) -> _Store:
        """Makes the store of a scope, indexes included."""

    @abstractmethod
    def add(self, store: _Store, texts: Sequence[Text]) -> None:
        """Adds texts to a store, or replaces them by their ids."""

    @abstractmethod
    def find(self, store: _Store, question: str, k: int) -> list[str]:
        """Returns the ids of texts of a store, best first."""

    def build(self, texts: Sequence[Text]) -> None:
        """Adds the texts of each scope to its store, and waits for the indexes."""
        for scope, members in by_scope(texts).items():
            if scope not in self._stores:
                number = len(self._stores)
                label = f"Text{number}"
                if self.key is not None:
                    self.driver.execute_query(_KEY.format(label=label, key=self.key))
                self._stores[scope] = self.open_store(number, label)
            self.add(self._stores[scope], members)
        await_indexes(self.driver)

    def update(self, changed: Sequence[Text]) -> None:
        """Replaces texts by their ids."""
        self.build(changed)

    def search(self, question: Question, k: int) -> list[str]:
        """Searches the store of the scope."""
        return self.find(self._stores[question.scope], question.text, k)

    def bytes_on_disk(self) -> int | None:
        """Returns None: the server stores the texts."""
        return None

    def close(self) -> None:
        """Ends the connections; the next one to use the database empties it."""
        self.driver.close()
