"""LangChain on Neo4j: Neo4jVector with `search_type` hybrid."""

from collections.abc import Sequence
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.neo4j_peer import Neo4jPeer
from palimpsest_eval.peers.peer import Setting, Text


class LangchainPeer(Neo4jPeer[Any]):
    """A Neo4jVector for each scope: a metadata filter cannot be combined with hybrid search."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self._embeddings = _embeddings(setting)

    def open_store(self, number: int, label: str) -> Any:
        """Makes the vector store and its two indexes."""
        from langchain_neo4j import Neo4jVector
        from langchain_neo4j.vectorstores.neo4j_vector import SearchType

        login = self.setting.server
        store = Neo4jVector(
            self._embeddings,
            search_type=SearchType.HYBRID,
            url=login.uri,
            username=login.user,
            password=login.password,
            index_name=f"vectors{number}",
            keyword_index_name=f"words{number}",
            node_label=label,
            embedding_dimension=DIMENSIONS,
        )
        store.create_new_index()
        store.create_new_keyword_index()
        return store

    def add(self, store: Any, texts: Sequence[Text]) -> None:
        """Embeds and merges the texts by their ids."""
        ids = [text.text_id for text in texts]
        store.add_texts([text.words for text in texts], metadatas=[{"text_id": i} for i in ids], ids=ids)

    def find(self, store: Any, question: str, k: int) -> list[str]:
        """Searches both indexes."""
        return [document.metadata["text_id"] for document in store.similarity_search(question, k=k)]


def _embeddings(setting: Setting) -> Any:
    """Returns the given embedder as the toolkit's kind of one."""
    from langchain_core.embeddings import Embeddings

    class Given(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[float(x) for x in vector] for vector in setting.embedder.encode(texts)]

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    return Given()


open_peer = LangchainPeer
