"""Objects of a public data set, read strictly: an error names the file, the item and the field."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest_eval.suites.suite import STALE_FILE, STALE_HEADER


@dataclass(frozen=True)
class Record:
    """An object of a file.

    Attributes:
        values: its fields.
        where: the file and the item or line, for messages.
        path: where the object is in its item, such as `conversation.session_1[0].`; empty for the item itself.
    """

    values: Mapping[str, JsonValue]
    where: str
    path: str = ""

    def get(self, name: str) -> JsonValue:
        """Returns a field as it is, None where there is none."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Returns a field that must be a text with characters, or a whole number, which becomes one.

        Raises:
            PalimpsestError: it is missing or something else.
        """
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            self.fail(name, "is required and must be a text that is not empty")
        return str(value)

    def items(self, name: str, required: bool = True) -> list[JsonValue]:
        """Returns a field that must be a list; an empty one where it is missing and not required.

        Raises:
            PalimpsestError: it is missing and required, or no list.
        """
        value = self.values.get(name)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            self.fail(name, "is required and must be a list" if required else "must be a list")
        return value

    def child(self, name: str) -> "Record":
        """Returns a field that must be an object.

        Raises:
            PalimpsestError: it is missing or no object.
        """
        value = self.values.get(name)
        if not isinstance(value, dict):
            self.fail(name, "is required and must be an object")
        return Record(value, self.where, f"{self.path}{name}.")

    def children(self, name: str, required: bool = True) -> list["Record"]:
        """Returns a field that must be a list of objects; none where it is missing and not required.

        Raises:
            PalimpsestError: it is missing and required, no list, or one of its entries is no object.
        """
        return self.objects(name, self.items(name, required))

    def objects(self, name: str, entries: Iterable[JsonValue]) -> list["Record"]:
        """Returns the entries of a list, which must be objects.

        Raises:
            PalimpsestError: one is not.
        """
        found = []
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict):
                self.fail(f"{name}[{i}]", "must be an object")
            found.append(Record(entry, self.where, f"{self.path}{name}[{i}]."))
        return found

    def fail(self, name: str, problem: str) -> NoReturn:
        """Reports a field.

        Raises:
            PalimpsestError: always; the message names file, item and field.
        """
        raise PalimpsestError(f"{self.where}: {self.path}{name} {problem}")


def records(items: Iterable[JsonObject], file: str) -> list[Record]:
    """Returns the items of a file, counted from 1."""
    return [Record(item, f"{file} item {number}") for number, item in enumerate(items, 1)]


# A suite being converted: rows, queries and judgements of a public data set, checked when added, then written.

Item = dict[str, Any]
"""One object of a data set; a loader that meets another shape than expected raises KeyError, TypeError or the like."""


@dataclass
class SuiteDraft:
    """What a loader fills. Rows with the same id are the same row; a query without a relevant row stays, unjudged."""

    source: Path
    rows: dict[str, JsonObject] = field(default_factory=dict)
    queries: dict[str, JsonObject] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    stale: dict[str, list[str]] = field(default_factory=dict)

    def add_row(self, row_id: str, text: str, title: str = "", scope: str | None = None, **meta: JsonValue) -> str:
        """Adds a row of the corpus and returns its id; empty values of `meta` are left out."""
        given = {k: v for k, v in meta.items() if v not in (None, "")}
        row: JsonObject = {"_id": row_id, "title": title, "text": text}
        row |= ({"scope": scope} if scope else {}) | ({"meta": given} if given else {})
        self.rows.setdefault(row_id, row)
        return row_id

    def add_query(
        self,
        query_id: str,
        text: str,
        relevant: Iterable[str] | Mapping[str, int],
        kind: str = "",
        scope: str | None = None,
        stale: Iterable[str] = (),
        as_of: str | None = None,
    ) -> None:
        """Adds a query with its relevant rows: ids, or grades by id. Ids of no row are ignored.

        Args:
            query_id: its id.
            text: the question.
            relevant: the rows that answer it.
            kind: its type.
            scope: the scope that is searched.
            stale: the rows that state what is no longer true, or never was.
            as_of: the day of the question.

        Raises:
            PalimpsestError: the id was used before.
        """
        if query_id in self.queries:
            raise PalimpsestError(f"{self.source}: question id {query_id!r} is used twice; rename one")
        query: JsonObject = {"_id": query_id, "text": text}
        self.queries[query_id] = query | {
            name: value for name, value in (("scope", scope), ("type", kind), ("as_of", as_of)) if value
        }
        grades = dict(relevant) if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)
        self.qrels[query_id] = {row_id: grade for row_id, grade in grades.items() if row_id in self.rows}
        if known := [row_id for row_id in stale if row_id in self.rows]:
            self.stale[query_id] = known

    def write(self, folder: Path) -> Path:
        """Writes corpus.jsonl, queries.jsonl, qrels.tsv and, where rows are stale, stale.tsv; returns the folder.

        Raises:
            PalimpsestError: there is no row, or no query is judged.
        """
        if not self.rows or not any(self.qrels.values()):
            raise PalimpsestError(
                f"suite {self.source}: has {len(self.rows)} texts and no judged question; give the complete data set"
            )
        header = "query-id\tcorpus-id\tscore\n"
        lines = [f"{q}\t{row_id}\t{grade}\n" for q, grades in self.qrels.items() for row_id, grade in grades.items()]
        write_bytes(folder / "corpus.jsonl", _jsonl(self.rows.values()))
        write_bytes(folder / "queries.jsonl", _jsonl(self.queries.values()))
        write_bytes(folder / "qrels.tsv", (header + "".join(lines)).encode())
        if self.stale:
            stale = [f"{q}\t{row_id}\n" for q, row_ids in self.stale.items() for row_id in row_ids]
            write_bytes(folder / STALE_FILE, "".join([f"{STALE_HEADER}\n", *stale]).encode())
        return folder


def content_row_id(*parts: str) -> str:
    """Returns 12 hex digits of a row's content: the same passage under two questions is one row."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _jsonl(rows: Iterable[Mapping[str, JsonValue]]) -> bytes:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode("utf-8", "replace")
