"""A server that is stopped. The last file of its folder: a server that was started again is slow for half a minute."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph.connect import connect
from palimpsest.neo4j_graph.loader import residue
from palimpsest.neo4j_graph.local_server import clear_server, server_status, start_server, stop_server
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.neo4j_graph.writer import Writer
from tests.neo4j_graph.made import fresh_home, make


@pytest.mark.slow
def test_a_server_stopped_in_the_middle_of_a_load_starts_again_with_its_data_and_the_next_load_finishes(
    graph, server_folder, tmp_path, monkeypatch
):
    home, made = fresh_home(), make(tmp_path, "000001", count=200)
    real: Callable[..., Any] = Writer.once
    stopped = []

    def once(self: Any, statement: str, **values: Any) -> Any:
        if self._batch == 6:
            stopped.append(stop_server(server_folder, 15))
        return real(self, statement, **values)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "once", once)
        with pytest.raises(ComponentFailed, match=r"no answer|run again"):
            made.load(home, graph)
    assert stopped[0] and not server_status(server_folder).running
    assert not stop_server(server_folder)
    with pytest.raises(ComponentFailed, match="palimpsest neo4j start"):
        graph.read("RETURN 1")
    info = start_server(server_folder, heap="600m")
    with connect(info.uri, info.user, info.password) as again:
        written = again.read("MATCH (n {home_id: $home}) RETURN count(n) AS n", home=home)[0]["n"]
        stats = made.load(home, again)
        assert 0 < stats.created < sum(stats.nodes.values()) and written > 0
        assert check_graph(again, home) == []


@pytest.mark.slow
def test_a_server_that_was_cleared_has_no_byte_of_what_was_deleted_and_is_loaded_again(graph, server_folder, tmp_path):
    home = fresh_home()
    make(tmp_path, "000001", count=60, mark="quixotic " * 12).load(home, graph)  # short texts are packed
    after = make(tmp_path, "000002", count=60, mark="kept")
    after.load(home, graph, keep_previous=False)
    assert residue(graph, home, ["quixotic"]) == []
    stop_server(server_folder)

    def files_with(word: bytes) -> list[Path]:
        return [p for p in server_folder.rglob("*") if p.is_file() and word in p.read_bytes()]

    assert files_with(b"quixotic") != []
    clear_server(server_folder)
    assert files_with(b"quixotic") == []
    info = start_server(server_folder, heap="600m")
    with connect(info.uri, info.user, info.password) as again:
        after.load(home, again)
        assert check_graph(again, home) == []
