"""A suite being converted: rows, queries and judgements of a public data set, checked when added, then written."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest_eval.suites.suite import STALE_FILE, STALE_HEADER

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
