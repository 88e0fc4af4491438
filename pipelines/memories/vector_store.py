"""The home's store of vectors for the embedder of this machine."""

from palimpsest.memories.embed import vector_space
from palimpsest.store.embeddings import EmbeddingStore
from palimpsest.store.home import Home


def embedding_store(home: Home) -> EmbeddingStore:
    """Returns the home's store of vectors for this machine's embedder."""
    return EmbeddingStore(home.embeddings / vector_space())
