"""Embedders by setting: `minilm`, `bge-small-en-v1.5`, a sentence-transformers model, an OpenAI-compatible server.

`space` names the vector space of a setting, `choose` loads its embedder. Vectors of two spaces are never compared.
MiniLM's own batches are in `memories.embed`, its queries in `query.embed_query`.
"""
