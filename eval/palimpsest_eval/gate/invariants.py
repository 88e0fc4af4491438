"""The invariants of DESIGN.md that can be checked on a finished build, each by a small function with a name."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import polars as pl

from palimpsest.core.errors import first_line_of
from palimpsest.core.files import FORMAT, counted
from palimpsest.core.ids import SCOPE, JsonRecord, text_hash
from palimpsest.index.graph_tables import linking_relations
from palimpsest.memories.formed import stated_memories
from palimpsest.memories.recency import turn_order
from palimpsest.pipeline.stage import Reference, Table
from palimpsest.pipeline.stages import key_of, references
from palimpsest.pipeline.stages import tables as declared_tables
from palimpsest.sources.deletions import ErasedTexts
from palimpsest.sources.extracted import TextRow
from palimpsest.store.collection_config import DEFAULT_TRUST
from palimpsest.store.decisions import Decisions
from palimpsest.store.graph_decisions import EDGE_TYPES, NODE_TYPES
from palimpsest.store.tables import SCHEMAS, completed, empty

# A broken invariant, and how a check reports one.

Tables = Mapping[str, pl.DataFrame]
MAX_EXAMPLES = 5


@dataclass(frozen=True)
class Violation(JsonRecord):
    """A broken invariant: DESIGN.md's number, the name of the check, what is wrong, how often, and a few ids."""

    invariant: int
    name: str
    message: str
    count: int
    examples: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """Number, name and message in one line."""
        return f"invariant {self.invariant} ({self.name}): {self.message}"

    @property
    def text(self) -> str:
        """The headline with the examples."""
        return f"{self.headline}: {', '.join(self.examples)}"


_COUNTED = re.compile(r"\{([\w ]+)\}")


def report(invariant: int, name: str, message: str, ids: Iterable[object]) -> list[Violation]:
    """Returns one violation over the offending ids, or none without any.

    Args:
        invariant: its number.
        name: of the check.
        message: `{noun}` or `{noun verb}` in it becomes their number with both in that number.
        ids: what offends.
    """
    listed = sorted(map(str, ids))
    if not listed:
        return []
    message = _COUNTED.sub(lambda found: counted(len(listed), *found[1].rsplit(" ", 1)), message)
    return [Violation(invariant, name, message, len(listed), tuple(listed[:MAX_EXAMPLES]))]


# The invariants of nodes and edges: types of the contract, importance and weight from 0 to 1, no edge to itself.


def check_nodes(tables: Tables) -> list[Violation]:
    """11: every node has a type of the contract and an importance from 0 to 1, and every edge a type and a weight."""
    nodes, edges = tables["nodes"], tables["edges"]
    edge_id = pl.concat_str("source_id", "target_id", "type", separator="/")
    odd_types = nodes.filter(~pl.col("type").is_in(NODE_TYPES).fill_null(False))["node_id"]
    unscored = nodes.filter(~pl.col("importance").is_between(0.0, 1.0).fill_null(False))["node_id"]
    odd_edges = edges.filter(~pl.col("type").is_in(EDGE_TYPES).fill_null(False)).select(edge_id).to_series()
    unweighted = edges.filter(~pl.col("weight").is_between(0.0, 1.0).fill_null(False)).select(edge_id).to_series()
    loops = edges.filter(pl.col("source_id") == pl.col("target_id")).select(edge_id).to_series()
    return [
        *report(11, "node_types", "{node has} another type than the contract lists", odd_types),
        *report(11, "importance", "{node has} no importance from 0 to 1", unscored),
        *report(11, "edge_types", "{edge has} another type than the contract lists", odd_edges),
        *report(11, "edge_weights", "{edge has} no weight from 0 to 1", unweighted),
        *report(11, "edge_loops", "{edge leads} from a node to itself", loops),
    ]


# Invariant 2: what is latest follows from memories and relations alone, and the newer always wins.


def check_versions(tables: Tables, decisions: Decisions | None = None) -> list[Violation]:
    """2: all checks of versions. `decisions` are the home's: a relation that people undid counts as not there."""
    undone = sorted(decisions.undone) if decisions is not None else []
    effective = {**tables, "relations": tables["relations"].filter(~pl.col("relation_id").is_in(undone))}
    return [
        *check_complete(effective),
        *check_recomputed(tables, decisions),
        *check_newer_wins(effective),
        *check_chains(effective),
        *check_superseded_by(effective),
        *check_trust(effective),
    ]


def check_complete(tables: Tables) -> list[Violation]:
    """2: every memory has a version, with a decision in it."""
    versions = tables["versions"].filter(pl.col("is_latest").is_not_null())
    bare = tables["memories"].join(versions, on="memory_id", how="anti")["memory_id"]
    return report(2, "versions_complete", "{memory has} no version", bare)


def check_recomputed(tables: Tables, decisions: Decisions | None) -> list[Violation]:
    """2: versions are what the pure function makes of the tables now; nothing was ever edited in place."""
    from palimpsest.relations.versions import versions

    t = tables
    fresh = versions(t["memories"], t["relations"], t["documents"], t["document_relations"], decisions)
    columns = ["is_latest", "valid_from", "valid_until", "superseded_by"]
    both = t["versions"].join(fresh, on="memory_id", how="inner", suffix="_fresh")
    differs = pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_fresh")) for c in columns)
    return report(
        2, "versions_recomputed", "{version differs} from what they follow from", both.filter(differs)["memory_id"]
    )


def check_newer_wins(tables: Tables) -> list[Violation]:
    """2: every UPDATE leads from the newer memory to the older (decision 4), and none leads backwards."""
    from palimpsest.memories.recency import is_newer

    pairs = _placed_pairs(tables)
    backwards = pairs.filter(is_newer("_older", "_newer"))
    unordered = pairs.filter(
        (pl.col("label") == "UPDATE") & ~is_newer("_newer", "_older") & ~is_newer("_older", "_newer")
    )
    return [
        *report(2, "newer_wins", "{relation leads} from an earlier memory to a later one", backwards["relation_id"]),
        *report(2, "newer_wins", "{UPDATE is} between memories of equal or unknown time", unordered["relation_id"]),
    ]


def check_chains(tables: Tables) -> list[Violation]:
    """2: UPDATEs of live memories form no circle; what they end whole is not latest, the newest end of each chain is.

    The newest end may itself be retired only by another version of its document or by one that replaces that.
    """
    updates = _placed_pairs(tables).filter((pl.col("label") == "UPDATE") & pl.col("live_newer"))
    rows = tables["versions"].select("memory_id", "is_latest", "superseded_by").iter_rows()
    version = {memory_id: (latest, by) for memory_id, latest, by in rows}
    older_of: dict[str, set[str]] = {}
    newer_of: dict[str, set[str]] = {}
    for newer, older in updates.select("newer_id", "older_id").iter_rows():
        older_of.setdefault(newer, set()).add(older)
        newer_of.setdefault(older, set()).add(newer)
    ended = updates.filter(pl.col("part").is_null())["older_id"].unique()
    both = [older for older in ended if version.get(older, (False, None))[0]]
    headless = [m for m in set(older_of) - set(newer_of) if version.get(m, (True, None)) == (False, None)]
    return [
        *report(2, "chains", "in a circle of updates: {memory}", _in_circles(older_of, newer_of)),
        *report(2, "chains", "{memory is} latest although updated by a live one", both),
        *report(2, "chains", "a latest end is missing in {chain} of UPDATEs", headless),
    ]


def check_superseded_by(tables: Tables) -> list[Violation]:
    """2: only what is not latest names what superseded it: a memory or document of its own scope."""
    versions = tables["versions"]
    named = versions.filter(pl.col("is_latest") & pl.col("superseded_by").is_not_null())["memory_id"]
    owner = pl.concat(
        [
            tables["memories"].select(pl.col("memory_id").alias("id"), *SCOPE),
            tables["documents"].select(pl.col("document_id").alias("id"), *SCOPE),
        ]
    ).unique("id")
    rows = versions.drop_nulls("superseded_by").join(
        owner.rename({c: f"{c}_of" for c in SCOPE}), left_on="superseded_by", right_on="id", how="left"
    )
    unknown = rows.filter(pl.col("collection_of").is_null())["memory_id"]
    crossing = rows.filter(pl.any_horizontal(pl.col(c) != pl.col(f"{c}_of") for c in SCOPE))["memory_id"]
    return [
        *report(2, "superseded_by", "{latest memory names} what superseded them", named),
        *report(4, "references", "versions.superseded_by: {memory names} no memory or document", unknown),
        *report(3, "scopes", "versions.superseded_by: {memory is} superseded from another scope", crossing),
    ]


def check_trust(tables: Tables) -> list[Violation]:
    """2: no labeler's UPDATE leads to a memory that is trusted more than the newer one; a person's may."""
    trust = tables["memories"].select("memory_id", pl.col("trust").fill_null(DEFAULT_TRUST))
    pairs = tables["relations"].filter((pl.col("label") == "UPDATE") & (pl.col("labeler") != "person"))
    for end in ("newer", "older"):
        pairs = pairs.join(trust.rename({"memory_id": f"{end}_id", "trust": f"{end}_trust"}), on=f"{end}_id")
    wrong = pairs.filter(pl.col("newer_trust") < pl.col("older_trust"))["relation_id"]
    return report(2, "trust", "{UPDATE is} by a memory that is trusted less than what it replaces", wrong)


def _placed_pairs(tables: Tables) -> pl.DataFrame:
    """Returns the relations, undone ones left out, with the place of both ends in time."""
    from palimpsest.memories.recency import recency_columns

    order = recency_columns(tables["memories"], tables["documents"]).drop(SCOPE)
    pairs = completed("relations", tables["relations"]).select("relation_id", "label", "newer_id", "older_id", "part")
    for end in ("newer", "older"):
        names = {c: f"{c}_{end}" for c in order.columns} | {"memory_id": f"{end}_id"}
        pairs = pairs.join(order.rename(names), on=f"{end}_id", how="inner")
    return pairs


def _in_circles(older_of: dict[str, set[str]], newer_of: dict[str, set[str]]) -> list[str]:
    """What is left once every memory that nothing updates has been taken away, again and again."""
    waiting = {m: len(newer) for m, newer in newer_of.items()}
    free = sorted(set(older_of) - set(newer_of))
    while free:
        for older in older_of.get(free.pop(), ()):
            waiting[older] -= 1
            if not waiting[older]:
                free.append(older)
    return sorted(m for m, n in waiting.items() if n)


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
        found += check_index(whole, index_path)
    return sorted(found, key=lambda v: (v.invariant, v.name, v.message))


def check_schema(tables: Tables) -> list[Violation]:
    """1: every table has exactly the columns and types of the contract."""
    found = []
    for name, schema in SCHEMAS.items():
        actual = tables[name].schema
        wrong = [c for c in {**schema, **actual} if c not in actual or c not in schema or actual[c] != schema[c]]
        found += report(1, "schema", f"{name}: {{column differs}} from the contract", wrong)
    return found


def check_unique_ids(tables: Tables) -> list[Violation]:
    """1: every id is set, and is used once in its table."""
    found = []
    for table in declared_tables():
        name, key = table.name, list(table.key)
        if not key:
            continue
        parts = [pl.col(c).cast(pl.String).fill_null("null") for c in key]
        ids = tables[name].select(pl.concat_str(parts, separator="/")).to_series()
        twice = ids.filter(ids.is_duplicated()).unique()
        found += report(1, "unique_ids", f"{name}: {{id is}} used more than once", twice)
        unset = tables[name].filter(pl.any_horizontal(pl.col(key).is_null()))
        found += report(1, "unique_ids", f"{name}: {{row has}} no id", ["null"] * unset.height)
    return found


def check_current_documents(tables: Tables) -> list[Violation]:
    """1: a source has one current document for each user, project and session."""
    key = [*SCOPE, "uri", "session_id"]
    current = tables["documents"].filter("is_current")
    twice = current.filter(pl.struct(key).is_duplicated())["document_id"]
    return report(1, "current_documents", "{document is} current with another of the same source and scope", twice)


def check_references(tables: Tables) -> list[Violation]:
    """4: nothing outlives what it came from: every id that a row names exists."""
    found = []
    for table, reference in _checked_references():
        targets = [tables[t].select(pl.col(key_of(t)).alias("id")) for t in reference.tables]
        gone = _named_ids(tables, table, reference).join(pl.concat(targets), on="id", how="anti")["id"]
        message = f"{table.name}.{reference.column}: {{id is}} not in {' or '.join(reference.tables)}"
        found += report(4, "references", message, gone)
    used = pl.concat(
        [tables["mentions"]["entity_id"], tables["topic_edges"]["source_id"], tables["topic_edges"]["target_id"]]
    )
    orphans = set(tables["entities"]["entity_id"]) - set(used)
    return found + report(4, "orphans", "{entity is} mentioned nowhere", orphans)


def _checked_references() -> Iterator[tuple[Table, Reference]]:
    return ((table, reference) for table, reference in references() if not reference.may_dangle)


def _named_ids(tables: Tables, table: Table, reference: Reference, *columns: str) -> pl.DataFrame:
    """Returns the ids that a column names, as `id`, once each with other columns of their rows."""
    ids = tables[table.name].select(pl.col(reference.column).alias("id"), *columns)
    if isinstance(ids.schema["id"], pl.List):
        ids = ids.explode("id")
    return ids.drop_nulls("id").unique()


def check_scopes(tables: Tables) -> list[Violation]:
    """3: nothing crosses a scope: every row lies in the scope of every row that it names."""
    found = []
    for table, reference in _checked_references():
        owned = [t for t in reference.tables if set(SCOPE) <= set(SCHEMAS[t])]
        if not owned or not set(SCOPE) <= set(SCHEMAS[table.name]):
            continue
        of = [
            tables[t].select(pl.col(key_of(t)).alias("id"), *(pl.col(c).alias(f"of_{c}") for c in SCOPE)) for t in owned
        ]
        rows = _named_ids(tables, table, reference, *SCOPE).join(pl.concat(of).unique("id", keep="first"), on="id")
        crossing = rows.filter(pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"of_{c}")) for c in SCOPE))["id"].unique()
        found += report(3, "scopes", f"{table.name}.{reference.column}: {{id belongs}} to another scope", crossing)
    for name, schema in SCHEMAS.items():
        if set(SCOPE) <= set(schema):
            unset = tables[name].filter(pl.any_horizontal(pl.col(SCOPE).is_null()))
            found += report(3, "scopes", f"{name}: {{row has}} no scope", ["null"] * unset.height)
    return found


def check_spans(tables: Tables) -> list[Violation]:
    """8: the char span of every chunk and memory holds its text, that of an item its quote; mentions lie in them."""
    texts = dict(tables["document_texts"].select("document_id", "text").iter_rows())
    found = []
    for table in declared_tables():
        if not table.has_spans:
            continue
        name, key = table.name, table.key[0]
        text = "quote" if "quote" in tables[name].columns else "text"
        columns = (key, "document_id", text, "char_start", "char_end")
        rows = stated_memories(tables[name]) if name == "memories" else tables[name]
        wrong = {
            row_id
            for row_id, document_id, text, start, end in rows.select(columns).iter_rows()
            if start is None or end is None or start < 0 or text != (texts.get(document_id) or "")[start:end]
        }
        found += report(8, "spans", f"{name}: {{span does}} not match the text", wrong)
    lengths = tables["memories"].select("memory_id", pl.col("text").str.len_chars().alias("length"))
    mentions = tables["mentions"].drop_nulls(["char_start", "char_end"]).join(lengths, on="memory_id", how="inner")
    outside = mentions.filter(
        (pl.col("char_start") < 0)
        | (pl.col("char_end") <= pl.col("char_start"))
        | (pl.col("char_end") > pl.col("length"))
    )
    return found + report(8, "spans", "mentions: {span lies} outside the memory", outside["memory_id"])


def check_embed_inputs(tables: Tables) -> list[Violation]:
    """6: every memory has something to embed, under the hash of just that text."""
    inputs = tables["embed_inputs"]
    bare = tables["memories"].join(inputs, on="memory_id", how="anti")["memory_id"]
    hashed = pl.concat([t.select("memory_id", "text", "text_hash") for t in (inputs, tables["context_inputs"])])
    wrong = {m for m, text, key in hashed.iter_rows() if key is not None and text_hash(text or "") != key}
    wrong |= set(inputs.filter(pl.col("text_hash").is_null())["memory_id"])
    return [
        *report(6, "embed_inputs", "{memory has} nothing to embed", bare),
        *report(6, "embed_inputs", "{memory is} embedded under another text's hash", wrong),
    ]


def check_vectors(tables: Tables, known: Collection[str]) -> list[Violation]:
    """7: every text that is to be embedded has a vector."""
    texts = pl.concat([tables[t].select("memory_id", "text_hash") for t in ("embed_inputs", "context_inputs")])
    without = texts.drop_nulls("text_hash").filter(~pl.col("text_hash").is_in(list(known)))["memory_id"].unique()
    return report(7, "vectors", "{memory has} no vector", without)


def check_deleted(tables: Tables, decisions: Decisions) -> list[Violation]:
    """4: nothing that people deleted is in the build; reported by id, for its name is not kept."""
    rows = (
        tables["documents"]
        .select("document_id", "collection", "user_id", "uri", "session_id", "project_id")
        .iter_rows()
    )
    back = {document_id for document_id, collection, *names in rows if decisions.hides_document(collection, *names)}
    found = report(4, "deleted", "{document was} deleted and still in the build", back)
    if not decisions.erased:
        return found
    erased, columns = ErasedTexts(decisions.erased), ("user_id", "uri", "session_id", "text", "segments")
    texts = (
        tables["documents"]
        .join(tables["document_texts"], on="document_id")
        .select("document_id", "collection", *columns)
    )
    with_deleted_text = set()
    for document_id, collection, *values in texts.iter_rows():
        row = dict(zip(columns, values, strict=True))
        removal = erased.remove_from(collection, cast(TextRow, row))
        if removal is None or removal.spans:
            with_deleted_text.add(document_id)
    return [*found, *report(4, "deleted", "{document holds} texts that were deleted", with_deleted_text)]


def check_rejects(tables: Tables) -> list[Violation]:
    """9: every reject says which source, where and why."""
    silent = tables["rejects"].filter(
        pl.any_horizontal(pl.col(c).fill_null("").str.strip_chars() == "" for c in ("uri", "stage", "reason"))
    )
    return report(9, "rejects", "{reject does} not say what, where and why", silent["uri"].fill_null("null"))


CHECKS: tuple[Callable[[Tables], list[Violation]], ...] = (
    check_unique_ids,
    check_current_documents,
    check_references,
    check_scopes,
    check_spans,
    check_embed_inputs,
    check_rejects,
    check_nodes,
)


# Invariant 5: the DuckDB file that readers see contains just what the tables contain.

_NAME = "index"
_FORMAT = "SELECT value FROM meta WHERE key = 'format'"

_MEMORIES = """
SELECT m.memory_id, s.collection, s.user_id, s.project_id, m.document_id, m.uri, m.text, m.is_latest, m.superseded_by
FROM memories m JOIN scopes s ON m.row >= s.first_row AND m.row < s.first_row + s.size"""
_VECTOR_TABLES = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'vectors%' ORDER BY table_name"
_VECTORS = "SELECT m.memory_id, count(*) FROM ({union}) v JOIN memories m ON m.row = v.row GROUP BY ALL"
_LINKS = """
SELECT l.relation_id, n.memory_id, o.memory_id, l.label
FROM links l JOIN memories n ON n.row = l.newer_row JOIN memories o ON o.row = l.older_row"""
_CROSSING = """
SELECT l.relation_id FROM links l JOIN scopes s ON s.scope = l.scope
WHERE NOT (l.newer_row BETWEEN s.first_row AND s.first_row + s.size - 1)
   OR NOT (l.older_row BETWEEN s.first_row AND s.first_row + s.size - 1)"""
_ENTITIES = """
SELECT e.entity_id, s.collection, s.user_id, s.project_id
FROM entities e JOIN scopes s ON s.scope = e.scope"""
_MENTIONS = """
SELECT m.memory_id, e.entity_id FROM mentions x
JOIN memories m ON m.row = x.row JOIN entities e ON e.entity = x.entity"""
_NODES = """
SELECT n.node_id, n.type, n.name, s.collection, s.user_id, s.project_id
FROM nodes n JOIN scopes s ON s.scope = n.scope"""
_EDGES = """
SELECT a.node_id, b.node_id, e.type FROM edges e
JOIN nodes a ON a.node = e.source AND a.scope = e.scope JOIN nodes b ON b.node = e.target AND b.scope = e.scope"""
_FACTS = """
SELECT f.fact_id, a.node_id, b.node_id, s.collection, s.user_id, s.project_id, len(f.rows)
FROM facts f JOIN scopes s ON s.scope = f.scope
JOIN nodes a ON a.node = f.subject AND a.scope = f.scope LEFT JOIN nodes b ON b.node = f.object AND b.scope = f.scope"""
_NODE_MEMORIES = """
SELECT n.node_id, m.memory_id FROM node_members x JOIN nodes n ON n.node = x.node
JOIN memories m ON m.row = x.row JOIN scopes s ON s.scope = n.scope AND m.row BETWEEN s.first_row
AND s.first_row + s.size - 1"""
_SENTENCES = """
SELECT m.memory_id, len(s.counts), coalesce(octet_length(s.vectors), 0) > 0
FROM sentences s JOIN memories m ON m.row = s.row WHERE len(s.counts) > 0"""
_FOLLOWING = """
SELECT m.memory_id, n.memory_id FROM following f
JOIN memories m ON m.row = f.row JOIN memories n ON n.row = f.next_row"""
# The postings of a scope are adjacent, so one range of them covers all its terms.
_POSTINGS = """
WITH ranges AS (SELECT scope, min(first) AS low, max(first + df) - 1 AS high FROM terms GROUP BY scope)
SELECT DISTINCT concat_ws('/', s.collection, s.user_id, nullif(s.project_id, ''))
FROM postings p JOIN ranges h ON p.rowid BETWEEN h.low AND h.high JOIN scopes s ON s.scope = h.scope
WHERE NOT (p.row BETWEEN s.first_row AND s.first_row + s.size - 1)"""
_UNMATCHED_TERMS = "SELECT 'postings' WHERE (SELECT count(*) FROM postings) <> (SELECT coalesce(sum(df), 0) FROM terms)"


def check_index(tables: Tables, path: Path) -> list[Violation]:
    """5: the index opens, and its memories, versions, vectors, relations, entities and nodes equal the tables."""
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as db:
            (found,) = db.execute(_FORMAT).fetchall() or [("none",)]
            if found[0] != str(FORMAT):
                message = f"format {found[0]}, readers of this version take {FORMAT}: run palimpsest build"
                return report(5, _NAME, message, [path.name])
            return _check(tables, lambda sql: db.execute(sql).fetchall())
    except (duckdb.Error, OSError) as e:
        return report(5, _NAME, f"{path.name} cannot be read ({first_line_of(e)})", [path.name])


def _check(tables: Tables, read: Any) -> list[Violation]:
    versions = tables["versions"].select("memory_id", "is_latest", "superseded_by")
    memories = (
        tables["memories"]
        .join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        .join(versions, on="memory_id", how="left")
        .with_columns(pl.col("is_latest").fill_null(True))
    )
    relations = linking_relations(tables["relations"], tables["memories"])
    contexts = (
        tables["context_inputs"]
        .filter(pl.col("kind") == "sentence")
        .group_by("memory_id")
        .agg(pl.len(), pl.col("text_hash").is_not_null().any())
    )
    # Of each space one: `vectors`, `vectors_1` ...
    union = " UNION ALL ".join(f'SELECT row FROM "{name}"' for (name,) in read(_VECTOR_TABLES))
    expected: list[tuple[str, str, Iterable[tuple[Any, ...]]]] = [
        (
            "memories",
            _MEMORIES,
            memories.select(
                "memory_id", *SCOPE, "document_id", "uri", "text", "is_latest", "superseded_by"
            ).iter_rows(),
        ),
        ("vectors", _VECTORS.format(union=union), Counter(tables["embed_inputs"]["memory_id"]).items()),
        ("relations", _LINKS, relations.select("relation_id", "newer_id", "older_id", "label").iter_rows()),
        ("entities", _ENTITIES, tables["entities"].select("entity_id", *SCOPE).iter_rows()),
        ("mentions", _MENTIONS, tables["mentions"].select("memory_id", "entity_id").unique().iter_rows()),
        ("sentences", _SENTENCES, contexts.iter_rows()),
        ("turns", _FOLLOWING, turn_order(tables["memories"], tables["documents"]).iter_rows()),
        *_expected_graph(tables),
    ]
    found: list[Violation] = []
    for name, sql, rows in expected:
        want, have = Counter(rows), Counter(read(sql))
        missing, extra = (want - have).elements(), (have - want).elements()
        found += report(5, _NAME, f"{name}: {{row is}} not in the index, or not as it is", (r[0] for r in missing))
        found += report(5, _NAME, f"{name}: {{row is}} in the index and not in the tables", (r[0] for r in extra))
    queries = (
        (3, "{relation} of the index across scopes", _CROSSING),
        (3, "words: the postings of {scope} reach into another", _POSTINGS),
        (5, "words: postings without a term, or terms without postings", _UNMATCHED_TERMS),
    )
    return found + [
        v for number, message, sql in queries for v in report(number, _NAME, message, (r[0] for r in read(sql)))
    ]


def _expected_graph(tables: Tables) -> list[tuple[str, str, Iterable[tuple[Any, ...]]]]:
    """Returns the rows of nodes, edges, facts and members of nodes as `_check` expects them."""
    nodes, facts = tables["nodes"], tables["facts"]
    members = [
        tables["mentions"].select("memory_id", node_id="entity_id"),
        tables["topic_memories"].select("memory_id", node_id="topic_id"),
        tables["node_memories"].select("memory_id", "node_id"),
    ]
    of_nodes = pl.concat(members).unique().join(nodes.select("node_id"), on="node_id")
    stated = facts.select("fact_id", "subject_id", "object_id", *SCOPE, pl.col("memory_ids").list.len())
    return [
        ("nodes", _NODES, nodes.select("node_id", "type", "name", *SCOPE).iter_rows()),
        ("edges", _EDGES, tables["edges"].select("source_id", "target_id", "type").iter_rows()),
        ("facts", _FACTS, stated.iter_rows()),
        ("nodes' memories", _NODE_MEMORIES, of_nodes.select("node_id", "memory_id").iter_rows()),
    ]
