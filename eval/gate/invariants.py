"""The invariants of DESIGN.md that can be checked on a finished build, each by a small function with a name."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

import polars as pl

from palimpsest.core.ids import text_hash
from palimpsest.core.scopes import SCOPE
from palimpsest.eval.gate.invariants_versions import check_versions
from palimpsest.eval.gate.violations import Tables, Violation, report
from palimpsest.sources.filters.erased_texts import ErasedTexts
from palimpsest.sources.records.document_row import TextRow
from palimpsest.store.decisions import Decisions
from palimpsest.store.tables import SCHEMAS, empty

# What must be unique in each table.
_KEYS = {
    "documents": ["document_id"],
    "document_texts": ["document_id"],
    "chunks": ["chunk_id"],
    "memories": ["memory_id"],
    "embed_inputs": ["memory_id", "kind", "ordinal"],
    "entities": ["entity_id"],
    "topics": ["topic_id"],
    "topic_memories": ["topic_id", "memory_id"],
    "relations": ["relation_id"],
    "versions": ["memory_id"],
    "context_inputs": ["memory_id", "kind", "ordinal"],
}

# Every column that names a row of another table: table, column, what it names, the id there.
_REFERENCES = (
    ("document_texts", "document_id", "documents", "document_id"),
    ("chunks", "document_id", "documents", "document_id"),
    ("memories", "document_id", "documents", "document_id"),
    ("embed_inputs", "memory_id", "memories", "memory_id"),
    ("context_inputs", "memory_id", "memories", "memory_id"),
    ("mentions", "memory_id", "memories", "memory_id"),
    ("mentions", "entity_id", "entities", "entity_id"),
    ("topic_memories", "memory_id", "memories", "memory_id"),
    ("topic_memories", "topic_id", "topics", "topic_id"),
    ("candidate_pairs", "newer_id", "memories", "memory_id"),
    ("candidate_pairs", "older_id", "memories", "memory_id"),
    ("relations", "newer_id", "memories", "memory_id"),
    ("relations", "older_id", "memories", "memory_id"),
    ("versions", "memory_id", "memories", "memory_id"),
    ("surfaces", "memory_id", "memories", "memory_id"),
    ("merges", "entity_id", "entities", "entity_id"),
    ("merges", "memory_id", "memories", "memory_id"),
    ("merges", "document_id", "documents", "document_id"),
)


def check_invariants(
    tables: Tables,
    index_path: Path | None = None,
    *,
    known_vectors: Collection[str] | None = None,
    decisions: Decisions | None = None,
) -> list[Violation]:
    """Returns every violation found, by invariant and name; none means that the build keeps all that can be checked.

    Args:
        tables: the tables of the build over all collections; one that is not there counts as empty.
        index_path: the build's DuckDB file; None leaves its checks out.
        known_vectors: text hashes that have a vector; None leaves that check out.
        decisions: what people decided in this home: versions follow from it, and what was deleted must be gone.
    """
    whole = {name: tables[name] if name in tables else empty(name) for name in SCHEMAS}
    if wrong := check_schema(whole):
        return wrong  # the other checks would trip over the first missing column
    found = [v for check in CHECKS for v in check(whole)] + check_versions(whole, decisions)
    if decisions is not None:
        found += check_deleted(whole, decisions)
    if known_vectors is not None:
        found += check_vectors(whole, known_vectors)
    if index_path is not None:
        from palimpsest.eval.gate.invariants_index import check_index

        found += check_index(whole, index_path)
    return sorted(found, key=lambda v: (v.invariant, v.name, v.message))


def check_schema(tables: Tables) -> list[Violation]:
    """1: every table has exactly the columns and types of the contract."""
    found = []
    for name, schema in SCHEMAS.items():
        actual = tables[name].schema
        wrong = [c for c in {**schema, **actual} if c not in actual or c not in schema or actual[c] != schema[c]]
        found += report(1, "schema", f"{name}: {{n}} columns differ from the contract", wrong)
    return found


def check_unique_ids(tables: Tables) -> list[Violation]:
    """1: every id is set, and is used once in its table."""
    found = []
    for name, key in _KEYS.items():
        parts = [pl.col(c).cast(pl.String).fill_null("null") for c in key]
        ids = tables[name].select(pl.concat_str(parts, separator="/")).to_series()
        twice = ids.filter(ids.is_duplicated()).unique()
        found += report(1, "unique_ids", f"{name}: {{n}} ids are used more than once", twice)
        unset = tables[name].filter(pl.any_horizontal(pl.col(key).is_null()))
        found += report(1, "unique_ids", f"{name}: {{n}} rows have no id", ["null"] * unset.height)
    return found


def check_references(tables: Tables) -> list[Violation]:
    """4: nothing outlives what it came from: every id that a row names exists."""
    found = []
    for name, column, target, key in _REFERENCES:
        named = tables[name].select(pl.col(column).alias(key)).drop_nulls().unique()
        gone = named.join(tables[target].select(key), on=key, how="anti")[key]
        found += report(4, "references", f"{name}.{column}: {{n}} ids are not in {target}", gone)
    chunks = tables["memories"].select(pl.col("chunk_ids").alias("chunk_id")).explode("chunk_id").drop_nulls().unique()
    gone = chunks.join(tables["chunks"].select("chunk_id"), on="chunk_id", how="anti")["chunk_id"]
    found += report(4, "references", "memories.chunk_ids: {n} ids are not in chunks", gone)
    nodes = pl.concat([tables["topics"]["topic_id"], tables["entities"]["entity_id"]])
    for column in ("source_id", "target_id"):
        ids = tables["topic_edges"][column].drop_nulls().unique()
        found += report(
            4, "references", f"topic_edges.{column}: {{n}} ids are no topic or entity", set(ids) - set(nodes)
        )
    used = pl.concat(
        [tables["mentions"]["entity_id"], tables["topic_edges"]["source_id"], tables["topic_edges"]["target_id"]]
    )
    orphans = set(tables["entities"]["entity_id"]) - set(used)
    return found + report(4, "orphans", "entities: {n} are mentioned nowhere", orphans)


def check_scopes(tables: Tables) -> list[Violation]:
    """3: nothing crosses a scope: every row lies in the scope of every row that it names."""
    owners = [
        tables[t].select(pl.col(key).alias("id"), *SCOPE)
        for t, key in (
            ("documents", "document_id"),
            ("memories", "memory_id"),
            ("entities", "entity_id"),
            ("topics", "topic_id"),
        )
    ]
    owner = pl.concat(owners).unique("id", keep="first").rename({c: f"of_{c}" for c in SCOPE})
    named = [(t, c) for t, c, _, _ in _REFERENCES] + [("topic_edges", "source_id"), ("topic_edges", "target_id")]
    found = []
    for name, column in named:
        if not set(SCOPE) <= set(SCHEMAS[name]):
            continue
        rows = (
            tables[name].select(pl.col(column).alias("id"), *SCOPE).drop_nulls("id").join(owner, on="id", how="inner")
        )
        crossing = rows.filter(pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"of_{c}")) for c in SCOPE))["id"].unique()
        found += report(3, "scopes", f"{name}.{column}: {{n}} ids belong to another scope", crossing)
    for name, schema in SCHEMAS.items():
        if set(SCOPE) <= set(schema):
            unset = tables[name].filter(pl.any_horizontal(pl.col(SCOPE).is_null()))
            found += report(3, "scopes", f"{name}: {{n}} rows have no scope", ["null"] * unset.height)
    return found


def check_spans(tables: Tables) -> list[Violation]:
    """8: the char span of every chunk and memory holds its text, and that of every mention lies in its memory."""
    texts = dict(tables["document_texts"].select("document_id", "text").iter_rows())
    found = []
    for name, key in (("chunks", "chunk_id"), ("memories", "memory_id")):
        columns = (key, "document_id", "text", "char_start", "char_end")
        wrong = {
            row_id
            for row_id, document_id, text, start, end in tables[name].select(columns).iter_rows()
            if start is None or end is None or start < 0 or text != (texts.get(document_id) or "")[start:end]
        }
        found += report(8, "spans", f"{name}: the spans of {{n}} do not hold their text", wrong)
    lengths = tables["memories"].select("memory_id", pl.col("text").str.len_chars().alias("length"))
    mentions = tables["mentions"].drop_nulls(["char_start", "char_end"]).join(lengths, on="memory_id", how="inner")
    outside = mentions.filter(
        (pl.col("char_start") < 0)
        | (pl.col("char_end") <= pl.col("char_start"))
        | (pl.col("char_end") > pl.col("length"))
    )
    return found + report(8, "spans", "mentions: {n} spans lie outside their memory", outside["memory_id"])


def check_embed_inputs(tables: Tables) -> list[Violation]:
    """6: every memory has something to embed, under the hash of just that text."""
    inputs = tables["embed_inputs"]
    bare = tables["memories"].join(inputs, on="memory_id", how="anti")["memory_id"]
    hashed = pl.concat([t.select("memory_id", "text", "text_hash") for t in (inputs, tables["context_inputs"])])
    wrong = {m for m, text, key in hashed.iter_rows() if key is not None and text_hash(text or "") != key}
    wrong |= set(inputs.filter(pl.col("text_hash").is_null())["memory_id"])
    return [
        *report(6, "embed_inputs", "{n} memories have nothing to embed", bare),
        *report(6, "embed_inputs", "{n} memories are embedded under another text's hash", wrong),
    ]


def check_vectors(tables: Tables, known: Collection[str]) -> list[Violation]:
    """7: every text that is to be embedded has a vector."""
    texts = pl.concat([tables[t].select("memory_id", "text_hash") for t in ("embed_inputs", "context_inputs")])
    without = texts.drop_nulls("text_hash").filter(~pl.col("text_hash").is_in(list(known)))["memory_id"].unique()
    return report(7, "vectors", "{n} memories have no vector", without)


def check_deleted(tables: Tables, decisions: Decisions) -> list[Violation]:
    """4: nothing that people deleted is in the build; told by id, for its name is not kept."""
    rows = (
        tables["documents"]
        .select("document_id", "collection", "user_id", "uri", "session_id", "project_id")
        .iter_rows()
    )
    back = {document_id for document_id, collection, *names in rows if decisions.hides_document(collection, *names)}
    found = report(4, "deleted", "{n} documents were deleted and are in the build", back)
    if not decisions.erased:
        return found
    erased, columns = ErasedTexts(decisions.erased), ("user_id", "uri", "session_id", "text", "segments")
    texts = (
        tables["documents"]
        .join(tables["document_texts"], on="document_id")
        .select("document_id", "collection", *columns)
    )
    held = set()
    for document_id, collection, *values in texts.iter_rows():
        row = dict(zip(columns, values, strict=True))
        removal = erased.remove_from(collection, cast(TextRow, row))
        if removal is None or removal.spans:
            held.add(document_id)
    return [*found, *report(4, "deleted", "{n} documents hold texts that were deleted", held)]


def check_rejects(tables: Tables) -> list[Violation]:
    """9: every reject says which source, where and why."""
    silent = tables["rejects"].filter(
        pl.any_horizontal(pl.col(c).fill_null("").str.strip_chars() == "" for c in ("uri", "stage", "reason"))
    )
    return report(9, "rejects", "{n} rejects do not say what, where and why", silent["uri"].fill_null("null"))


CHECKS: tuple[Callable[[Tables], list[Violation]], ...] = (
    check_unique_ids,
    check_references,
    check_scopes,
    check_spans,
    check_embed_inputs,
    check_rejects,
)
