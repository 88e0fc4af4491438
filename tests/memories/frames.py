"""Small tables for tests: documents with turns or passages, and the memories formed from them by the real code."""

import datetime as dt

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.entities.entity_tables import find_mention_candidates, resolve_entities
from palimpsest.memories.form import form_memories
from palimpsest.relations.candidates import CandidateInputs
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform
from palimpsest.text.words import content_words


def day(n: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=n)


def config(unit: str = "statement", **more) -> CollectionConfig:
    return CollectionConfig(name="c", description="d", unit=unit, **more)


def document(uri: str, seq: int = 1, current: bool = True, user: str = "u", **more) -> dict:
    return {
        "document_id": content_id(user, uri, more.get("session_id"), seq),
        "collection": "c",
        "user_id": user,
        "uri": uri,
        "title": more.pop("title", uri),
        "seq": seq,
        "is_current": current,
        "metadata": more.pop("metadata", "{}"),
        **more,
    }


def documents(*rows: dict) -> pl.DataFrame:
    return conform("documents", pl.DataFrame(list(rows), infer_schema_length=None))


def chunk(doc: dict, text: str, ordinal: int = 0, nth: int = 1, **more) -> dict:
    return {
        "chunk_id": content_id("chunk", "c", doc["user_id"], doc["uri"], doc.get("session_id"), text, nth),
        "document_id": doc["document_id"],
        "collection": "c",
        "user_id": doc["user_id"],
        "ordinal": ordinal,
        "text": text,
        "char_start": 0,
        "char_end": len(text),
        "token_count": len(text.split()),
        **more,
    }


def chunks(*rows: dict) -> pl.DataFrame:
    return conform("chunks", pl.DataFrame(list(rows), infer_schema_length=None))


def formed(docs: list[dict], rows: list[dict], unit: str = "statement") -> CandidateInputs:
    """Returns what the candidate stage reads, made by the real stages before it."""
    documents_, chunks_ = documents(*docs), chunks(*rows)
    memories, inputs = form_memories(documents_, chunks_, config(unit))
    mentions = resolve_entities(find_mention_candidates(memories), memories).mentions
    return CandidateInputs(memories, inputs, mentions, documents_)


def word_vectors(memories: pl.DataFrame, dimensions: int = 32) -> np.ndarray:
    """Unit vectors that are a pure function of each text: the sum of one fixed direction a content word."""
    out = np.zeros((memories.height, dimensions), np.float32)
    for i, text in enumerate(memories["text"]):
        for word in sorted(content_words(text)):
            seed = int(content_id(word), 16) % 2**32
            out[i] += np.random.default_rng(seed).normal(size=dimensions).astype(np.float32)
    norms = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.maximum(norms, 1e-9)


def by_text(memories: pl.DataFrame) -> dict[str, str]:
    """Maps text to memory id."""
    return dict(memories.select("text", "memory_id").iter_rows())
