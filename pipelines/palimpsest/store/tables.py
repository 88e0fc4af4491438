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

_Type = pl.DataType | type[pl.DataType]
Schema = dict[str, _Type]

# The columns of each table in their order: their types, and what each means where it is not of `_COMMON`.
_TABLES: dict[str, dict[str, _Type | tuple[_Type, str]]] = {
    # One row for each version of a document in the ingest log. `seq` orders the versions of a (uri, session).
    "documents": {
        "document_id": _S,
        **_SCOPE,
        "session_id": _S,
        "uri": (_S, "Path inside the collection."),
        "title": _S,
        "media_type": (_S, "Media type that the source was read as."),
        "content_hash": (_S, "Hash of the source's bytes."),
        "source_time": (_T, "Date that the source states, UTC; never the file's own time."),
        "utc_offset": _I,
        "ingested_at": (_T, "When this version was first read, UTC."),
        "metadata": (_S, "Front matter or properties, as JSON."),
        "seq": (_I, "Order of the versions of one source."),
        "is_current": (_B, "Whether this is the version on disk now."),
        "superseded_by": (_S, "Document version that came after it."),
        "kind": (_S, "What the source is: message, file, tool or import."),
        "trust": (_F, "How far its least trusted part is trusted, 0 to 1."),
    },
    # The extracted text of each document version, which every char span points into; segments as readers gave them.
    "document_texts": {
        "document_id": _S,
        "text": (_S, "Extracted text, which every span points into."),
        "segments": (_S, "Parts as read, as JSON."),
    },
    # Stated by metadata: they override dates (decision 5).
    "document_relations": {
        **_SCOPE,
        "newer_uri": (_S, "Source that states the relation."),
        "older_uri": (_S, "Source that it names."),
        "label": (_S, "UPDATE or EXTEND, as stated."),
    },
    "chunks": {
        "chunk_id": (_S, "Chunk, 16 hex digits."),
        "document_id": _S,
        **_SCOPE,
        "ordinal": _I,
        "text": (_S, "Text of the span."),
        "char_start": _I,
        "char_end": _I,
        "heading": _S,
        "page": _I,
        "speaker": _S,
        "said_at": (_T, "When it was said, UTC."),
        "utc_offset": _I,
        "token_count": _I,
        "refers_to": _S,
        "stated": (_S, "What its turns state about themselves, as JSON."),
        "created_at": (_T, "When the first version of its document that has it was read, UTC."),
        "updated_at": (
            _T,
            "When the version that changed its heading, referent or what its turns state was read, UTC.",
        ),
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
        "unit": (_S, "What one memory is in this collection: chunk, turn or statement."),
        "type": (_S, "Type, such as episodic, semantic, document, preference or task."),
        "text": (_S, "Text that is embedded and shown."),
        "search_text": (_S, "Text that word search sees: title, heading, speaker and written-out dates are added."),
        "chunk_ids": (pl.List(_S), "Chunks that it was formed from."),
        "title": _S,
        "heading": _S,
        "refers_to": _S,
        "page": _I,
        "speaker": _S,
        "char_start": _I,
        "char_end": _I,
        "observed_at": (_T, "When it was said or dated, UTC; empty where nothing states it."),
        "utc_offset": _I,
        "valid_from": _T,
        "valid_until": _T,
        "confidence": (_F, "How sure it is, 0 to 1; empty where nothing states it."),
        "importance": (_F, "How important it is, 0 to 1; empty where nothing states it."),
        "tags": (pl.List(_S), "Tags that the source states."),
        "provenance": (_S, "Where it comes from, as JSON."),
        "retention_until": (_T, "From when on it is not served and its text is removed, UTC."),
        "token_count": _I,
        "kind": (_S, "What its source is: message, file, tool or import."),
        "pii": (_B, "Whether it is marked as personal data."),
        "user_visible": (_B, "Whether a search shows it by default."),
        "language": (_S, "Language of its text, ISO 639-1; empty where it is too short or not clear."),
        "importance_source": (_S, "Where the importance comes from."),
        "confidence_source": (_S, "Where the confidence comes from."),
        "trust": (_F, "How far its source is trusted, 0 to 1; it never replaces what is trusted more."),
        "created_at": (_T, "When the first version of its document that has it was read, UTC."),
        "updated_at": (_T, "When what it or its document states of it last changed, UTC."),
    },
    # What one session says that is worth keeping, with its evidence; `note_id` is the same for all items of a session.
    "notes": {
        "item_id": (_S, "Item of a note, 16 hex digits."),
        "note_id": (_S, "Note of a session, 16 hex digits: the same for all its items."),
        **_SCOPE,
        "session_id": _S,
        "document_id": _S,
        "kind": (
            _S,
            "What the item is: fact, preference, decision, solution, gap, inference, emotion, topic or connection.",
        ),
        "statement": (_S, "What it says, in a sentence that can be read alone."),
        "quote": (_S, "The words of the session that say it."),
        "char_start": _I,
        "char_end": _I,
        "chunk_ids": (pl.List(_S), "Chunks that it rests on."),
        "confidence": (_F, "How sure it is, 0 to 1."),
        "is_saved": (_B, "Whether a person requests that it is remembered."),
        "alternatives": (pl.List(_S), "What else the evidence could mean."),
        "invalidation_conditions": (pl.List(_S), "What would make it wrong."),
        "related_note_ids": (pl.List(_S), "Notes that it is connected with."),
        "extractor": (_S, "Who formed it: rules or lm."),
    },
    # What is embedded for each memory: one text of kind "memory", or several of kind "window" over 256 tokens.
    "embed_inputs": {
        "memory_id": _S,
        "kind": (_S, "memory, or window of a text of more than 256 tokens."),
        "ordinal": _I,
        "text": (_S, "Text that is embedded."),
        "text_hash": _S,
    },
    # What is embedded as well: the sentences of a titled passage. `text_hash` is null where they get no vectors.
    "context_inputs": {
        "memory_id": _S,
        "kind": (_S, "What part of the memory it is."),
        "ordinal": _I,
        "text": (_S, "Sentence of a titled passage."),
        "text_hash": (_S, "Hash of the text; empty where the sentence has no vector."),
        "char_start": _I,
        "char_end": _I,
    },
    # The space of the vectors that the collection is searched with: one row.
    "vector_spaces": {
        "collection": _S,
        "embedder": (_S, "The setting: `minilm`, `bge-small-en-v1.5`, a model's name or folder, or `openai:MODEL`."),
        "space": (
            _S,
            "What a vector depends on besides its text: model, number format, pooling, token limit, prefixes.",
        ),
        "dimensions": (_I, "Length of a vector."),
    },
    "entities": {
        "entity_id": _S,
        **_SCOPE,
        "name": (_S, "Name that it is shown by."),
        "type": (_S, "Kind of name, such as person, place or product."),
        "aliases": (pl.List(_S), "Other names in the texts."),
    },
    "mentions": {"memory_id": _S, "entity_id": _S, **_SCOPE, "char_start": _I, "char_end": _I},
    # Who says `I` and is named in no text, where facts are stated of them.
    "speakers": {
        "entity_id": _S,
        **_SCOPE,
        "name": (_S, "As turns name who speaks."),
        "memory_ids": (pl.List(_S), "Memories in which they state something."),
    },
    # What one clause of a memory states of an entity; carried over from build to build.
    "clause_facts": {
        "memory_id": _S,
        **_SCOPE,
        "subject_id": (_S, "Entity that the clause is about."),
        "predicate": (_S, "What the clause states of it: a name of the vocabulary, else verb and preposition."),
        "object_id": (_S, "The other entity, where there is one."),
        "value": (_S, "Words that fill the predicate, where no other entity does."),
        "char_start": (_I, "Where the clause begins in the memory's text."),
        "char_end": (_I, "Where it ends."),
        "is_negated": (_B, "Whether the clause denies it."),
        "modality": (_S, "stated, past or planned."),
        "confidence": (_F, "How sure it is, 0 to 1."),
        "extractor": (_S, "rules, or lm for a language model."),
    },
    # What a language model says of an entity that a memory names; empty where rules alone read facts.
    "stated_entities": {
        "memory_id": _S,
        **_SCOPE,
        "entity_id": (_S, "Entity that the memory names."),
        "type": (_S, "What the model takes it for, such as person or product."),
        "importance": (_F, "How important it is for the text, 0 to 1."),
    },
    # The same of all memories that state it, with the time in which it is valid.
    "facts": {
        "fact_id": (_S, "Fact, 16 hex digits."),
        **_SCOPE,
        "subject_id": (_S, "Entity that it is about."),
        "predicate": (_S, "What is stated of it."),
        "object_id": (_S, "The other entity, where there is one."),
        "value": (_S, "Words that fill the predicate, where no other entity does."),
        "is_negated": (_B, "Whether it is denied."),
        "modality": (_S, "stated, past or planned."),
        "valid_from": _T,
        "valid_until": _T,
        "is_latest": (_B, "Whether a memory that states it is latest."),
        "memory_ids": (pl.List(_S), "Memories that state it."),
        "confidence": (_F, "How sure it is, 0 to 1."),
    },
    # Why two names are one: in the whole scope, or in one document; the memory that shows it, where one does.
    "merges": {
        "entity_id": _S,
        **_SCOPE,
        "alias": (_S, "Name that was merged."),
        "name": (_S, "Name that it was merged into."),
        "why": (_S, "Rule or decision that made them one."),
        "memory_id": (_S, "Memory that shows it, where one does."),
        "document_id": (_S, "Document that it applies to; empty for the whole scope."),
    },
    # What could be a name in each memory, before names are resolved: carried over from build to build.
    "surfaces": {
        "memory_id": _S,
        **_SCOPE,
        "surface": (_S, "Possible name, as written."),
        "key": (_S, "The same, folded for comparison."),
        "kind": (_S, "Kind of name that the cue indicates."),
        "initial": (_B, "Whether it begins a sentence."),
        "cue": (_S, "Adjacent word that shows a name."),
        "same_as": (_S, "Another name of the same thing, stated by the text."),
        "why": (_S, "The wording that states it."),
        "char_start": _I,
        "char_end": _I,
    },
    "topics": {
        "topic_id": _S,
        **_SCOPE,
        "label": (_S, "Phrase that names it."),
        "size": (_I, "Memories that belong to it."),
    },
    "topic_edges": {
        "source_id": (_S, "Topic at the start."),
        "target_id": (_S, "Topic at the end."),
        **_SCOPE,
        "kind": (_S, "subtopic_of or related_to."),
        "weight": (_F, "Strength, 0 to 1."),
    },
    "topic_memories": {
        "topic_id": _S,
        "memory_id": _S,
        **_SCOPE,
        "relevance": (_F, "How strongly the memory belongs to the topic, 0 to 1."),
    },
    "candidate_pairs": {
        "newer_id": _S,
        "older_id": _S,
        **_SCOPE,
        "why": (_S, "What made them a pair."),
        "score": (_F, "How alike they are; orders the pairs."),
    },
    "relations": {
        "relation_id": (_S, "Relation, 16 hex digits."),
        **_SCOPE,
        "newer_id": _S,
        "older_id": _S,
        "label": (_S, "UPDATE, EXTEND, DERIVE or NONE."),
        "conflict": (
            _S,
            "dynamic (the world changed), static (the newer is mistaken) or conditional; empty without one.",
        ),
        "consequence": (
            _S,
            "superseded (the older one is retired, or a part of it), disputed (both are latest), or empty.",
        ),
        "part": (_S, "Spans of the older text that the newer memory ends, as JSON; empty where that is all of it."),
        "likelihood": (
            _F,
            "Probability that the newer memory ends the older one or a part of it; empty if not estimated.",
        ),
        "confidence": (_F, "How sure the labeler is, 0 to 1."),
        "labeler": (_S, "What labelled it."),
        "program_hash": (_S, "Version of the labeler's program."),
        "input_hash": (_S, "Hash of what the labeler was given."),
        "evidence": (_S, "Spans that show it, as JSON."),
        "decided_at": (_T, "When it was labelled, UTC."),
    },
    # Entities, topics and what is formed from them, as the graph shows them.
    "nodes": {
        "node_id": (_S, "Node: an entity's or a topic's own id, else 16 hex digits."),
        **_SCOPE,
        "type": (_S, "person, organisation, place, product, project, event, category, topic, concept or date."),
        "name": (_S, "Name that it is shown by."),
        "description": (_S, "What its memories say it is."),
        "aliases": (pl.List(_S), "Other names in the texts."),
        "importance": (_F, "0 to 1, from its facts and mentions."),
        "memory_count": (_I, "Memories that belong to it."),
        "created_at": (_T, "When the first of its memories was read, UTC."),
        "updated_at": (_T, "When its memories last changed, UTC."),
        "metadata": (_S, "Further values, as JSON."),
    },
    "edges": {
        "source_id": (_S, "Node at the start."),
        "target_id": (_S, "Node at the end."),
        **_SCOPE,
        "type": (_S, "subtopic_of, related_to, part_of, depends_on or precedes."),
        "weight": (_F, "Strength, 0 to 1."),
        "provenance": (_S, "What made it: topics, a fact, a rule or a decision."),
        "memory_ids": (pl.List(_S), "Memories that show it."),
        "created_at": (_T, "When the first of these was read, UTC."),
        "updated_at": (_T, "When these last changed, UTC."),
    },
    # Of nodes that are neither entities nor topics.
    "node_memories": {
        "node_id": (_S, "Node that the memory belongs to."),
        "memory_id": _S,
        **_SCOPE,
        "relevance": (_F, "How strongly the memory belongs to it, 0 to 1."),
    },
    "node_positions": {
        "node_id": (_S, "Node."),
        **_SCOPE,
        "x": (_F, "Where it is drawn; a unit is the distance of two nodes that do not overlap."),
        "y": (_F, "The same, upwards."),
    },
    "versions": {
        "memory_id": _S,
        **_SCOPE,
        "is_latest": (_B, "Whether nothing replaced it."),
        "valid_from": _T,
        "valid_until": _T,
        "superseded_by": (_S, "Memory that replaced it."),
    },
    # What people decided of single memories: from when on one is not served, and its confidence.
    "decided_memories": {
        "memory_id": _S,
        **_SCOPE,
        "pruned_at": (_T, "From when on it is not served, by decision."),
        "confidence": (_F, "How sure it is, by decision."),
    },
    # What kind of secret was removed from what, and where its marker is in the stored text; never the secret.
    "redactions": {
        "document_id": _S,
        **_SCOPE,
        "session_id": _S,
        "uri": (_S, "Path inside the collection."),
        "kind": (_S, "What was found, such as a key, a password or a card number; never its value."),
        "field": (_S, "The field of the source that contained it."),
        "char_start": _I,
        "line": (_I, "Line of the source, from 1."),
    },
    "rejects": {
        "collection": _S,
        "uri": (_S, "Path inside the collection."),
        "stage": (_S, "Where it failed."),
        "reason": (_S, "Why it was rejected."),
        "is_kept": (_B, "Whether the last version that could be read is served for it."),
    },
}

SCHEMAS: dict[str, Schema] = {
    table: {name: column[0] if isinstance(column, tuple) else column for name, column in columns.items()}
    for table, columns in _TABLES.items()
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


# What columns mean that many tables have, as the UI shows it next to the schemas of `tables`; a table's own words win.

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
    "char_start": "First character in the document's text, counted from 0.",
    "char_end": "Character after the last one in the document's text.",
}


def description(table: str, column: str) -> str | None:
    """Returns what a column contains, in one sentence; None where nothing describes it."""
    declared = _TABLES.get(table, {}).get(column)
    return declared[1] if isinstance(declared, tuple) else _COMMON.get(column)
