"""The type of each entity as a node: what most evidence shows, `concept` where none does."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from palimpsest.core.ids import SCOPE, content_id, scope_parts
from palimpsest.nodes.descriptions import member_description
from palimpsest.nodes.type_evidence import singular
from palimpsest.store.graph_decisions import NODE_TYPES
from palimpsest.store.tables import Schema

DEFAULT_TYPE = "concept"
_MIN_SCORE = {"person": 1.0, "place": 1.2, "project": 1.0}
_MIN_OTHER = 0.8  # more than numbers before a name, and one technical noun after it
_MAX_REPEATS = 9.0  # of one rule that count
_CODE = r"^([A-Z]{1,5}\d*-?)\d"
_SHARE_OF_PREFIX = 0.6


def node_types(entities: pl.DataFrame, evidence: pl.DataFrame) -> pl.DataFrame:
    """Returns (node_id, type, score, evidence): the type with the highest score; `evidence` is a list of structs.

    A rule adds its weight times the square root of how often it applies, at most threefold. Of equal scores the type
    first in `NODE_TYPES` counts. Serial numbers take the type of most numbers with the same letters, and first names
    that of the persons who have them.

    Args:
        entities: the entities table.
        evidence: as `type_evidence` returns it.
    """
    rules = evidence.group_by("node_id", "type", "rule").agg(
        weight=pl.col("weight").max(),
        count=pl.len(),
        noun=pl.col("noun").drop_nulls().mode().min(),
        memory_id=pl.col("memory_id").min(),
    )
    rules = rules.with_columns(
        score=(pl.col("weight") * pl.min_horizontal(pl.col("count"), _MAX_REPEATS).sqrt()).round(3)
    )
    rank = pl.col("type").replace_strict({t: i for i, t in enumerate(NODE_TYPES)}, return_dtype=pl.Int64)
    shown = pl.struct("rule", "noun", "count", "memory_id")
    scores = (
        rules.sort("node_id", "score", "rule", descending=[False, True, False])
        .group_by("node_id", "type", maintain_order=True)
        .agg(pl.col("score").sum().round(3), evidence=shown)
        .with_columns(rank=rank)
        .sort("node_id", "score", "rank", descending=[False, True, False])
        .unique("node_id", keep="first", maintain_order=True)
        .filter(
            pl.col("score") >= pl.col("type").replace_strict(_MIN_SCORE, default=_MIN_OTHER, return_dtype=pl.Float64)
        )
        .select("node_id", "type", "score", "evidence")
    )
    typed = entities.select(node_id="entity_id").join(scores, on="node_id", how="left")
    typed = _with_first_names(entities, _with_code_types(entities, typed))
    return typed.with_columns(pl.col("type").fill_null(DEFAULT_TYPE)).sort("node_id")


def _with_code_types(entities: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Gives serial numbers without a type that of most others with the same letters in their scope."""
    prefix = pl.col("name").str.extract(_CODE, 1).str.replace_all(r"\d", "")
    codes = entities.select(*SCOPE, node_id="entity_id", prefix=prefix).drop_nulls("prefix").join(typed, on="node_id")
    counts = codes.drop_nulls("type").group_by(*SCOPE, "prefix", "type").agg(n=pl.len())
    most = (
        counts.with_columns(share=pl.col("n") / pl.col("n").sum().over(*SCOPE, "prefix"))
        .filter(pl.col("share") >= _SHARE_OF_PREFIX)
        .sort("type")
        .unique([*SCOPE, "prefix"], keep="first", maintain_order=True)
        .select(*SCOPE, "prefix", like=pl.col("type"))
    )
    found = codes.filter(pl.col("type").is_null()).join(most, on=[*SCOPE, "prefix"]).select("node_id", "like")
    return (
        typed.join(found, on="node_id", how="left").with_columns(pl.coalesce("type", "like").alias("type")).drop("like")
    )


def _with_first_names(entities: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Makes a person of a single word without a type that is the first name of a person in its scope."""
    named = entities.select(*SCOPE, "name", node_id="entity_id").join(typed.select("node_id", "type"), on="node_id")
    words = pl.col("name").str.split(" ")
    first = named.filter((pl.col("type") == "person") & (words.list.len() > 1)).select(*SCOPE, name=words.list.first())
    short = named.filter(pl.col("type").is_null()).join(first.unique(), on=[*SCOPE, "name"], how="semi")
    is_short = pl.col("node_id").is_in(short["node_id"].implode())
    return typed.with_columns(pl.when(is_short).then(pl.lit("person")).otherwise("type").alias("type"))


# Categories: kinds of entities that a collection has, from folders, metadata and what its texts state.
#
# `customers/aldmoor.md`, `category: customers` and `the Trust is a customer` all put an entity into `customers`.

_FIELDS = ("category", "categories", "kind", "genre", "department", "section", "group")
_MAX_VALUE_CHARS = 40
_MIN_MEMBERS = 2
_MIN_STATED_MEMBERS = 3  # of a noun that no folder and no metadata has
_STATING_RULES = ("defined", "fact")
_MIN_TOPIC_SHARE, _MIN_TOPIC_MEMORIES = 0.6, 3
_MEMBER: Schema = {**dict.fromkeys((*SCOPE, "key", "label", "source", "entity_id", "memory_id"), pl.String)}


@dataclass(frozen=True)
class Categories:
    """The categories of all scopes.

    Attributes:
        nodes: (node_id, scope, name, description, metadata), sorted by id.
        members: (node_id, entity_id, source, memory_id); the memory that shows it, where one does.
        memories: (node_id, memory_id, scope, relevance).
    """

    nodes: pl.DataFrame
    members: pl.DataFrame
    memories: pl.DataFrame


def find_categories(
    titled: pl.DataFrame, evidence: pl.DataFrame, typed: pl.DataFrame, memories: pl.DataFrame
) -> Categories:
    """Returns the categories with at least two members each; those that texts alone state have three.

    Args:
        titled: as `titled_entities` returns them, without headings.
        evidence: as `type_evidence` returns it.
        typed: (entity_id, scope, name, type) of entities as nodes; a noun for another type makes no member.
        memories: the memories table.
    """
    first = (
        memories.sort("document_id", "ordinal", "memory_id")
        .unique("document_id", keep="first", maintain_order=True)
        .select("document_id", "memory_id")
    )
    documented = titled.join(first, on="document_id", how="left")
    found = pl.concat([_of_folders(documented), _of_metadata(documented), _stated(evidence, typed)])
    kinds = found.group_by(*SCOPE, "key").agg(
        n=pl.col("entity_id").n_unique(), only_stated=(pl.col("source") == "stated").all()
    )
    enough = kinds.filter(pl.col("n") >= pl.when("only_stated").then(_MIN_STATED_MEMBERS).otherwise(_MIN_MEMBERS))
    found = found.join(enough.select(*SCOPE, "key"), on=[*SCOPE, "key"], how="semi")
    keys = found.select(*SCOPE, "key").unique().sort(pl.all())
    ids = [content_id("node", *scope_parts(*row[:3]), "category", row[3]) for row in keys.iter_rows()]
    found = found.join(keys.with_columns(node_id=pl.Series(ids, dtype=pl.String)), on=[*SCOPE, "key"])
    return Categories(
        _nodes(found, typed),
        found.select("node_id", *SCOPE, "entity_id", "source", "memory_id").unique().sort(pl.all()),
        found.drop_nulls("memory_id")
        .select("node_id", "memory_id", *SCOPE, relevance=pl.lit(1.0))
        .unique()
        .sort("node_id", "memory_id"),
    )


def topics_in_categories(
    titled: pl.DataFrame, categories: Categories, topic_memories: pl.DataFrame, memories: pl.DataFrame
) -> pl.DataFrame:
    """Returns (source_id, target_id, scope, weight): topics most of whose memories are about members of a category."""
    by_document = (
        categories.members.select("node_id", "entity_id")
        .unique()
        .join(titled.select("entity_id", "document_id"), on="entity_id")
        .select("node_id", "document_id")
        .unique()
    )
    placed = topic_memories.select("topic_id", "memory_id", *SCOPE).join(
        memories.select("memory_id", "document_id"), on="memory_id"
    )
    sizes = placed.group_by("topic_id").agg(size=pl.len())
    counts = (
        placed.join(by_document, on="document_id")
        .group_by("topic_id", "node_id", *SCOPE)
        .agg(n=pl.col("memory_id").n_unique())
        .join(sizes, on="topic_id")
        .with_columns(weight=(pl.col("n") / pl.col("size")).round(2))
    )
    enough = (pl.col("n") >= _MIN_TOPIC_MEMORIES) & (pl.col("weight") >= _MIN_TOPIC_SHARE)
    return counts.filter(enough).select("weight", *SCOPE, source_id="topic_id", target_id="node_id")


def _of_folders(titled: pl.DataFrame) -> pl.DataFrame:
    rows = titled.filter(pl.col("folder").str.contains(r"\p{L}")).with_columns(
        label=pl.col("folder").str.to_lowercase()
    )
    return _members(rows, "folder")


def _of_metadata(titled: pl.DataFrame) -> pl.DataFrame:
    labels = [list(_values(m)) for m in titled["metadata"]]
    rows = titled.with_columns(label=pl.Series(labels, dtype=pl.List(pl.String))).explode("label")
    return _members(rows.drop_nulls("label"), "metadata")


def _values(metadata: str | None) -> Iterator[str]:
    if not metadata or not any(f'"{field}"' in metadata for field in _FIELDS):
        return
    fields: Mapping[str, object] = json.loads(metadata)
    for field in _FIELDS:
        value = fields.get(field)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and 0 < len(text.strip()) <= _MAX_VALUE_CHARS:
                yield " ".join(text.lower().split())


def _stated(evidence: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    rows = (
        evidence.filter(pl.col("rule").is_in(_STATING_RULES) & (pl.col("noun") != ""))
        .rename({"node_id": "entity_id"})
        .join(typed.select("entity_id", *SCOPE, "type"), on=["entity_id", "type"])
    )
    plurals = {n: plural(n) for n in rows["noun"].unique()}
    label = pl.col("noun").replace_strict(plurals, default=None, return_dtype=pl.String)
    return _members(rows.with_columns(label=label), "stated")


def _members(rows: pl.DataFrame, source: str) -> pl.DataFrame:
    keys = {label: " ".join([*label.split()[:-1], singular(label.split()[-1])]) for label in rows["label"].unique()}
    key = pl.col("label").replace_strict(keys, default=None, return_dtype=pl.String)
    return rows.with_columns(key=key, source=pl.lit(source)).select(pl.col(c).cast(t) for c, t in _MEMBER.items())


def _nodes(found: pl.DataFrame, typed: pl.DataFrame) -> pl.DataFrame:
    """Returns a node for each category: its label as folders or metadata write it, else the plural of its noun."""
    order = pl.col("source").replace_strict({"folder": 0, "metadata": 1, "stated": 2}, return_dtype=pl.Int64)
    rows = (
        found.join(typed.select("entity_id", "name"), on="entity_id")
        .with_columns(order=order)
        .sort("node_id", "order", "label", "name")
        .group_by("node_id", *SCOPE, maintain_order=True)
        .agg(
            name=pl.col("label").first(),
            names=pl.col("name").unique().sort(),
            sources=pl.col("source").unique().sort(),
        )
    )
    texts = [member_description(label, names) for label, names in rows.select("name", "names").iter_rows()]
    metadata = [
        json.dumps({"members": len(names), "sources": sources}, ensure_ascii=False)
        for names, sources in rows.select("names", "sources").iter_rows()
    ]
    return rows.select(
        "node_id",
        *SCOPE,
        "name",
        description=pl.Series(texts, dtype=pl.String),
        metadata=pl.Series(metadata, dtype=pl.String),
    ).sort("node_id")


def plural(noun: str) -> str:
    """Returns the plural of a noun in small letters, by its ending."""
    if noun == "person":
        return "people"
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun if singular(noun) == noun and noun.endswith("s") else noun + "es"
    return noun + "s"
