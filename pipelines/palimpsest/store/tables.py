"""The tables of a build: names, columns and types. Parquet files of these are the record; indexes derive from them.

Times are UTC; `utc_offset` is how many minutes east of it the clock was that stated one. Tables carry the scope columns
(`core.scopes`), so that no join can cross a scope by accident.
"""

from functools import cache

import polars as pl

from palimpsest.core.scopes import GENERAL, SCOPE

_T = pl.Datetime("us", "UTC")
_S, _I, _F, _B = pl.String, pl.Int64, pl.Float64, pl.Boolean
_SCOPE = dict.fromkeys(SCOPE, _S)

Schema = dict[str, pl.DataType | type[pl.DataType]]

SCHEMAS: dict[str, Schema] = {
    # One row for each version of a document in the ingest log. `seq` orders the versions of a (uri, session).
    "documents": {
        "document_id": _S,
        **_SCOPE,
        "session_id": _S,
        "uri": _S,
        "title": _S,
        "media_type": _S,
        "content_hash": _S,
        "source_time": _T,
        "utc_offset": _I,
        "ingested_at": _T,
        "metadata": _S,
        "seq": _I,
        "is_current": _B,
        "superseded_by": _S,
        "kind": _S,
        "trust": _F,
    },
    # The extracted text of each document version, which every char span points into; segments as readers gave them.
    "document_texts": {"document_id": _S, "text": _S, "segments": _S},
    # Stated by metadata: they override dates (decision 5).
    "document_relations": {**_SCOPE, "newer_uri": _S, "older_uri": _S, "label": _S},
    "chunks": {
        "chunk_id": _S,
        "document_id": _S,
        **_SCOPE,
        "ordinal": _I,
        "text": _S,
        "char_start": _I,
        "char_end": _I,
        "heading": _S,
        "page": _I,
        "speaker": _S,
        "said_at": _T,
        "utc_offset": _I,
        "token_count": _I,
        "refers_to": _S,
        "stated": _S,
        "created_at": _T,
        "updated_at": _T,
    },
    # `refers_to` is what the pronoun that opens a statement refers to; `stated` is what its turns state, as JSON.
    # `ordinal` orders the memories of one document. `text` equals document_texts.text[char_start:char_end].
    # `search_text` is what words search sees: it adds title, heading, speaker and written-out dates.
    "memories": {
        "memory_id": _S,
        **_SCOPE,
        "session_id": _S,
        "document_id": _S,
        "ordinal": _I,
        "unit": _S,
        "type": _S,
        "text": _S,
        "search_text": _S,
        "chunk_ids": pl.List(_S),
        "title": _S,
        "heading": _S,
        "refers_to": _S,
        "page": _I,
        "speaker": _S,
        "char_start": _I,
        "char_end": _I,
        "observed_at": _T,
        "utc_offset": _I,
        "valid_from": _T,
        "valid_until": _T,
        "confidence": _F,
        "importance": _F,
        "tags": pl.List(_S),
        "provenance": _S,
        "retention_until": _T,
        "token_count": _I,
        "kind": _S,
        "pii": _B,
        "user_visible": _B,
        "importance_source": _S,
        "confidence_source": _S,
        "trust": _F,
        "created_at": _T,
        "updated_at": _T,
    },
    # What one session says that is worth keeping, with its evidence; `note_id` is the same for all items of a session.
    "notes": {
        "item_id": _S,
        "note_id": _S,
        **_SCOPE,
        "session_id": _S,
        "document_id": _S,
        "kind": _S,
        "statement": _S,
        "quote": _S,
        "char_start": _I,
        "char_end": _I,
        "chunk_ids": pl.List(_S),
        "confidence": _F,
        "is_saved": _B,
        "alternatives": pl.List(_S),
        "invalidation_conditions": pl.List(_S),
        "related_note_ids": pl.List(_S),
        "extractor": _S,
    },
    # What is embedded for each memory: one text of kind "memory", or several of kind "window" over 256 tokens.
    "embed_inputs": {"memory_id": _S, "kind": _S, "ordinal": _I, "text": _S, "text_hash": _S},
    # What is embedded as well: the sentences of a titled passage. `text_hash` is null where they get no vectors.
    "context_inputs": {
        "memory_id": _S,
        "kind": _S,
        "ordinal": _I,
        "text": _S,
        "text_hash": _S,
        "char_start": _I,
        "char_end": _I,
    },
    # The space of the vectors that the collection is searched with: one row.
    "vector_spaces": {"collection": _S, "embedder": _S, "space": _S, "dimensions": _I},
    "entities": {"entity_id": _S, **_SCOPE, "name": _S, "type": _S, "aliases": pl.List(_S)},
    "mentions": {"memory_id": _S, "entity_id": _S, **_SCOPE, "char_start": _I, "char_end": _I},
    # Who says `I` and is named in no text, where facts are stated of them.
    "speakers": {"entity_id": _S, **_SCOPE, "name": _S, "memory_ids": pl.List(_S)},
    # What one clause of a memory states of an entity; carried over from build to build.
    "clause_facts": {
        "memory_id": _S,
        **_SCOPE,
        "subject_id": _S,
        "predicate": _S,
        "object_id": _S,
        "value": _S,
        "char_start": _I,
        "char_end": _I,
        "is_negated": _B,
        "modality": _S,
        "confidence": _F,
        "extractor": _S,
    },
    # What a language model says of an entity that a memory names; empty where rules alone read facts.
    "stated_entities": {"memory_id": _S, **_SCOPE, "entity_id": _S, "type": _S, "importance": _F},
    # The same of all memories that state it, with the time in which it is valid.
    "facts": {
        "fact_id": _S,
        **_SCOPE,
        "subject_id": _S,
        "predicate": _S,
        "object_id": _S,
        "value": _S,
        "is_negated": _B,
        "modality": _S,
        "valid_from": _T,
        "valid_until": _T,
        "is_latest": _B,
        "memory_ids": pl.List(_S),
        "confidence": _F,
    },
    # Why two names are one: in the whole scope, or in one document; the memory that shows it, where one does.
    "merges": {
        "entity_id": _S,
        **_SCOPE,
        "alias": _S,
        "name": _S,
        "why": _S,
        "memory_id": _S,
        "document_id": _S,
    },
    # What could be a name in each memory, before names are resolved: carried over from build to build.
    "surfaces": {
        "memory_id": _S,
        **_SCOPE,
        "surface": _S,
        "key": _S,
        "kind": _S,
        "initial": _B,
        "cue": _S,
        "same_as": _S,
        "why": _S,
        "char_start": _I,
        "char_end": _I,
    },
    "topics": {"topic_id": _S, **_SCOPE, "label": _S, "size": _I},
    "topic_edges": {"source_id": _S, "target_id": _S, **_SCOPE, "kind": _S, "weight": _F},
    "topic_memories": {"topic_id": _S, "memory_id": _S, **_SCOPE, "relevance": _F},
    "candidate_pairs": {"newer_id": _S, "older_id": _S, **_SCOPE, "why": _S, "score": _F},
    "relations": {
        "relation_id": _S,
        **_SCOPE,
        "newer_id": _S,
        "older_id": _S,
        "label": _S,
        "conflict": _S,
        "consequence": _S,
        "part": _S,
        "likelihood": _F,
        "confidence": _F,
        "labeler": _S,
        "program_hash": _S,
        "input_hash": _S,
        "evidence": _S,
        "decided_at": _T,
    },
    # Entities, topics and what is formed from them, as the graph shows them.
    "nodes": {
        "node_id": _S,
        **_SCOPE,
        "type": _S,
        "name": _S,
        "description": _S,
        "aliases": pl.List(_S),
        "importance": _F,
        "memory_count": _I,
        "created_at": _T,
        "updated_at": _T,
        "metadata": _S,
    },
    "edges": {
        "source_id": _S,
        "target_id": _S,
        **_SCOPE,
        "type": _S,
        "weight": _F,
        "provenance": _S,
        "memory_ids": pl.List(_S),
        "created_at": _T,
        "updated_at": _T,
    },
    # Of nodes that are neither entities nor topics.
    "node_memories": {"node_id": _S, "memory_id": _S, **_SCOPE, "relevance": _F},
    "node_positions": {"node_id": _S, **_SCOPE, "x": _F, "y": _F},
    "versions": {
        "memory_id": _S,
        **_SCOPE,
        "is_latest": _B,
        "valid_from": _T,
        "valid_until": _T,
        "superseded_by": _S,
    },
    # What people decided of single memories: from when on one is not served, and its confidence.
    "decided_memories": {"memory_id": _S, **_SCOPE, "pruned_at": _T, "confidence": _F},
    # What kind of secret was removed from what, and where its marker is in the stored text; never the secret.
    "redactions": {
        "document_id": _S,
        **_SCOPE,
        "session_id": _S,
        "uri": _S,
        "kind": _S,
        "field": _S,
        "char_start": _I,
        "line": _I,
    },
    "rejects": {"uri": _S, "stage": _S, "reason": _S},
}


@cache
def empty(table: str) -> pl.DataFrame:
    """Returns the named table with no rows."""
    return pl.DataFrame(schema=SCHEMAS[table])


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns `frame` with exactly the table's columns, order and types; missing columns become null.

    A missing or null `project_id` becomes "", the general memory: see `core.scopes`.

    Raises:
        ValueError: the frame has a column that the table does not.
    """
    schema, found = SCHEMAS[table], frame.schema
    if extra := found.keys() - schema.keys():
        raise ValueError(f"{table}: unknown columns {sorted(extra)}")
    differing = {name for name, dtype in schema.items() if found.get(name) != dtype}
    if "project_id" in schema and ("project_id" in differing or frame["project_id"].null_count()):
        differing.add("project_id")
    if not differing and list(found) == list(schema):
        return frame
    return frame.select(_column(frame, name, dtype) if name in differing else name for name, dtype in schema.items())


def completed(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns a table as an earlier version wrote it with the columns of this one; unknown columns are left out."""
    unknown = [c for c in frame.columns if c not in SCHEMAS[table]]
    return conform(table, frame.drop(unknown) if unknown else frame)


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    value = (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype)
    return (value.fill_null(GENERAL) if name == "project_id" else value).alias(name)
