"""The tables of links, entities and mentions, by row and scope number."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.index.index_format import DISPUTE
from palimpsest.memories.formed import repeated_by_formed
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.labelers.low_trust import is_low_trust
from palimpsest.store.tables import completed
from palimpsest.text.terms import name_words
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
_NODE_COLUMNS = (
    "node",
    "scope",
    "node_id",
    "type",
    "name",
    "description",
    "aliases",
    "importance",
    "memory_count",
    "created_at",
    "updated_at",
    "metadata",
)
_FACT_COLUMNS = (
    "fact",
    "scope",
    "fact_id",
    "subject",
    "predicate",
    "object",
    "value",
    "is_negated",
    "modality",
    "valid_from",
    "valid_until",
    "is_latest",
    "confidence",
    "rows",
)
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
