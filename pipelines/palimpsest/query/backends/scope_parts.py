"""Reads the parts of one scope of an index as arrays: the DuckDB view makes them its own, the Neo4j loader packs them.

Memories are local rows, topics and entities local numbers. A part without rows is empty.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import duckdb
import numpy as np

from palimpsest.core.ids import REFLECTION
from palimpsest.query.scope.scope_arrays import Arrays
from palimpsest.query.scope.scope_graph import RELATION_LABELS, idf_weight
from palimpsest.query.scope.view import BOOLEANS, CLOCK, NUMBERS, TEXTS, TIMES
from palimpsest.text.languages import ENGLISH
from palimpsest.text.words import ASSISTANT_ROLES

# What reads the parts of a scope of an index: how a statement is run, and where the scope is.


class Query(Protocol):
    """Runs one statement of an index."""

    def __call__(self, sql: str, values: Mapping[str, object], /) -> Any:
        """Returns the DuckDB result."""


def read_clocks(query: Query, sql: str, values: Mapping[str, object]) -> Any:
    """Runs a statement that names `utc_offset`; an index of an earlier version has none, and every offset is null."""
    try:
        return query(sql, values)
    except duckdb.BinderException:
        return query(sql.replace("utc_offset", "NULL::BIGINT"), values)


class Range(NamedTuple):
    """Where a scope is in the tables: its first row, how many rows, and its number."""

    first: int
    size: int
    number: int

    @property
    def rows(self) -> dict[str, int]:
        """Values of a statement that reads its rows."""
        return {"first": self.first, "last": self.first + self.size - 1}

    @property
    def scope(self) -> dict[str, int]:
        """Values of a statement that reads by its number."""
        return {"scope": self.number}


# Reads the fields of a scope's memories that `where` filters by: columns of the index, and metadata of documents.

_SECONDS = [f"epoch({name}) AS {name}" for name in TIMES]
_COLUMNS = ", ".join([*TEXTS, *NUMBERS, *_SECONDS, *BOOLEANS, f"coalesce(utc_offset, 0) AS {CLOCK}"])
_FIELDS = f"SELECT {_COLUMNS} FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_TAGS = """
    SELECT row, tag FROM (SELECT row, unnest(tags) AS tag FROM memories WHERE row BETWEEN $first AND $last)
    ORDER BY row, tag"""
_METADATA = "SELECT document_id, field, value FROM metadata WHERE scope = $scope ORDER BY document_id, field, value"
_DOCUMENTS = "SELECT document_id FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"


def read_fields(query: Query, at: Range) -> Arrays:
    """Returns each column by local row: texts as codes of `<name>.texts` with -1 for null, times in seconds.

    `clock` is how many minutes the clock of each memory's speaker is ahead of UTC.
    """
    found = read_clocks(query, _FIELDS, at.rows).fetchnumpy()
    arrays: Arrays = {}
    for name in TEXTS:
        arrays[name], arrays[f"{name}.texts"] = encode(_objects(found[name]))
    for name in (*NUMBERS, *TIMES):
        arrays[name] = np.ma.filled(np.ma.asarray(found[name], np.float64), np.nan)
    for name in BOOLEANS:
        arrays[name] = np.ma.filled(np.ma.asarray(found[name]).astype(np.int8), -1)
    arrays[CLOCK] = np.asarray(found[CLOCK], "<i4")
    rows, tags = zip(*(query(_TAGS, at.rows).fetchall() or [(at.first, None)]), strict=True)
    codes, texts = encode(list(tags))
    kept = codes >= 0
    arrays |= {"tags.row": (np.asarray(rows, np.int64) - at.first)[kept].astype("<i4")}
    return arrays | {"tags": codes[kept], "tags.texts": texts}


def read_metadata(query: Query, at: Range) -> Arrays:
    """Returns the metadata of the scope's documents: `document` is the number of each memory's, -1 without any.

    `of`, `field` and `value` name the document, the field among `fields` and the JSON text among `values`.
    """
    try:
        found = query(_METADATA, at.scope).fetchall()
    except duckdb.CatalogException:
        return {}  # an index of an earlier version has no metadata
    if not found:
        return {}
    documents, fields, values = (list(column) for column in zip(*found, strict=True))
    of, names = encode(documents)
    number = {name: i for i, name in enumerate(names)}
    document = [number.get(i, -1) for (i,) in query(_DOCUMENTS, at.rows).fetchall()]
    arrays: Arrays = {"document": np.array(document, "<i4"), "of": of}
    arrays["field"], arrays["fields"] = encode(fields)
    arrays["value"], arrays["values"] = encode(values)
    return arrays


def _objects(column: Any) -> list[str | None]:
    """Returns a column of texts as DuckDB gives it, as a masked array where any is null."""
    return [None if null else text for text, null in zip(column, np.ma.getmaskarray(column), strict=True)]


def encode(values: list[str | None]) -> tuple[np.ndarray, list[str]]:
    """Returns the number of each text among the distinct ones, -1 for null, and the distinct ones."""
    numbers: dict[str, int] = {}
    codes = [-1 if v is None else numbers.setdefault(v, len(numbers)) for v in values]
    return np.array(codes, "<i4"), list(numbers)


LONG_ANSWERS = 2
"""How many times the tokens of the other turns an assistant's have at least where its answers count as long."""

_EPOCH = dt.datetime(1970, 1, 1)  # times are in the file as UTC without a zone

_FOLLOWING = "SELECT row, next_row FROM following WHERE row BETWEEN $first AND $last ORDER BY row"
_TOKENS = "SELECT token_count FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"
_ASSISTANT = """
    SELECT row, token_count, coalesce(list_contains($roles, lower(trim(speaker))), false) AS by_assistant
    FROM memories WHERE row BETWEEN $first AND $last ORDER BY row"""
_WRITTEN = "SELECT row, next_row FROM written WHERE row BETWEEN $first AND $last ORDER BY row"
_PERIODS = "SELECT row, begins, ends FROM periods WHERE row BETWEEN $first AND $last ORDER BY row, begins, ends"
_PRIORS = """
    SELECT epoch(observed_at) AS observed, importance, support FROM memories
    WHERE row BETWEEN $first AND $last ORDER BY row"""
_REASONS = "SELECT memory_id, reason FROM reasons WHERE row BETWEEN $first AND $last ORDER BY memory_id, reason"
_NAMES = "SELECT key, entity FROM names WHERE scope = $scope ORDER BY key, entity"
_TITLES = "SELECT row, entity FROM titles WHERE row BETWEEN $first AND $last ORDER BY row, entity"
_MENTIONS = "SELECT row, entity FROM mentions WHERE row BETWEEN $first AND $last ORDER BY row, entity"
_ENTITIES = "SELECT entity, name FROM entities WHERE scope = $scope ORDER BY entity"
_ENTITY_IDS = "SELECT entity_id FROM entities WHERE scope = $scope ORDER BY entity"
_RELATIONS = """
    SELECT newer_row, older_row, label, confidence FROM links
    WHERE scope = $scope ORDER BY newer_row, older_row, label, relation_id"""
_FORMED = """
    SELECT DISTINCT links.newer_row, links.older_row, memories.kind
    FROM links JOIN memories ON memories.row = links.newer_row
    WHERE links.scope = $scope AND memories.unit = $unit ORDER BY ALL"""
_REPLACED = """
    SELECT newer.row AS newer_row, older.row AS older_row
    FROM memories older JOIN memories newer ON newer.memory_id = older.superseded_by
    WHERE older.row BETWEEN $first AND $last AND newer.row BETWEEN $first AND $last ORDER BY older_row"""
_LANGUAGES = """
    SELECT DISTINCT language FROM memories
    WHERE row BETWEEN $first AND $last AND language IS NOT NULL ORDER BY language"""
_WITHHELD = """
    SELECT bool_or(user_visible = false), bool_or(pii), list_sort(list_distinct(list(retention_until)))
    FROM memories WHERE row BETWEEN $first AND $last"""


def read_part(query: Query, at: Range, part: str) -> Arrays:
    """Returns the arrays of one part of `PARTS`; empty where the scope has none."""
    return PARTS[part](query, at)


def local(values: np.ndarray, first: int) -> np.ndarray:
    """Returns row or entity numbers counted from `first`, int32."""
    return (np.asarray(values, np.int64) - first).astype("<i4")


def _order(query: Query, at: Range) -> Arrays:
    """Returns turns that follow each other, and the tokens of every memory."""
    pairs = _following_pairs(query, at, _FOLLOWING)
    return pairs and pairs | {"tokens": np.asarray(query(_TOKENS, at.rows).fetchnumpy()["token_count"], "<i4")}


def _assistant(query: Query, at: Range) -> Arrays:
    """Returns the memories by the assistant of a chat, where they are on average `LONG_ANSWERS` times the others."""
    found = query(_ASSISTANT, at.rows | {"roles": sorted(ASSISTANT_ROLES)}).fetchnumpy()
    tokens, by_assistant = np.ma.filled(found["token_count"], 0), np.asarray(found["by_assistant"], bool)
    if not by_assistant.any() or by_assistant.all():
        return {}
    is_long = tokens[by_assistant].mean() >= LONG_ANSWERS * tokens[~by_assistant].mean()
    return {"row": local(found["row"][by_assistant], at.first)} if is_long else {}


def _written(query: Query, at: Range) -> Arrays:
    """Returns memories that follow each other in their documents."""
    return _following_pairs(query, at, _WRITTEN)


def _following_pairs(query: Query, at: Range, sql: str) -> Arrays:
    found = query(sql, at.rows).fetchnumpy()
    return {n: local(found[n], at.first) for n in ("row", "next_row")} if len(found["row"]) else {}


def _periods(query: Query, at: Range) -> Arrays:
    found = query(_PERIODS, at.rows).fetchnumpy()
    if len(found["row"]) == 0:
        return {}
    return {"row": local(found["row"], at.first)} | {n: np.asarray(found[n], "<f8") for n in ("begins", "ends")}


def _withheld(query: Query, at: Range) -> Arrays:
    """Returns `ends` in microseconds since 1970 and `flags`: whether anything is hidden, whether any is personal."""
    hidden, pii, ends = query(_WITHHELD, at.rows).fetchall()[0]
    if not (hidden or pii or ends):
        return {}
    micros = [(e - _EPOCH) // dt.timedelta(microseconds=1) for e in ends or ()]
    return {"ends": np.array(micros, "<i8"), "flags": np.array([bool(hidden), bool(pii)], "<i4")}


def _reasons(query: Query, at: Range) -> Arrays:
    try:
        found = query(_REASONS, at.rows).fetchall()
    except duckdb.CatalogException:
        return {}  # an index of an earlier version has no reasons
    return {"ids": [i for i, _ in found], "reason": [line for _, line in found]} if found else {}


def _priors(query: Query, at: Range) -> Arrays:
    """Returns what no question changes about memories; unknown is NaN."""
    found = query(_PRIORS, at.rows).fetchnumpy()
    known = {n: np.ma.filled(np.ma.asarray(found[n], np.float64), np.nan) for n in ("observed", "importance")}
    return known | {"support": np.asarray(found["support"], "<i4")}


def _named(query: Query, at: Range) -> Arrays:
    """Returns entities of weight above 0, and the memories that name them."""
    entities, mentions = query(_ENTITIES, at.scope).fetchnumpy(), query(_MENTIONS, at.rows).fetchnumpy()
    if len(entities["entity"]) == 0:
        return {}
    entity = local(mentions["entity"], int(entities["entity"][0]))
    weight = idf_weight(np.bincount(entity, minlength=len(entities["entity"])), at.size)
    used = np.flatnonzero(weight)
    if len(used) == 0:
        return {}
    linking = weight[entity] > 0
    return {
        "names": np.asarray(entities["name"], dtype=object)[used],
        "weight": weight[used].astype("<f8"),
        "row": local(mentions["row"], at.first)[linking],
        "entity": np.searchsorted(used, entity[linking]).astype("<i4"),
    }


def _links(query: Query, at: Range) -> Arrays:
    """Returns the relations between memories, and which memory (`replaced_by`) took the place of which (`replaced`)."""
    relations, replaced = query(_RELATIONS, at.scope).fetchnumpy(), query(_REPLACED, at.rows).fetchnumpy()
    if len(relations["label"]) == 0 and len(replaced["older_row"]) == 0:
        return {}
    return {
        "newer": local(relations["newer_row"], at.first),
        "older": local(relations["older_row"], at.first),
        "label": np.searchsorted(RELATION_LABELS, relations["label"].astype(str)).astype("<i4"),
        "confidence": np.asarray(relations["confidence"], "<f4"),
        "replaced_by": local(replaced["newer_row"], at.first),
        "replaced": local(replaced["older_row"], at.first),
    }


def _formed(query: Query, at: Range) -> Arrays:
    """Returns each formed memory (`row`) with each that it rests on, and its kind: one of `kinds`, -1 for none."""
    found = query(_FORMED, at.scope | {"unit": REFLECTION}).fetchall()
    if not found:
        return {}
    rows, evidence, kinds = (list(column) for column in zip(*found, strict=True))
    codes, names = encode(kinds)
    return {
        "row": local(np.array(rows), at.first),
        "evidence": local(np.array(evidence), at.first),
        "kind": codes,
        "kinds": names,
    }


def _passages(query: Query, at: Range) -> Arrays:
    """Returns names and titles, and which memory names which entity."""
    names = query(_NAMES, at.scope).fetchnumpy()
    if len(names["key"]) == 0:
        return {}
    entities = query(_ENTITIES, at.scope).fetchnumpy()
    first = int(entities["entity"][0])  # those of a scope follow each other
    arrays: Arrays = {
        "names": np.asarray(entities["name"], dtype=object),
        "key": np.asarray(names["key"], "<i8"),
        "key_entity": local(names["entity"], first),
        "first_entity": np.array([first], "<i4"),
    }
    for name, sql in (("mention", _MENTIONS), ("title", _TITLES)):
        found = query(sql, at.rows).fetchnumpy()
        arrays[f"{name}_row"], arrays[f"{name}_entity"] = local(found["row"], at.first), local(found["entity"], first)
    return arrays


def entity_ids(query: Query, at: Range) -> list[str]:
    """Returns the ids of a scope's entities, by local number."""
    return [str(i) for (i,) in query(_ENTITY_IDS, at.scope).fetchall()]


def _languages(query: Query, at: Range) -> Arrays:
    """Returns the languages by which texts of a scope are indexed; empty where English is the only one."""
    found = [str(language) for (language,) in query(_LANGUAGES, at.rows).fetchall()]
    return {} if found in ([], [ENGLISH]) else {"languages": found}


PARTS: dict[str, Callable[[Query, Range], Arrays]] = {
    "order": _order,
    "written": _written,
    "assistant": _assistant,
    "periods": _periods,
    "withheld": _withheld,
    "reasons": _reasons,
    "priors": _priors,
    "named": _named,
    "links": _links,
    "formed": _formed,
    "passages": _passages,
    "fields": read_fields,
    "metadata": read_metadata,
    "languages": _languages,
}
"""Reads each part of a scope, by name."""
