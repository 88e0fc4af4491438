"""People that a document names outside its text: its speakers, and authors, attendees and the like in its metadata."""

import json
import re
from collections.abc import Iterator

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.entities.names.find_names import entity_key
from palimpsest.entities.names.lexicon import word_set
from palimpsest.store.tables import Schema

_PEOPLE: Schema = {
    **dict.fromkeys(SCOPE, pl.String),
    "document_id": pl.String,
    "surface": pl.String,
    "key": pl.String,
}
_FIELDS = word_set(
    """
    author authors attendee attendees participant participants present from to cc sender recipient recipients owner
    owners reviewer reviewers approver member members contact contacts speaker speakers people presenter presenters
    host hosts guest guests creator editor editors signed_by written_by last_modified_by
    """
)
_ADDRESS = re.compile(r"(?<!\s)\s*+<[^<>]*+>\s*+$")
_NEXT_NAME = re.compile(
    r"[;,](?![^<]{0,320}>)"
)  # a mark inside an address, which has 320 characters at most, divides none
_FULL_NAME = re.compile(r"[^\W\d_][\w'’.\-]*(?: [^\W\d_][\w'’.\-]*){0,4}")  # noqa: RUF001
_MAX_NAMES = 200  # of one document


def find_people(memories: pl.DataFrame, documents: pl.DataFrame | None) -> pl.DataFrame:
    """Returns (scope, document_id, surface, key), sorted: speakers, and names of people in documents' metadata.

    Args:
        memories: the memories table.
        documents: the documents table, or none.
    """
    rows = memories.select(*SCOPE, "document_id", surface="speaker").drop_nulls("surface").unique().rows()
    if documents is not None and "metadata" in documents.columns:
        described = documents.filter(pl.col("metadata").fill_null("").str.len_chars() > len("{}"))
        for *at, metadata in described.select(*SCOPE, "document_id", "metadata").iter_rows():
            rows += [(*at, name) for name in _names_in(metadata)]
    frame = pl.DataFrame([(*r, entity_key(r[-1])) for r in rows], schema=_PEOPLE, orient="row")
    return frame.filter(pl.col("key") != "").unique().sort(pl.all())


def _names_in(metadata: str) -> list[str]:
    try:
        fields = json.loads(metadata)
    except ValueError:
        return []
    if not isinstance(fields, dict):
        return []
    values = (v for k, v in sorted(fields.items()) if k.lower().replace("-", "_") in _FIELDS for v in _strings(v))
    return [n for n, _ in zip(_person_names(values), range(_MAX_NAMES), strict=False)]


def _person_names(values: Iterator[str]) -> Iterator[str]:
    for value in values:
        for part in _NEXT_NAME.split(value):
            name = _ADDRESS.sub("", part).strip(" \"'")
            if _FULL_NAME.fullmatch(name) and name[0].isupper() and len(name) <= 60:
                yield name


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (v for v in value if isinstance(v, str))
