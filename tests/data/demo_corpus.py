"""The demo corpus and its golden sets, read as a build reads them."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from palimpsest.sources.discovery import source_files
from palimpsest.sources.extracted import CONVERSATION, ExtractedDocument
from palimpsest.sources.readers.read_source import read_source
from palimpsest.store.collection_config import load_collection

DATA = Path(__file__).resolve().parents[2] / "data"
CORPORA = DATA / "corpora"
GOLDEN = DATA / "golden"
COLLECTIONS = ("atlas", "diary", "household", "lexicon")
WITH_FOLLOW_UPS = ("atlas", "diary", "lexicon")
USERS = {"atlas": {"team"}, "diary": {"mira", "tobias", "ines"}, "household": {"noor", "petra"}, "lexicon": {"readers"}}


def fold(text: str) -> str:
    """Returns the words with one space between them, the borders of table cells left out."""
    return " ".join(word for word in text.split() if word != "|")


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.casefold()))


def overlap(one: set[str], two: set[str]) -> float:
    return len(one & two) / len(one | two)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def questions(collection: str) -> list[dict[str, Any]]:
    return rows(GOLDEN / f"{collection}.jsonl")


def spans(question: dict[str, Any]) -> list[dict[str, str]]:
    return [*question["evidence"], *question.get("stale", [])]


def sources(collection: str) -> list[tuple[str, Path]]:
    return list(source_files(CORPORA / collection, load_collection(CORPORA / collection)))


@cache
def read(collection: str) -> tuple[tuple[str, tuple[ExtractedDocument, ...], tuple[str, ...]], ...]:
    """Returns (suffix, documents, problems) of every source of a collection."""
    read = ((path.suffix, read_source(path, uri)) for uri, path in sources(collection))
    return tuple((suffix, extraction.documents, extraction.problems) for suffix, extraction in read)


@cache
def documents(collection: str) -> dict[str, ExtractedDocument]:
    """Returns the documents of a collection by uri, or `uri#session`."""
    found = [d for _, documents, _ in read(collection) for d in documents]
    return {f"{d.uri}#{d.session_id}" if d.session_id else d.uri: d for d in found}


@cache
def default_user(collection: str) -> str:
    return load_collection(CORPORA / collection).user_id


def owner(collection: str, document: ExtractedDocument) -> str:
    return document.user_id or default_user(collection)


@cache
def texts(collection: str, user: str) -> tuple[str, ...]:
    return tuple(fold(d.text) for d in documents(collection).values() if owner(collection, d) == user)


def utterances(document: ExtractedDocument) -> Iterator[tuple[str, datetime | None]]:
    """Yields (folded text, time) of each turn, or of a document that has none as a whole."""
    if document.media_type != CONVERSATION:
        yield fold(document.text), document.source_time
        return
    for s in document.segments:
        yield fold(document.text[s.char_start : s.char_end]), s.said_at


def times_of_quote(collection: str, user: str, span: dict[str, str]) -> list[datetime | None]:
    """Returns the times at which the span's document, or one of its turns, says the quote to this user."""
    document = documents(collection).get(span["uri"])
    if document is None or owner(collection, document) != user:
        return []
    return [when for text, when in utterances(document) if fold(span["quote"]) in text]


@cache
def register() -> tuple[dict[str, Any], ...]:
    return tuple(rows(GOLDEN / "relations.jsonl"))
