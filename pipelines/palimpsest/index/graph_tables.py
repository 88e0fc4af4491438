"""The tables of links, entities, mentions, nodes and passages, by row and scope number."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.index.index_format import DISPUTE
from palimpsest.memories.formed import repeated_by_formed
from palimpsest.memories.vector_space import IndexedSpace
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.labelers.low_trust import is_low_trust
from palimpsest.store.tables import SCHEMAS, Schema, completed
from palimpsest.text.terms import LONG_TOKENS, SentenceTerms, cut_sentences, keys_of_sentences, name_key, name_words
from palimpsest.text.words import SEARCH_STOPWORDS

_LINKING = ("UPDATE", "EXTEND", "DERIVE")


def graph_tables(
    tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame, scopes: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Returns links, entities and mentions by row and scope number; none spans two scopes.

    Args:
        tables: tables of the build.
        rows: memory_id, row and scope of every memory.
        scopes: the scopes with their numbers.
    """
    numbers = scopes.select(*SCOPE, "scope")
    entities, mentions = _entities_and_mentions(tables, rows, numbers)
    return {"links": _links(tables, rows), "entities": entities, "mentions": mentions}


def linking_relations(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations that are links: those with a label, and what is disputed under a label of its own.

    What disputes another ranks above it, but not where the newer may be wrong: a static conflict, or trusted less. It
    disputes the formed memories that repeat the other, too.

    Args:
        relations: the relations table.
        memories: the memories table.
    """
    relations = completed("relations", relations)
    may_be_wrong = (pl.col("conflict") == "static").fill_null(False) | is_low_trust()
    is_disputed = (pl.col("consequence") == DISPUTED) & ~may_be_wrong
    disputed = relations.filter(is_disputed).with_columns(
        label=pl.lit(DISPUTE), confidence=pl.col("likelihood").fill_null(1.0)
    )
    labelled = relations.filter(pl.col("label").is_in(_LINKING))
    of_formed = repeated_by_formed(disputed.sort("confidence", "relation_id", descending=[True, False]), memories)
    return pl.concat([labelled, disputed, of_formed])


def _links(tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame) -> pl.DataFrame:
    newer = rows.rename({"memory_id": "newer_id", "row": "newer_row"})
    older = rows.rename({"memory_id": "older_id", "row": "older_row"})
    confidence = pl.col("confidence").fill_null(1.0).cast(pl.Float32)
    return (
        linking_relations(tables["relations"], tables["memories"])
        .join(newer, on="newer_id")
        .join(older, on=["older_id", "scope"])
        .select("scope", "newer_row", "older_row", "label", confidence, "relation_id")
        .sort("newer_row", "older_row", "label", "relation_id")
    )


def _entities_and_mentions(
    tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame, numbers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    entities = (
        tables["entities"]
        .join(numbers, on=SCOPE)
        .sort("scope", "entity_id")
        .with_row_index("entity")
        .with_columns(pl.col("entity").cast(pl.Int32))
    )
    mentions = (
        tables["mentions"]
        .select("memory_id", "entity_id")
        .unique()
        .join(rows, on="memory_id")
        .join(entities.select("entity_id", "scope", "entity"), on=["entity_id", "scope"])
        .select("row", "entity")
        .sort("row", "entity")
    )
    df = mentions.group_by("entity").agg(pl.len().cast(pl.Int32).alias("df"))
    entities = entities.join(df, on="entity", how="left", maintain_order="left").select(
        "entity", "scope", "entity_id", "name", "type", pl.col("df").fill_null(0)
    )
    return entities, mentions


# The tables of nodes, what they are called, their memories, vectors and edges, and of facts, by number and scope.

_BATCH = 50_000  # vectors copied at a time
_LEAST_PART_LETTERS = 3  # of a word of a name by which a node is found
_WHOLE_ONLY = ("category", "concept", "date", "topic")  # their words are words of the language
_BY_NUMBER = {"subject_id": "subject", "object_id": "object", "memory_ids": "rows"}
_NODE_COLUMNS = ("node", "scope", *(c for c in SCHEMAS["nodes"] if c not in SCOPE))
_FACT_COLUMNS = ("fact", "scope", *(_BY_NUMBER.get(c, c) for c in SCHEMAS["facts"] if c not in SCOPE))
_EDGE_COLUMNS = ("scope", "source", "target", "type", "weight", "provenance", "rows", "created_at", "updated_at")


def node_tables(
    tables: Mapping[str, pl.DataFrame],
    rows: pl.DataFrame,
    scopes: pl.DataFrame,
    vectors: Iterable[pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """Returns `nodes`, `node_names`, `node_members`, `node_vectors`, `edges`, `facts` and `fact_members`.

    Nodes and facts are numbered in the order (scope, id), so that those of a scope follow each other. Nothing spans
    two scopes: a fact or an edge whose ends are not both nodes of its scope is left out.

    Args:
        tables: tables of the build.
        rows: memory_id, row, scope and collection of every memory.
        scopes: the scopes with their numbers.
        vectors: (row, vector) of every memory, a table for each space, sorted by row and window.
    """
    numbers = scopes.select(*SCOPE, "scope")
    nodes = _numbered(tables["nodes"].join(numbers, on=SCOPE), "node_id", "node")
    ids = nodes.select("node_id", "scope", "node")
    members = _members(tables, rows, ids)
    facts = _facts(tables["facts"], rows, numbers, ids)
    return {
        "nodes": nodes.select(_NODE_COLUMNS),
        "node_names": _names(nodes),
        "node_members": members,
        "node_vectors": _vectors(members, vectors),
        "edges": _edges(tables["edges"], rows, numbers, ids),
        "facts": facts,
        "fact_members": facts.select("fact", row="rows")
        .explode("row")
        .drop_nulls()
        .select("row", "fact")
        .sort("row", "fact"),
    }


def _numbered(frame: pl.DataFrame, key: str, number: str) -> pl.DataFrame:
    return frame.sort("scope", key).with_row_index(number).with_columns(pl.col(number).cast(pl.Int32))


def _members(tables: Mapping[str, pl.DataFrame], rows: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """Returns (node, row, relevance): an entity has the memories that name it, a topic those that belong to it.

    Relevance is in tenths, as in Neo4j, where each shift of it would be a write.
    """
    parts = (
        tables["mentions"].select("memory_id", node_id="entity_id", relevance=pl.lit(1.0)),
        tables["topic_memories"].select("memory_id", "relevance", node_id="topic_id"),
        tables["node_memories"].select("memory_id", "node_id", pl.col("relevance").fill_null(1.0)),
    )
    columns = ("node_id", "memory_id", "relevance")
    return (
        pl.concat([p.select(columns) for p in parts])
        .join(rows.select("memory_id", "row", "scope"), on="memory_id")
        .join(ids, on=["node_id", "scope"])
        .group_by("node", "row")
        .agg(pl.col("relevance").max().round(1).cast(pl.Float32))
        .sort("node", "row")
    )


def _names(nodes: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, name, node, is_whole): each name as `name_words` writes it, and each long word of it."""
    found: set[tuple[int, str, int, bool]] = set()
    for node, scope, kind, name, aliases in nodes.select("node", "scope", "type", "name", "aliases").iter_rows():
        names, words = names_of_node(kind, name, aliases)
        found |= {(scope, n, node, True) for n in names} | {(scope, word, node, False) for word in words}
    schema = {"scope": pl.Int32, "name": pl.String, "node": pl.Int32, "is_whole": pl.Boolean}
    return pl.DataFrame(sorted(found), schema=schema, orient="row")


def names_of_node(kind: str | None, name: str | None, aliases: Sequence[str] | None) -> tuple[set[str], set[str]]:
    """Returns the names that a node is found by, as `name_words` writes them, and the long words of several."""
    names = {name_words(n) for n in (name, *(aliases or ())) if n}
    parts = [n.split() for n in names] if kind not in _WHOLE_ONLY else []
    return names, {word for words in parts if len(words) > 1 for word in words if _is_part(word)}


def _is_part(word: str) -> bool:
    return len(word) >= _LEAST_PART_LETTERS and word not in SEARCH_STOPWORDS


def _facts(facts: pl.DataFrame, rows: pl.DataFrame, numbers: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """Returns facts between nodes, or of a node and a value; `rows` are the memories that state each."""
    known = _with_rows(facts.join(numbers, on=SCOPE), rows, ["scope", "fact_id"])
    subjects = ids.rename({"node_id": "subject_id", "node": "subject"})
    objects = ids.rename({"node_id": "object_id", "node": "object"})
    between = known.join(subjects, on=["subject_id", "scope"]).join(objects, on=["object_id", "scope"], how="left")
    whole = between.filter(pl.col("object_id").is_null() | pl.col("object").is_not_null())
    return _numbered(whole, "fact_id", "fact").select(_FACT_COLUMNS)


def _edges(edges: pl.DataFrame, rows: pl.DataFrame, numbers: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    known = _with_rows(edges.join(numbers, on=SCOPE), rows, ["scope", "source_id", "target_id", "type"], needed=False)
    sources = ids.rename({"node_id": "source_id", "node": "source"})
    targets = ids.rename({"node_id": "target_id", "node": "target"})
    between = known.join(sources, on=["source_id", "scope"]).join(targets, on=["target_id", "scope"])
    return between.select(_EDGE_COLUMNS).sort("scope", "source", "target", "type")


def _with_rows(frame: pl.DataFrame, rows: pl.DataFrame, key: Sequence[str], needed: bool = True) -> pl.DataFrame:
    """Returns a frame with the `rows` of its memories; without what needs a memory of its scope and has none."""
    located = (
        frame.select(*key, memory_id="memory_ids")
        .explode("memory_id")
        .join(rows.select("memory_id", "row", "scope"), on=["memory_id", "scope"])
        .group_by(key)
        .agg(rows=pl.col("row").unique().sort())
    )
    found = frame.join(located, on=key, how="inner" if needed else "left")
    if needed:
        return found
    stated = pl.col("memory_ids").list.len().fill_null(0) > 0
    empty = pl.lit([], pl.List(pl.Int32))
    return found.filter(pl.col("rows").is_not_null() | ~stated).with_columns(pl.col("rows").fill_null(empty))


def _vectors(members: pl.DataFrame, vectors: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Returns (node, vector) of nodes with memories: the mean of their first vectors, of length 1, as float16."""
    found = [mean for of_space in vectors for mean in _means(members, of_space)]
    return pl.DataFrame(sorted(found), schema={"node": pl.Int32, "vector": pl.Binary}, orient="row")


def _means(members: pl.DataFrame, vectors: pl.DataFrame) -> list[tuple[int, bytes]]:
    """Returns the vector of each node of one space; a sum adds its vectors in the order of rows."""
    mine = members.join(vectors.select("row").unique(), on="row", how="semi").sort("node", "row")
    if mine.is_empty():
        return []
    place = np.searchsorted(vectors["row"].to_numpy(), mine["row"].to_numpy())  # of the first vector of a row
    nodes, index = np.unique(mine["node"].to_numpy(), return_inverse=True)
    matrix = vectors["vector"].to_numpy()
    sums = np.zeros((len(nodes), matrix.shape[1]), np.float32)
    for start in range(0, len(place), _BATCH):
        here = slice(start, start + _BATCH)
        np.add.at(sums, index[here], matrix[place[here]])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    unit = (sums / np.where(lengths > 0, lengths, 1)).astype("<f2")
    return [(int(node), vector.tobytes()) for node, vector in zip(nodes, unit, strict=True)]


# The tables for spreading over passages: names to look up, titles, sentences.

_AFTER_TITLE = re.compile(r"(?:(?<!\s)\s++)?\([^()]*+\)\s*+$")  # `Rush (band)` is also Rush
_NAMES: Schema = {"scope": pl.Int32, "key": pl.Int64, "entity": pl.Int32}
_TITLES: Schema = {"row": pl.Int32, "entity": pl.Int32}
_SENTENCES: Schema = {
    "row": pl.Int32,
    "spans": pl.List(pl.Int32),
    "counts": pl.List(pl.Int32),
    "entities": pl.List(pl.Int32),
    "vectors": pl.Binary,
    "term_counts": pl.List(pl.Int32),
    "terms": pl.Binary,
}


def passage_tables(
    t: Mapping[str, pl.DataFrame],
    rows: pl.DataFrame,
    entities: pl.DataFrame,
    spaces: Mapping[str, IndexedSpace],
) -> dict[str, pl.DataFrame]:
    """Returns `names` (scope, key, entity), `titles` (row, entity) and `sentences`.

    Names and titles are of scopes searched over names. A row of sentences has all of a memory's: `spans` in its text,
    start and end in turn; how many `entities` each names and these one after the other, `counts` being empty outside
    such scopes; the sentences' vectors as float16, little-endian, null where they have none; how many distinct terms
    each has and `term_key`s of these one after the other, int64, little-endian. Outside such scopes only memories of
    more than `LONG_TOKENS` tokens have sentences.

    Args:
        t: context_inputs, mentions, memories and entities as in `store.tables`.
        rows: (memory_id, row, scope, collection) of every memory.
        entities: (entity, scope, entity_id) of the index.
        spaces: the vectors of text hashes, by collection.
    """
    language = t["memories"].select("memory_id", "language")
    inputs = t["context_inputs"].filter(pl.col("kind") == "sentence").join(language, on="memory_id", how="left")
    embedded_rows = rows.drop("collection").join(inputs.select("memory_id").unique(), on="memory_id", how="semi")
    scopes = embedded_rows.select("scope").unique()
    names = _passage_tables_names(t["entities"], entities.join(scopes, on="scope", how="semi"))
    titled = (
        t["memories"].select("memory_id", "title").join(embedded_rows, on="memory_id").filter(pl.col("title") != "")
    )
    titles = _titles(titled, names)
    names = pl.concat([names, _short_titles(titled, names)]).sort(list(_NAMES))
    long = t["memories"].filter(pl.col("token_count") > LONG_TOKENS).join(inputs, on="memory_id", how="anti")
    long = long.join(rows, on="memory_id").select("row", "text", "language")
    cut = {row: cut_sentences(text, language) for row, text, language in long.iter_rows()}
    sentences = _sentences(t["mentions"], inputs, rows, entities, spaces, cut)
    return {"names": names, "titles": titles, "sentences": sentences}


def _passage_tables_names(entity_rows: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns the names of entities by key; a name of several entities is the lowest one's."""
    named = entity_rows.select("entity_id", name=pl.concat_list("name", pl.col("aliases").fill_null([]))).explode(
        "name"
    )
    named = named.drop_nulls().join(entities.select("entity_id", "entity", "scope"), on="entity_id")
    keyed = named.with_columns(key=pl.Series([name_key(n) for n in named["name"]], dtype=pl.Int64))
    out = keyed.select(pl.col("scope").cast(pl.Int32), "key", pl.col("entity").cast(pl.Int32))
    return out.sort(list(_NAMES)).unique(["scope", "key"], keep="first", maintain_order=True)


def _titles(titled: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    keys = [(r, s, name_key(x)) for _, title, r, s in titled.iter_rows() for x in {title, _short_title(title)} if x]
    frame = pl.DataFrame(keys, schema={"row": pl.Int32, "scope": pl.Int32, "key": pl.Int64}, orient="row")
    return frame.join(names, on=["scope", "key"]).select(list(_TITLES)).unique().sort("row", "entity")


def _short_titles(titled: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Returns the titles without their brackets, for all entities so titled, where no entity has that name."""
    pairs = titled.select("scope", "title").unique().iter_rows()
    keys = [
        (s, name_key(title), name_key(short)) for s, title in pairs if (short := _short_title(title)) not in ("", title)
    ]
    schema: Schema = {"scope": pl.Int32, "title": pl.Int64, "key": pl.Int64}
    unused = pl.DataFrame(keys, schema=schema, orient="row").join(names, on=["scope", "key"], how="anti")
    return unused.join(names.rename({"key": "title"}), on=["scope", "title"]).select(list(_NAMES)).unique()


def _short_title(title: str) -> str:
    return _AFTER_TITLE.sub("", title)


def _sentences(
    mentions: pl.DataFrame,
    inputs: pl.DataFrame,
    rows: pl.DataFrame,
    entities: pl.DataFrame,
    spaces: Mapping[str, IndexedSpace],
    cut: Mapping[int, SentenceTerms],
) -> pl.DataFrame:
    """Returns one row a memory, in the order of memories; those without sentences have empty lists.

    Args:
        mentions: see `passage_tables`.
        inputs: the sentences of context_inputs, with the language of their memories.
        rows: see `passage_tables`.
        entities: see `passage_tables`.
        spaces: see `passage_tables`.
        cut: sentences of other memories, by row.
    """
    if inputs.is_empty() and not cut:
        return pl.DataFrame(schema=_SENTENCES)
    sentences = inputs.join(rows.select("memory_id", "row", "collection"), on="memory_id")
    sentences = sentences.sort("row", "ordinal")
    sentences = sentences.with_row_index("number")
    named = _named(sentences, mentions, entities)
    vectors = np.full(sentences.height, b"", object)  # each of the dimension of its space
    hashed = sentences.filter(pl.col("text_hash").is_not_null())
    # Sentences of one collection may have vectors while those of another have none.
    without = sentences.filter(pl.col("text_hash").is_null())["row"].to_numpy()
    embedded = ~np.isin(np.arange(rows.height), without) if hashed.height else np.zeros(rows.height, bool)
    for (collection,), part in hashed.group_by("collection"):
        found = spaces[str(collection)].lookup(part["text_hash"].to_list()).astype("<f2")
        vectors[part["number"].to_numpy()] = [v.tobytes() for v in found]
    at = np.searchsorted(sentences["row"].to_numpy(), np.arange(rows.height + 1)).tolist()
    names_at = np.searchsorted(named["number"].to_numpy(), np.arange(sentences.height + 1))
    spans = sentences.select("char_start", "char_end").to_numpy().astype(np.int32)
    counts, entity = np.diff(names_at).astype(np.int32), named["entity"].to_numpy()
    term_counts, keys = keys_of_sentences(sentences.select("text", "language").iter_rows())
    keys_at = np.concatenate([[0], np.cumsum(term_counts)])
    records = [
        _cut_record(row, cut[row])
        if row in cut
        else (
            row,
            spans[a:b].ravel().tolist(),
            counts[a:b].tolist(),
            entity[names_at[a] : names_at[b]].tolist(),
            b"".join(vectors[a:b]) if embedded[row] else None,
            term_counts[a:b].tolist(),
            keys[keys_at[a] : keys_at[b]].tobytes(),
        )
        for row, (a, b) in enumerate(pairwise(at))
    ]
    return pl.DataFrame(records, schema=_SENTENCES, orient="row")


def _named(sentences: pl.DataFrame, mentions: pl.DataFrame, entities: pl.DataFrame) -> pl.DataFrame:
    """Returns (number, entity) of the entities named in each sentence, by number."""
    located = mentions.filter(pl.col("char_start").is_not_null()).select("memory_id", "entity_id", at="char_start")
    located = located.join(entities.select("entity_id", "entity"), on="entity_id")
    return (
        sentences.select("number", "memory_id", "char_start", "char_end")
        .join(located, on="memory_id")
        .filter(pl.col("at").is_between("char_start", "char_end", closed="left"))
        .select("number", "entity")
        .unique()
        .sort("number", "entity")
    )


def _cut_record(row: int, s: SentenceTerms) -> tuple[object, ...]:
    """Returns the record of a memory outside scopes searched over names."""
    return row, s.spans.ravel().tolist(), [], [], None, s.counts.tolist(), s.keys.tobytes()
