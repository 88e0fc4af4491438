"""What rankers read of a whole scope beside its vectors and words, packed into bytes from the build's DuckDB file.

Parts: `order` of turns, `written` order in documents, `periods`, `reasons` why memories were retired, `standing`,
`topics`, `named` (entities that tell something), `passages` (names, titles, who names what) and `sentences`, in blocks
of memories. Memories are local rows in them, or their ids where rows would shift; entities of sentences are hashes of
their ids, so that a block stays as it is while its memories do.
"""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import numpy as np

from palimpsest.neo4j_graph.packed import bucket_of
from palimpsest.query.backends.duckdb_scope import (
    FOLLOWING,
    LABELS,
    NAMES,
    PERIODS,
    REASONS,
    STANDING,
    TITLES,
    TOKENS,
    TOPICS,
    WITHHELD,
    WRITTEN,
    standing_arrays,
)
from palimpsest.query.ranking.scope_graph import telling
from palimpsest.text.name_keys import name_key

_PER_BLOCK = 16  # memories: a question reads those of twenty, and each brings its block
_ENTITIES = "SELECT entity, entity_id, name FROM entities WHERE scope = $scope ORDER BY entity"
_MENTIONS = "SELECT row, entity FROM mentions WHERE row BETWEEN $first AND $last ORDER BY row, entity"
_SENTENCES = """
    SELECT m.memory_id, s.spans, s.counts, s.entities, s.vectors
    FROM sentences s JOIN memories m USING (row)
    WHERE s.row BETWEEN $first AND $last AND len(s.counts) > 0 ORDER BY m.memory_id"""


def pack_arrays(arrays: Mapping[str, np.ndarray | list[str]]) -> bytes:
    """Returns the bytes of named arrays: numbers as they are, texts joined; read by `unpack_arrays`."""
    head, parts = [], []
    for name, value in sorted(arrays.items()):
        if isinstance(value, list):
            data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
            head.append([name, "text", [len(value)], len(data)])
        else:
            data = np.ascontiguousarray(value).tobytes()
            head.append([name, value.dtype.str, list(value.shape), len(data)])
        parts.append(data)
    told = json.dumps(head).encode()
    return b"".join([np.array([len(told)], "<i8").tobytes(), told, *parts])


def unpack_arrays(data: bytes) -> dict[str, Any]:
    """Reads what `pack_arrays` wrote."""
    size = int(np.frombuffer(data, "<i8", 1)[0])
    out, at = {}, 8 + size
    for name, kind, shape, length in json.loads(data[8:at]):
        part = data[at : at + length]
        out[name] = (
            json.loads(part.decode("utf-8", "surrogatepass"))
            if kind == "text"
            else np.frombuffer(part, np.dtype(kind)).reshape(shape)
        )
        at += length
    return out


def blocks_of(memories: int) -> int:
    """Returns in how many blocks the sentences of a scope are kept: a power of two."""
    return 1 << max(0, -(-memories // _PER_BLOCK) - 1).bit_length()


def scope_arrays(db: duckdb.DuckDBPyConnection, scope: int, first: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Yields (part, bytes) of one scope of an index.

    Args:
        db: the index.
        scope: number of the scope.
        first: its first row.
        size: how many memories it has.
    """
    rows = {"first": first, "last": first + size - 1}

    def read(sql: str, **values: int) -> dict[str, np.ndarray]:
        return db.execute(sql, values).fetchnumpy()

    following, periods = read(FOLLOWING, **rows), read(PERIODS, **rows)
    if len(following["row"]):
        pairs = {n: _local(following[n], first) for n in ("row", "next_row")}
        tokens = np.asarray(read(TOKENS, **rows)["token_count"], "<i4")
        yield "order", pack_arrays(pairs | {"tokens": tokens})
    if len((written := read(WRITTEN, **rows))["row"]):
        yield "written", pack_arrays({n: _local(written[n], first) for n in ("row", "next_row")})
    if len(periods["row"]):
        spans = {n: np.asarray(periods[n], "<f8") for n in ("begins", "ends")}
        yield "periods", pack_arrays({"row": _local(periods["row"], first), **spans})
    hidden, pii, ends = db.execute(WITHHELD, rows).fetchall()[0]
    if hidden or pii or ends:
        micros = [round(e.replace(tzinfo=dt.UTC).timestamp() * 1_000_000) for e in ends or ()]
        flags = np.array([bool(hidden), bool(pii)], "<i4")
        yield "withheld", pack_arrays({"ends": np.array(micros, "<i8"), "flags": flags})
    if reasons := db.execute(REASONS, rows).fetchall():
        yield "reasons", pack_arrays({"ids": [i for i, _ in reasons], "told": [line for _, line in reasons]})
    observed, importance, support = standing_arrays(read(STANDING, **rows))
    told_of = {"observed": observed.astype("<f8"), "importance": importance.astype("<f8")}
    yield "standing", pack_arrays({**told_of, "support": support.astype("<i4")})
    labels = db.execute(LABELS, {"scope": scope}).fetchall()
    if labels:
        held = db.execute(TOPICS, rows).fetchall()
        number = {topic_id: i for i, (topic_id, *_) in enumerate(labels)}
        yield (
            "topics",
            pack_arrays(
                {
                    "labels": [label for _, label, _ in labels],
                    "parent": np.array([number.get(parent, -1) for *_, parent in labels], "<i4"),
                    "row": np.array([row - first for row, _, _ in held], "<i4"),
                    "topic": np.array([number[topic] for _, topic, _ in held], "<i4"),
                    "relevance": np.array([relevance for _, _, relevance in held], "<f8"),
                }
            ),
        )
    entities, names = read(_ENTITIES, scope=scope), read(NAMES, scope=scope)
    if len(entities["entity"]) == 0:
        return
    least = int(entities["entity"][0])
    yield from _named(entities, read(_MENTIONS, **rows), least, first, size)
    if len(names["key"]) == 0:
        return
    ids = [str(i) for i in entities["entity_id"]]
    told: dict[str, np.ndarray | list[str]] = {
        "names": [str(n) for n in entities["name"]],
        "hashes": np.array([name_key(i) for i in ids], "<i8"),
        "key": np.asarray(names["key"], "<i8"),
        "key_entity": _local(names["entity"], least),
        "blocks": np.array([blocks_of(size)], "<i4"),
    }
    for name, sql in (("mention", _MENTIONS), ("title", TITLES)):
        found = read(sql, **rows)
        told |= {f"{name}_row": _local(found["row"], first), f"{name}_entity": _local(found["entity"], least)}
    yield "passages", pack_arrays(told)
    hashes = np.asarray(told["hashes"])
    yield from _sentence_blocks(db.execute(_SENTENCES, rows).fetchall(), hashes, least, size)


def _named(
    entities: Mapping[str, np.ndarray], mentions: Mapping[str, np.ndarray], least: int, first: int, size: int
) -> Iterator[tuple[str, bytes]]:
    """Yields the entities that tell something, as `telling` has it, and who names them."""
    entity = _local(mentions["entity"], least)
    weight = telling(np.bincount(entity, minlength=len(entities["entity"])), size)
    useful = np.flatnonzero(weight)
    if len(useful):
        kept = weight[entity] > 0
        told: dict[str, np.ndarray | list[str]] = {
            "names": [str(entities["name"][i]) for i in useful],
            "weight": weight[useful].astype("<f8"),
            "row": _local(mentions["row"], first)[kept],
            "entity": np.searchsorted(useful, entity[kept]).astype("<i4"),
        }
        yield "named", pack_arrays(told)


def _sentence_blocks(found: list[Any], hashes: np.ndarray, least: int, size: int) -> Iterator[tuple[str, bytes]]:
    count = blocks_of(size)
    by_block: dict[int, list[Any]] = {}
    for memory in found:
        by_block.setdefault(bucket_of(memory[0], count), []).append(memory)
    for block, held in sorted(by_block.items()):
        flat = [np.asarray(entities, np.int64) - least for _, _, _, entities, _ in held]
        yield (
            f"sentences:{block}",
            pack_arrays(
                {
                    "ids": [i for i, *_ in held],
                    "sizes": np.array([len(counts) for _, _, counts, _, _ in held], "<i4"),
                    "spans": np.concatenate([np.asarray(spans, "<i4") for _, spans, _, _, _ in held]),
                    "counts": np.concatenate([np.asarray(counts, "<i4") for _, _, counts, _, _ in held]),
                    "entities": hashes[np.concatenate(flat)].astype("<i8"),
                    "vectors": np.frombuffer(b"".join(v or b"" for *_, v in held), "<f2").reshape(-1, 384),
                }
            ),
        )


def _local(values: np.ndarray, first: int) -> np.ndarray:
    return (np.asarray(values, np.int64) - first).astype("<i4")
