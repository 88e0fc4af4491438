"""Reads of one build in a server: a build that was swept meanwhile is an error, never a part of an answer."""

from dataclasses import dataclass
from typing import Any

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph.connect import Connection, CypherParameters
from palimpsest.neo4j_graph.cypher import querying
from palimpsest.query.request.types import Scope


@dataclass(frozen=True)
class BuildReads:
    """Runs statements over one build.

    Attributes:
        connection: to the server.
        home_id: of the home.
        number: of the build there.
        begun: when its numbering began.
        build_id: of the build, for errors.
    """

    connection: Connection
    home_id: str
    number: int
    begun: str
    build_id: str

    def read(self, scope: Scope, statement: str, values: CypherParameters, **more: object) -> list[Any]:
        """Returns the rows of a scope, if this build was still retained after reading them.

        Raises:
            ComponentFailed: it was not.
        """
        key = {"collection": scope.collection, "user": scope.user_id, "project": scope.project_id}
        parameters = {**values, **more, **self._build, **key}
        found = self.connection.query(statement, parameters)
        self._check(bool(found) and found[0]["kept"])
        return list(found[0]["found"])

    def packed(self, statement: str, **values: object) -> list[Any]:
        """Returns rows too large to be collected; checks afterwards whether the build was still retained.

        Raises:
            ComponentFailed: it was not.
        """
        parameters = {**self._build, **values}
        found = self.connection.query(statement, parameters)
        retained = self.connection.query(querying.STILL_KEPT, parameters)
        self._check(bool(retained) and retained[0]["kept"])
        return found

    @property
    def _build(self) -> CypherParameters:
        return {"home": self.home_id, "number": self.number, "begun": self.begun}

    def _check(self, retained: bool) -> None:
        if not retained:
            raise ComponentFailed(f"neo4j: build {self.build_id} is no longer served; refresh or reopen the reader")
