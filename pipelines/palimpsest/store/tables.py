"""The tables of a build: names, columns and types. Parquet files of these are the record; indexes derive from them.

Times are UTC; `utc_offset` is how many minutes east of it the clock was that stated one. Tables carry the scope columns
(`core.scopes`), so that no join can cross a scope by accident.
"""

from functools import cache

import polars as pl

from palimpsest.core.ids import GENERAL, SCOPE

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
        "language": _S,
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


# What each column of a build's tables means, as the UI shows it next to the schemas of `tables`.

_SPAN = {
    "char_start": "First character in the document's text, counted from 0.",
    "char_end": "Character after the last one in the document's text.",
}
# Columns that mean the same in every table; a table's own description wins.
_COMMON = {
    "collection": "Collection, part of the scope.",
    "user_id": "User whose memories these are, part of the scope.",
    "project_id": "Project, part of the scope; empty for the user's general memory.",
    "session_id": "Conversation that the text comes from.",
    "document_id": "Document version, 16 hex digits.",
    "memory_id": "Memory, 16 hex digits.",
    "entity_id": "Entity, 16 hex digits.",
    "topic_id": "Topic, 16 hex digits.",
    "newer_id": "Memory that was observed later.",
    "older_id": "Memory that was observed earlier.",
    "ordinal": "Place among the rows of the same parent, from 0.",
    "text_hash": "Hash of the text, under which its vector is stored.",
    "token_count": "Tokens as the embedder counts them, without special tokens.",
    "title": "Title of the document.",
    "heading": "Headings above the text.",
    "page": "Page of the document, from 1.",
    "speaker": "Who said it.",
    "utc_offset": "Minutes east of UTC of the clock that stated the time; empty where it is UTC or unknown.",
    "valid_from": "When it became valid, UTC.",
    "valid_until": "When it stopped being valid, UTC; empty while it is valid.",
    "refers_to": "What the pronoun that opens the statement refers to.",
    **_SPAN,
}
_OWN: dict[str, dict[str, str]] = {
    "notes": {
        "item_id": "Item of a note, 16 hex digits.",
        "note_id": "Note of a session, 16 hex digits: the same for all its items.",
        "kind": "What the item is: fact, preference, decision, solution, gap, inference, emotion, topic or connection.",
        "statement": "What it says, in a sentence that can be read alone.",
        "quote": "The words of the session that say it.",
        "chunk_ids": "Chunks that it rests on.",
        "confidence": "How sure it is, 0 to 1.",
        "is_saved": "Whether a person requests that it is remembered.",
        "alternatives": "What else the evidence could mean.",
        "invalidation_conditions": "What would make it wrong.",
        "related_note_ids": "Notes that it is connected with.",
        "extractor": "Who formed it: rules or lm.",
    },
    "documents": {
        "uri": "Path inside the collection.",
        "media_type": "Media type that the source was read as.",
        "content_hash": "Hash of the source's bytes.",
        "source_time": "Date that the source states, UTC; never the file's own time.",
        "ingested_at": "When this version was first read, UTC.",
        "metadata": "Front matter or properties, as JSON.",
        "seq": "Order of the versions of one source.",
        "is_current": "Whether this is the version on disk now.",
        "superseded_by": "Document version that came after it.",
        "kind": "What the source is: message, file, tool or import.",
        "trust": "How far its least trusted part is trusted, 0 to 1.",
    },
    "document_texts": {"text": "Extracted text, which every span points into.", "segments": "Parts as read, as JSON."},
    "document_relations": {
        "newer_uri": "Source that states the relation.",
        "older_uri": "Source that it names.",
        "label": "UPDATE or EXTEND, as stated.",
    },
    "chunks": {
        "chunk_id": "Chunk, 16 hex digits.",
        "text": "Text of the span.",
        "said_at": "When it was said, UTC.",
        "stated": "What its turns state about themselves, as JSON.",
        "created_at": "When the first version of its document that has it was read, UTC.",
        "updated_at": "When the version that changed its heading, referent or what its turns state was read, UTC.",
    },
    "memories": {
        "unit": "What one memory is in this collection: chunk, turn or statement.",
        "type": "Type, such as episodic, semantic, document, preference or task.",
        "text": "Text that is embedded and shown.",
        "search_text": "Text that word search sees: title, heading, speaker and written-out dates are added.",
        "chunk_ids": "Chunks that it was formed from.",
        "observed_at": "When it was said or dated, UTC; empty where nothing states it.",
        "created_at": "When the first version of its document that has it was read, UTC.",
        "updated_at": "When what it or its document states of it last changed, UTC.",
        "confidence": "How sure it is, 0 to 1; empty where nothing states it.",
        "importance": "How important it is, 0 to 1; empty where nothing states it.",
        "tags": "Tags that the source states.",
        "provenance": "Where it comes from, as JSON.",
        "retention_until": "From when on it is not served and its text is removed, UTC.",
        "kind": "What its source is: message, file, tool or import.",
        "pii": "Whether it is marked as personal data.",
        "user_visible": "Whether a search shows it by default.",
        "language": "Language of its text, ISO 639-1; empty where it is too short or not clear.",
        "importance_source": "Where the importance comes from.",
        "confidence_source": "Where the confidence comes from.",
        "trust": "How far its source is trusted, 0 to 1; it never replaces what is trusted more.",
    },
    "embed_inputs": {"kind": "memory, or window of a text of more than 256 tokens.", "text": "Text that is embedded."},
    "context_inputs": {
        "kind": "What part of the memory it is.",
        "text": "Sentence of a titled passage.",
        "text_hash": "Hash of the text; empty where the sentence has no vector.",
    },
    "entities": {
        "name": "Name that it is shown by.",
        "type": "Kind of name, such as person, place or product.",
        "aliases": "Other names in the texts.",
    },
    "mentions": {},
    "speakers": {"name": "As turns name who speaks.", "memory_ids": "Memories in which they state something."},
    "clause_facts": {
        "subject_id": "Entity that the clause is about.",
        "predicate": "What the clause states of it: a name of the vocabulary, else verb and preposition.",
        "object_id": "The other entity, where there is one.",
        "value": "Words that fill the predicate, where no other entity does.",
        "char_start": "Where the clause begins in the memory's text.",
        "char_end": "Where it ends.",
        "is_negated": "Whether the clause denies it.",
        "modality": "stated, past or planned.",
        "confidence": "How sure it is, 0 to 1.",
        "extractor": "rules, or lm for a language model.",
    },
    "stated_entities": {
        "entity_id": "Entity that the memory names.",
        "type": "What the model takes it for, such as person or product.",
        "importance": "How important it is for the text, 0 to 1.",
    },
    "facts": {
        "fact_id": "Fact, 16 hex digits.",
        "subject_id": "Entity that it is about.",
        "predicate": "What is stated of it.",
        "object_id": "The other entity, where there is one.",
        "value": "Words that fill the predicate, where no other entity does.",
        "is_negated": "Whether it is denied.",
        "modality": "stated, past or planned.",
        "confidence": "How sure it is, 0 to 1.",
        "is_latest": "Whether a memory that states it is latest.",
        "memory_ids": "Memories that state it.",
    },
    "nodes": {
        "node_id": "Node: an entity's or a topic's own id, else 16 hex digits.",
        "type": "person, organisation, place, product, project, event, category, topic, concept or date.",
        "name": "Name that it is shown by.",
        "description": "What its memories say it is.",
        "aliases": "Other names in the texts.",
        "importance": "0 to 1, from its facts and mentions.",
        "memory_count": "Memories that belong to it.",
        "created_at": "When the first of its memories was read, UTC.",
        "updated_at": "When its memories last changed, UTC.",
        "metadata": "Further values, as JSON.",
    },
    "edges": {
        "source_id": "Node at the start.",
        "target_id": "Node at the end.",
        "type": "subtopic_of, related_to, part_of, depends_on or precedes.",
        "weight": "Strength, 0 to 1.",
        "provenance": "What made it: topics, a fact, a rule or a decision.",
        "memory_ids": "Memories that show it.",
        "created_at": "When the first of these was read, UTC.",
        "updated_at": "When these last changed, UTC.",
    },
    "node_memories": {
        "node_id": "Node that the memory belongs to.",
        "relevance": "How strongly the memory belongs to it, 0 to 1.",
    },
    "node_positions": {
        "node_id": "Node.",
        "x": "Where it is drawn; a unit is the distance of two nodes that do not overlap.",
        "y": "The same, upwards.",
    },
    "merges": {
        "alias": "Name that was merged.",
        "name": "Name that it was merged into.",
        "why": "Rule or decision that made them one.",
        "memory_id": "Memory that shows it, where one does.",
        "document_id": "Document that it applies to; empty for the whole scope.",
    },
    "surfaces": {
        "surface": "Possible name, as written.",
        "key": "The same, folded for comparison.",
        "kind": "Kind of name that the cue indicates.",
        "initial": "Whether it begins a sentence.",
        "cue": "Adjacent word that shows a name.",
        "same_as": "Another name of the same thing, stated by the text.",
        "why": "The wording that states it.",
    },
    "topics": {"label": "Phrase that names it.", "size": "Memories that belong to it."},
    "topic_edges": {
        "source_id": "Topic at the start.",
        "target_id": "Topic at the end.",
        "kind": "subtopic_of or related_to.",
        "weight": "Strength, 0 to 1.",
    },
    "topic_memories": {"relevance": "How strongly the memory belongs to the topic, 0 to 1."},
    "candidate_pairs": {"why": "What made them a pair.", "score": "How alike they are; orders the pairs."},
    "relations": {
        "relation_id": "Relation, 16 hex digits.",
        "label": "UPDATE, EXTEND, DERIVE or NONE.",
        "conflict": "dynamic (the world changed), static (the newer is mistaken) or conditional; empty without one.",
        "consequence": "superseded (the older one is retired, or a part of it), disputed (both are latest), or empty.",
        "part": "Spans of the older text that the newer memory ends, as JSON; empty where that is all of it.",
        "likelihood": "Probability that the newer memory ends the older one or a part of it; empty if not estimated.",
        "confidence": "How sure the labeler is, 0 to 1.",
        "labeler": "What labelled it.",
        "program_hash": "Version of the labeler's program.",
        "input_hash": "Hash of what the labeler was given.",
        "evidence": "Spans that show it, as JSON.",
        "decided_at": "When it was labelled, UTC.",
    },
    "versions": {
        "is_latest": "Whether nothing replaced it.",
        "superseded_by": "Memory that replaced it.",
    },
    "decided_memories": {
        "pruned_at": "From when on it is not served, by decision.",
        "confidence": "How sure it is, by decision.",
    },
    "vector_spaces": {
        "embedder": "The setting: `minilm`, `bge-small-en-v1.5`, `multilingual-e5-small`, a model's name or folder, or "
        "`openai:MODEL`.",
        "space": "What a vector depends on besides its text: model, number format, pooling, token limit, prefixes.",
        "dimensions": "Length of a vector.",
    },
    "redactions": {
        "uri": "Path inside the collection.",
        "kind": "What was found, such as a key, a password or a card number; never its value.",
        "field": "The field of the source that contained it.",
        "line": "Line of the source, from 1.",
    },
    "rejects": {
        "uri": "Path inside the collection.",
        "stage": "Where it failed.",
        "reason": "Why it was rejected.",
    },
}


def description(table: str, column: str) -> str | None:
    """Returns what a column contains, in one sentence; None where nothing describes it."""
    return _OWN.get(table, {}).get(column) or _COMMON.get(column)
