"""The documents table: every version of every document in the ingest log, and which of them is current."""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id, text_hash
from palimpsest.core.scopes import GENERAL, SCOPE, scope_parts
from palimpsest.memories.metadata_schema import without_broken_metadata
from palimpsest.memories.repeated_quotes import without_repeated_quotes
from palimpsest.sources.records.extracted import CONVERSATION
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.ingest_log import EXTRACTION, IngestLog
from palimpsest.store.tables import Schema, conform, empty

_NUMBER = re.compile(r"\d{1,9}")


def document_tables(
    log: IngestLog, config: CollectionConfig, folder: Path
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """Returns documents, document_texts, document_relations and rejects, and the stated relations that lead nowhere.

    A document is one (user, project, uri, session) of a source; each different content of it is a version with an id
    of its own. The version that the newest state of the source holds is current; the others name it in `superseded_by`.
    A version whose metadata break the collection's metadata_schema is in no table: the last one that did not stays
    current.
    """
    versions = log.versions()
    last = versions.group_by("uri").agg(pl.col("ordinal").max().alias("last"), pl.col("gone_at").last())
    frames = [
        log.text(v["text_key"]).with_columns(
            source=pl.lit(v["uri"]),
            seq=pl.lit(v["ordinal"], pl.Int64),
            ingested_at=pl.lit(v["seen_at"]),
        )
        for v in versions.to_dicts()
        if v["text_key"]
    ]
    extra: Schema = {"source": pl.String, "seq": pl.Int64, "ingested_at": pl.Datetime("us", "UTC")}
    seen = pl.concat([pl.DataFrame(schema=EXTRACTION | extra), *frames], how="vertical_relaxed")
    seen = seen.with_columns(pl.col("project_id").fill_null(GENERAL))
    ids = [version_id(config.name, r) for r in seen.select(_ID_FIELDS).iter_rows(named=True)]
    rows = (
        seen.with_columns(document_id=pl.Series(ids, dtype=pl.String))
        .sort("document_id", "seq")
        .group_by("document_id", maintain_order=True)
        .agg(pl.exclude("ingested_at").last(), pl.col("ingested_at").first())
        .join(last, left_on="source", right_on="uri", how="left")
        .with_columns(
            collection=pl.lit(config.name),
            kind=pl.coalesce("kind", kind_of(pl.col("media_type"))),
            is_current=(pl.col("seq") == pl.col("last")) & pl.col("gone_at").is_null(),
            content_hash=pl.col("text").map_elements(text_hash, return_dtype=pl.String),
        )
    )
    key = ["user_id", "project_id", "uri", "session_id"]
    rows, broken = without_broken_metadata(rows, config.metadata_schema, key)
    current = (
        rows.filter("is_current").select(*key, pl.col("document_id").alias("superseded_by")).unique(key, keep="first")
    )
    rows = rows.join(current, on=key, how="left", nulls_equal=True).with_columns(
        superseded_by=pl.when("is_current").then(None).otherwise("superseded_by")
    )
    rows = rows.filter(~pl.col("user_id").is_in(list(config.users.deny)))
    rows = without_repeated_quotes(rows).sort("document_id")
    relations, nowhere = _relations(rows, config, folder)
    return {
        "documents": conform(
            "documents", rows.drop("text", "relations", "segments", "source", "last", "gone_at", "redactions")
        ),
        "document_texts": conform("document_texts", rows.select("document_id", "text", "segments")),
        "document_relations": relations,
        "redactions": _redactions(rows),
        "rejects": _rejects(log, broken),
    }, nowhere


def not_stored(log: IngestLog) -> dict[str, int]:
    """Returns how many turns of the sources that are there now are not stored, by reason."""
    counts: Counter[str] = Counter()
    for told in log.current()["not_stored"].drop_nulls():
        counts.update(json.loads(told))
    return dict(sorted(counts.items()))


def _redactions(rows: pl.DataFrame) -> pl.DataFrame:
    found = [
        {**row, "kind": kind, "field": field, "char_start": start, "line": line}
        for *place, told in rows.select(*_PLACE, "redactions").iter_rows()
        for row in (dict(zip(_PLACE, place, strict=True)),)
        for kind, field, start, line in json.loads(told or "[]")
    ]
    frame = pl.DataFrame(found, schema=empty("redactions").schema)
    return conform("redactions", frame.sort("document_id", "field", "char_start", "kind", nulls_last=True))


_PLACE = ("document_id", *SCOPE, "session_id", "uri")
_ID_FIELDS = ("user_id", "project_id", "uri", "session_id", "title", "text", "metadata", "segments")


def version_id(collection: str, row: Mapping[str, Any]) -> str:
    """Returns the id of a document version, by all of its content; `row` is as `store.ingest_log.EXTRACTION` has it."""
    scope = scope_parts(collection, row["user_id"], row["project_id"])
    told = [row[f] for f in _ID_FIELDS[2:-1]]
    return content_id("document", *scope, *told, *_stated_of(row["segments"]))


def kind_of(media_type: pl.Expr) -> pl.Expr:
    """Returns the kind of source where a reader says none."""
    return pl.when(media_type == CONVERSATION).then(pl.lit("message")).otherwise(pl.lit("file"))


def _stated_of(segments: str) -> list[str]:
    """Returns what the turns of a document state, for its id; empty where they state nothing."""
    if '{"' not in segments:
        return []
    stated = [[row[0], row[7]] for row in json.loads(segments) if len(row) > 7]
    return [json.dumps(stated, sort_keys=True)] if stated else []


def _relations(rows: pl.DataFrame, config: CollectionConfig, folder: Path) -> tuple[pl.DataFrame, list[str]]:
    """Relations stated by current documents and by the collection's file of them; those that name no source apart."""
    owner = ["user_id", "project_id"]
    names = {(str(u), str(p)): _Names(uris) for u, p, uris in rows.group_by(owner).agg("uri").iter_rows()}
    stated = [
        ((user, project), uri, names[user, project].uri(older, uri), label)
        for user, project, uri, relations in rows.filter("is_current").select(*owner, "uri", "relations").iter_rows()
        for older, label in json.loads(relations)
    ]
    if config.document_relations:
        at = (config.user_id, config.project_id or GENERAL)
        own = names.setdefault(at, _Names([]))
        for newer, older, label in _read_relations(folder / config.document_relations):
            newer_uri = own.uri(newer, "")
            stated.append((at, newer_uri, own.uri(older, newer_uri), label))
    found = [r for r in stated if r[1] in names[r[0]].uris and r[2] in names[r[0]].uris]
    nowhere = sorted({f"{newer} {label}s {older}" for _, newer, older, label in set(stated) - set(found)})
    found = [(*at, *named) for at, *named in found]
    schema = dict.fromkeys([*owner, "newer_uri", "older_uri", "label"], pl.String())
    frame = pl.DataFrame(found, schema=schema, orient="row")
    frame = frame.with_columns(collection=pl.lit(config.name)).unique().sort(pl.all())
    return conform("document_relations", frame), nowhere


class _Names:
    """The uris that a document may mean when it names another: most people write `3` or `pep-3`, not `peps/pep-3.md`.

    A uri is itself. Else a number is the one source beside the document whose name holds it as its first number; else
    a name is the one source that bears it, without its suffix. Where several fit, none is meant.
    """

    def __init__(self, uris: Iterable[str]) -> None:
        self.uris = set(uris)
        self._stems: dict[str, set[str]] = {}
        self._numbered: dict[tuple[str, int], set[str]] = {}
        for uri in self.uris:
            path, _, row = uri.partition("#")
            stem = row or PurePosixPath(path).stem
            self._stems.setdefault(stem.casefold(), set()).add(uri)
            if number := _NUMBER.search(stem):
                self._numbered.setdefault((posixpath.dirname(path), int(number.group())), set()).add(uri)

    def uri(self, name: str, document_uri: str) -> str:
        """Returns the uri that `name` stands for in this document, or `name` where it is none or not clear."""
        if name in self.uris:
            return name
        found: set[str] = set()
        if name.isascii() and name.isdigit():
            found = self._numbered.get((posixpath.dirname(document_uri.partition("#")[0]), int(name)), set())
        found = found or self._stems.get(posixpath.basename(name).casefold(), set())
        return next(iter(found)) if len(found) == 1 else name


def _read_relations(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yields (newer, older, label) of a JSONL file with these fields."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise PalimpsestError(
            f"collection.yaml: document_relations: cannot read {path.name}; add it or drop the field ({path})"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            label = {"UPDATE": "UPDATE", "EXTEND": "EXTEND"}[row["label"]]
            yield str(row["newer"]), str(row["older"]), label
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(
                f"{path.name}: line {number}: needs newer, older and label UPDATE or EXTEND ({path})"
            ) from None


def _rejects(log: IngestLog, broken: list[dict[str, str]]) -> pl.DataFrame:
    """What could not be read, or breaks the collection's metadata_schema; for sources that are there now."""
    found = [
        {"uri": v["uri"], "stage": "read", "reason": reason}
        for v in log.current().to_dicts()
        for reason in [*([v["reason"]] if v["reason"] else []), *(v["problems"] or [])]
    ]
    return conform("rejects", pl.DataFrame(found + broken, schema=empty("rejects").schema).unique().sort(pl.all()))
