"""Collections of two embedders in Neo4j: a vector index for each space, and the same answers as the index file."""

import pytest

from palimpsest.memories import server_embedder as embedding_server
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.loader import Source, home_vectors, load_source
from palimpsest.neo4j_graph.model import VECTOR_INDEX
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import Reader, open_index
from palimpsest.store.home import Home
from tests.memories.embedding_server import EmbeddingServer
from tests.neo4j_graph.made import fresh_home
from tests.small_corpus import write_chats, write_notes


@pytest.mark.slow
def test_each_space_has_an_index_and_both_backends_answer_alike(graph, tmp_path, shared_vectors, monkeypatch):
    with EmbeddingServer() as running:
        monkeypatch.setenv(embedding_server.URL, running.url)
        embedding_server.load_server.cache_clear()
        corpus = write_chats(tmp_path / "corpus")
        write_notes(corpus, {"a.md": "Ann keeps bees on the roof."}, user_id="ann", embedder="openai:toy")
        home = Home(tmp_path / "home", shared_vectors)
        build = run_without_dagster(home, make_plan(home, [corpus]))
        name = fresh_home()
        load_source(name, Source.of(build), home_vectors(home, build), graph)
        assert check_graph(graph, name) == []
        indexes = {
            r["name"]: r["options"]["indexConfig"] for r in graph.read(cypher.INDEX_STATES) if r["type"] == "VECTOR"
        }
        (own,) = [i for i in indexes if i.startswith(f"{VECTOR_INDEX}_") and not i.endswith(name)]
        assert indexes[own]["vector.dimensions"] == 8 and indexes[VECTOR_INDEX]["vector.dimensions"] == 384
        counts = "MATCH (n:PalimpsestVector {home_id: $home}) RETURN count(n) AS n"
        assert graph.read(counts, home=name)[0]["n"] == 5  # the chats; the note has the other space's label
        with open_index(build.index) as files:
            scopes = files.resolve_scopes(user="ann", all_collections=True)
            served = Reader(Neo4jBackend(name, graph))
            for question in ("Who keeps bees?", "When is the deadline of project Heron?"):
                expected, found = files.search(question, scopes, k=4), served.search(question, scopes, k=4)
                assert [m.memory_id for m in found.memories] == [m.memory_id for m in expected.memories]
                assert [m.score for m in found.memories] == pytest.approx(
                    [m.score for m in expected.memories], abs=1e-5
                )
        assert load_source(name, Source.of(build), home_vectors(home, build), graph).writes == 0
    embedding_server.load_server.cache_clear()
