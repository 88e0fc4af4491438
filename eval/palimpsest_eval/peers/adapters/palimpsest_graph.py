"""Palimpsest with its published build loaded into Neo4j, and searches by the backend neo4j."""

import os
from collections.abc import Sequence

from palimpsest_eval.peers.adapters.palimpsest_home import PalimpsestPeer
from palimpsest_eval.peers.peer import Setting, Text


class PalimpsestGraphPeer(PalimpsestPeer):
    """A build includes the load; what did not change is not written again."""

    backend = "neo4j"

    def __init__(self, setting: Setting):
        login = setting.server
        os.environ |= {"NEO4J_URI": login.uri, "NEO4J_USER": login.user, "NEO4J_PASSWORD": login.password}
        super().__init__(setting)

    def build(self, texts: Sequence[Text]) -> None:
        """Builds, publishes and loads."""
        from palimpsest.neo4j_graph.connect import connect
        from palimpsest.neo4j_graph.loader import load_graph
        from palimpsest.store.builds import published

        super().build(texts)
        build = published(self._home)
        assert build is not None
        with connect() as connection:
            load_graph(self._home, build, connection)


open_peer = PalimpsestGraphPeer
