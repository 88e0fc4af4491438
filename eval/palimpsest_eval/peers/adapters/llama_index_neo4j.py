"""LlamaIndex on Neo4j: an IngestionPipeline with a document store, Neo4jVectorStore with hybrid search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.neo4j_peer import Neo4jPeer
from palimpsest_eval.peers.peer import Setting, Text, folder_bytes


@dataclass(frozen=True)
class _Store:
    pipeline: Any
    index: Any


class LlamaIndexPeer(Neo4jPeer[_Store]):
    """A vector store for each scope. The document store finds out which texts changed, by their hashes."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self._embedding = _embedding(setting)

    def open_store(self, number: int, label: str) -> _Store:
        """Makes the vector store with its two indexes, and the pipeline that fills it."""
        from llama_index.core import VectorStoreIndex
        from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
        from llama_index.core.node_parser import SentenceSplitter
        from llama_index.core.storage.docstore import SimpleDocumentStore
        from llama_index.vector_stores.neo4jvector import Neo4jVectorStore

        login = self.setting.server
        vectors = Neo4jVectorStore(
            login.user,
            login.password,
            login.uri,
            DIMENSIONS,
            index_name=f"vectors{number}",
            keyword_index_name=f"words{number}",
            node_label=label,
            hybrid_search=True,
        )
        pipeline = IngestionPipeline(
            transformations=[SentenceSplitter(), self._embedding],
            docstore=SimpleDocumentStore(),
            vector_store=vectors,
            docstore_strategy=DocstoreStrategy.UPSERTS,
            disable_cache=True,
        )
        return _Store(pipeline, VectorStoreIndex.from_vector_store(vectors, embed_model=self._embedding))

    def add(self, store: _Store, texts: Sequence[Text]) -> None:
        """Runs the pipeline and writes the document store to disk."""
        from llama_index.core import Document

        store.pipeline.run(documents=[Document(doc_id=text.text_id, text=text.words) for text in texts])
        store.pipeline.docstore.persist(str(self.setting.folder / f"{id(store)}.json"))

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Runs the pipeline on everything: it skips what is unchanged."""
        self.build(texts)

    def find(self, store: _Store, question: str, k: int) -> list[str]:
        """Retrieves nodes and returns their documents.

        The words go to Lucene as they are, and a slash of a question is the start of a regular expression there.
        """
        from llama_index.core import QueryBundle

        words = question.replace("/", " ")
        bundle = QueryBundle(words, embedding=self._embedding.get_query_embedding(question))
        nodes = store.index.as_retriever(similarity_top_k=k).retrieve(bundle)
        return list(dict.fromkeys(node.node.ref_doc_id for node in nodes))

    def bytes_on_disk(self) -> int:
        """Returns the bytes of the document stores; the server's come on top."""
        return folder_bytes(self.setting.folder)


def _embedding(setting: Setting) -> Any:
    """Returns the given embedder as the toolkit's kind of one."""
    from llama_index.core.embeddings import BaseEmbedding

    class Given(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [[float(x) for x in vector] for vector in setting.embedder.encode(texts)]

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    return Given(embed_batch_size=256)


open_peer = LlamaIndexPeer
