"""Chunks of a single document, for tests."""

from palimpsest.memories.chunks import Chunk, chunk_documents
from palimpsest.sources.extracted import ExtractedDocument
from palimpsest.store.collection_config import Unit
from palimpsest.text.tokenizer import CountTokens, count_tokens_batch


def chunk_document(
    document: ExtractedDocument, unit: Unit, count_tokens: CountTokens = count_tokens_batch
) -> list[Chunk]:
    """Returns the chunks of one document."""
    return chunk_documents([document], unit, count_tokens)[0]
