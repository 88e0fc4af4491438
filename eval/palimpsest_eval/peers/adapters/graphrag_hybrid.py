"""neo4j-graphrag: its pipeline's TextChunkEmbedder and Neo4jWriter, and HybridCypherRetriever."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.neo4j_peer import Neo4jPeer
from palimpsest_eval.peers.peer import BasePeer, Setting, Text

_LUCENE = re.compile(r'[+\-!(){}\[\]^"~*?:\\/&|<>=]')
_RETURN = "RETURN node.text_id AS text_id, score"
_ALPHA = 0.3  # .1 to .3 are best on hotpot200 and locomo, before .5 and the ranker `naive`


class GraphragPeer(Neo4jPeer[Any]):
    """Chunk nodes without relationships: the writer merges these by APOC, which the server does not have."""

    key = None
    update = BasePeer.update

    def __init__(self, setting: Setting):
        from neo4j_graphrag.components.embedder import TextChunkEmbedder
        from neo4j_graphrag.components.kg_writer import Neo4jWriter

        super().__init__(setting)
        self._embedder = _embedder(setting)
        self._embed, self._writer = TextChunkEmbedder(self._embedder), Neo4jWriter(self.driver)

    def open_store(self, number: int, label: str) -> Any:
        """Makes both indexes; the retriever is made at the first search, when they exist."""
        from neo4j_graphrag.indexes import create_fulltext_index, create_vector_index
        from neo4j_graphrag.retrievers import HybridCypherRetriever

        vectors, words = f"vectors{number}", f"words{number}"
        create_vector_index(self.driver, vectors, label, "embedding", dimensions=DIMENSIONS, similarity_fn="cosine")
        create_fulltext_index(self.driver, words, label, ["text"])
        return label, HybridCypherRetriever(self.driver, vectors, words, _RETURN, self._embedder)

    def add(self, store: Any, texts: Sequence[Text]) -> None:
        """Runs the two components of the pipeline.

        Raises:
            RuntimeError: the writer reports a failure; its metadata is the message.
        """
        from neo4j_graphrag.components.types import LexicalGraphConfig, Neo4jGraph, Neo4jNode, TextChunk, TextChunks

        label, _ = store

        async def run() -> Any:
            chunks = [TextChunk(text=text.words, index=i, uid=text.text_id) for i, text in enumerate(texts)]
            embedded = await self._embed.run(text_chunks=TextChunks(chunks=chunks))
            nodes = [
                Neo4jNode(
                    id=chunk.uid,
                    label=label,
                    properties={"text_id": chunk.uid, "text": chunk.text},
                    embedding_properties={"embedding": chunk.metadata["embedding"]},
                )
                for chunk in embedded.chunks
            ]
            return await self._writer.run(Neo4jGraph(nodes=nodes), LexicalGraphConfig(chunk_node_label=label))

        result = asyncio.run(run())
        if result.status != "SUCCESS":
            raise RuntimeError(str(result.metadata))

    def find(self, store: Any, question: str, k: int) -> list[str]:
        """Searches both indexes; Lucene's operators are no words of a question."""
        _, retriever = store
        text = _LUCENE.sub(" ", question)
        found = retriever.get_search_results(query_text=text, top_k=k, ranker="linear", alpha=_ALPHA)
        return [record["text_id"] for record in found.records]


def _embedder(setting: Setting) -> Any:
    """Returns the given embedder as the toolkit's kind of one."""
    from neo4j_graphrag.embeddings.base import Embedder

    class Given(Embedder):
        def embed_query(self, text: str) -> list[float]:
            return [float(x) for x in setting.embedder.encode([text])[0]]

    return Given()


open_peer = GraphragPeer
