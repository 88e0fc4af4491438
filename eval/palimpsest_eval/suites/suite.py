"""Suites: corpus, queries and judgements in the BEIR layout, read strictly."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonValue
from palimpsest.text.chat_roles import chat_role
from palimpsest_eval.metrics.rows import json_rows, row_text
from palimpsest_eval.suites.evidence import EVIDENCE_FILE, Evidence, read_evidence
from palimpsest_eval.suites.qrels import read_qrels
from palimpsest_eval.suites.stale import STALE_FILE, read_stale

CORPUS_FILE = "corpus.jsonl"


@dataclass(frozen=True)
class SuiteQuery:
    """One query; it is searched inside its own scope only, as of a day where it names one."""

    query_id: str
    text: str
    scope: str | None = None
    type: str | None = None
    as_of: dt.date | None = None


@dataclass(frozen=True)
class Suite:
    """A checked suite.

    Attributes:
        name: name of its folder.
        folder: the folder.
        extra: a file of more corpus rows.
        scopes: the scope of each corpus id.
        queries: all queries, judged or not.
        qrels: graded judgements by query id and corpus id; 0 is not relevant.
        evidence: which words of relevant rows answer a query, by query id, where the suite states them.
        ordered_turns: whether most rows have a speaker, or a role of a chat.
        stale: superseded or contradicted rows by query id, where the suite states them.
        sessions: the session of each corpus id whose row names one.
    """

    name: str
    folder: Path
    extra: Path | None
    scopes: Mapping[str, str | None]
    queries: tuple[SuiteQuery, ...]
    qrels: Mapping[str, Mapping[str, int]]
    ordered_turns: bool = False
    evidence: Evidence = field(default_factory=dict)
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sessions: Mapping[str, str] = field(default_factory=dict)

    @property
    def judged(self) -> tuple[SuiteQuery, ...]:
        """The queries that have a relevant document."""
        return tuple(q for q in self.queries if self.relevant(q.query_id))

    @property
    def corpus_files(self) -> tuple[Path, ...]:
        """The files of its rows, the extra ones last."""
        return corpus_files(self.folder, self.extra)

    def relevant(self, query_id: str) -> set[str]:
        """Returns the corpus ids with a grade of 1 or more."""
        return {corpus_id for corpus_id, grade in self.qrels.get(query_id, {}).items() if grade >= 1}


def corpus_files(folder: Path, extra: Path | None) -> tuple[Path, ...]:
    """Returns the files of a suite's rows, the extra ones last."""
    return (folder / CORPUS_FILE, *([extra] if extra else []))


def load_suite(folder: Path, extra: Path | None = None) -> Suite:
    """Reads and checks `corpus.jsonl`, `queries.jsonl`, `qrels.tsv` and, after the corpus, the rows of `extra`.

    `evidence.tsv` may state which words of the relevant rows answer: see `read_evidence`; `stale.tsv`, which rows state
    what is no longer true: see `read_stale`.

    Raises:
        PalimpsestError: a file is missing, empty or not in the layout; an id is used twice; a judgement names an
            unknown query or row, or a row of another scope than the query's. The message names file and line.
    """
    if not folder.is_dir():
        raise PalimpsestError(
            f"suite {folder}: no such folder; name one with {CORPUS_FILE}, queries.jsonl and qrels.tsv"
        )
    scopes: dict[str, str | None] = {}
    sessions: dict[str, str] = {}
    speakers = 0
    for path in corpus_files(folder, extra):
        for where, row in json_rows(path):
            corpus_id = row_text(row, "_id", where)
            if corpus_id in scopes:
                raise PalimpsestError(f"{where}: _id {corpus_id!r} is used twice; rename one")
            scopes[corpus_id] = _scope(row, where)
            meta = _checked_meta(row, where)
            speakers += bool(meta.get("speaker") or chat_role(meta.get("role")))
            if (session := meta.get("session")) not in (None, ""):
                sessions[corpus_id] = str(session)
    queries: dict[str, SuiteQuery] = {}
    for where, row in json_rows(folder / "queries.jsonl"):
        query_id = row_text(row, "_id", where)
        if query_id in queries:
            raise PalimpsestError(f"{where}: _id {query_id!r} is used twice; rename one")
        kind = row.get("type")
        queries[query_id] = SuiteQuery(
            query_id,
            row_text(row, "text", where),
            _scope(row, where),
            None if kind is None else str(kind),
            _day(row, where),
        )
    query_scopes = {q: query.scope for q, query in queries.items()}
    qrels = read_qrels(folder / "qrels.tsv", scopes, query_scopes)
    most_speak = 2 * speakers > len(scopes)
    evidence = read_evidence(folder / EVIDENCE_FILE, corpus_files(folder, extra), qrels)
    stale = read_stale(folder / STALE_FILE, scopes, query_scopes)
    name, all_queries = folder.resolve().name, tuple(queries.values())
    return Suite(name, folder, extra, scopes, all_queries, qrels, most_speak, evidence, stale, sessions)


def _checked_meta(row: Mapping[str, JsonValue], where: str) -> Mapping[str, JsonValue]:
    """Checks text, title and meta of a row of the corpus; returns the meta.

    Raises:
        PalimpsestError: one of them has the wrong type; the message starts with `where`.
    """
    row_text(row, "text", where, may_be_empty=True)
    if not isinstance(row.get("title") or "", str):
        raise PalimpsestError(f"{where}: title must be a string")
    meta = row.get("meta") or {}
    if not isinstance(meta, dict):
        raise PalimpsestError(f"{where}: meta must be an object")
    return meta


def _day(row: Mapping[str, JsonValue], where: str) -> dt.date | None:
    if (value := row.get("as_of")) is None:
        return None
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError:
        raise PalimpsestError(f"{where}: as_of must be a day such as 2024-03-15, not {value!r}") from None


def _scope(row: Mapping[str, JsonValue], where: str) -> str | None:
    value = row.get("scope")
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise PalimpsestError(f"{where}: scope must be a non-empty string, or left out")
    return value
