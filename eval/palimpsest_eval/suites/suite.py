"""Suites: corpus, queries and judgements in the BEIR layout, read strictly."""

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash, write_bytes
from palimpsest.core.ids import JsonValue
from palimpsest.text.words import chat_role
from palimpsest_eval.metrics import json_rows, row_text

_QRELS_HEADER = ["query-id", "corpus-id", "score"]


# Relevance judgements as tab-separated lines, in the layout of BEIR.


def qrels_rows(
    path: Path, header: Literal["checked", "skipped", "none"] = "checked"
) -> Iterator[tuple[str, str, str, int]]:
    """Yields ("file line n", query id, corpus id, score) of each line under the header.

    Args:
        path: the file.
        header: whether the first line must have the usual names, is skipped unread, or is a judgement like the others.

    Raises:
        PalimpsestError: the file is missing or not UTF-8, has no header, or a line has not three columns or no
            whole number as its score.
    """
    try:
        # Read with universal newlines; an id may contain other line separators.
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as e:
        raise PalimpsestError(f"suite {path}: {e.strerror or e}; a suite needs {path.name}") from None
    except UnicodeDecodeError:
        raise PalimpsestError(f"{path.name}: not UTF-8; save it as UTF-8 ({path})") from None
    if header == "checked" and lines[0].split("\t") != _QRELS_HEADER:
        raise PalimpsestError(
            f"{path.name} line 1: the header must be query-id, corpus-id, score, tab-separated ({path})"
        )
    first = 1 if header == "none" else 2
    for number, line in enumerate(lines[first - 1 :], first):
        if not line.strip():
            continue
        where, cells = f"{path.name} line {number}", line.split("\t")
        if len(cells) != 3:
            raise PalimpsestError(f"{where}: {len(cells)} columns, not 3; separate query-id, corpus-id, score by tabs")
        query_id, corpus_id, score = cells
        try:
            yield where, query_id, corpus_id, int(score)
        except ValueError:
            raise PalimpsestError(f"{where}: score {score!r} is not a whole number") from None


def read_qrels(
    path: Path, scopes: Mapping[str, str | None], query_scopes: Mapping[str, str | None]
) -> dict[str, dict[str, int]]:
    """Returns graded judgements by query id and corpus id.

    Args:
        path: `qrels.tsv` of a suite.
        scopes: the scope of each corpus id.
        query_scopes: the scope of each query id.

    Raises:
        PalimpsestError: a line is malformed, has a negative score, an unknown query or row, or a row of another scope
            than the query's, or a row is judged twice; the message names the line. Or there is no judgement.
    """
    qrels: dict[str, dict[str, int]] = {}
    for where, query_id, corpus_id, grade in qrels_rows(path):
        if grade < 0:
            raise PalimpsestError(f"{where}: score {grade} is negative; use 0 for not relevant")
        if query_id not in query_scopes:
            raise PalimpsestError(f"{where}: query {query_id!r} is not in queries.jsonl")
        if corpus_id not in scopes:
            raise PalimpsestError(f"{where}: row {corpus_id!r} is not in corpus.jsonl")
        if scopes[corpus_id] != query_scopes[query_id]:
            raise PalimpsestError(f"{where}: row {corpus_id!r} is outside the scope of query {query_id!r}")
        if corpus_id in qrels.setdefault(query_id, {}):
            raise PalimpsestError(f"{where}: row {corpus_id!r} is judged twice for query {query_id!r}")
        qrels[query_id][corpus_id] = grade
    if not qrels:
        raise PalimpsestError(f"{path.name}: no judgement; add a line with query-id, corpus-id and score ({path})")
    return qrels


# The evidence of a suite's judgements: which words of a relevant row answer the query.


EVIDENCE_FILE = "evidence.tsv"
_HEADER = "query-id\tcorpus-id\tstart\tend"

Evidence = Mapping[str, tuple[tuple[str, str], ...]]
"""(corpus id, words) of each quote that a query needs, by query id."""


def read_evidence(path: Path, corpus: Iterable[Path], qrels: Mapping[str, Mapping[str, int]]) -> Evidence:
    """Returns the evidence of queries; none where the suite has no such file.

    Args:
        path: `evidence.tsv`: spans in the `text` of rows, in characters, under a header.
        corpus: the files of rows.
        qrels: judgements by query id and corpus id.

    Raises:
        PalimpsestError: a line is malformed, names a row that is not relevant for its query, or a span outside its row;
            the message names the line.
    """
    if not path.is_file():
        return {}
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    if header != _HEADER:
        raise PalimpsestError(f"{path.name} line 1: the header must be {_HEADER.split()}, tab-separated ({path})")
    named = {parts[1] for line in lines if len(parts := line.split("\t")) == 4}
    rows = (row for file in corpus for _, row in json_rows(file))
    texts = {str(row["_id"]): str(row.get("text") or "") for row in rows if str(row["_id"]) in named}
    found: dict[str, list[tuple[str, str]]] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        where, parts = f"{path.name} line {number}", line.split("\t")
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            raise PalimpsestError(f"{where}: need query-id, corpus-id, start and end, separated by tabs")
        query_id, row_id, start, end = parts[0], parts[1], int(parts[2]), int(parts[3])
        if qrels.get(query_id, {}).get(row_id, 0) < 1:
            raise PalimpsestError(f"{where}: row {row_id!r} is not relevant for query {query_id!r} in qrels.tsv")
        quote = " ".join(texts.get(row_id, "")[start:end].split())
        if not quote or end > len(texts[row_id]):
            raise PalimpsestError(f"{where}: {start}-{end} is no span of the text of row {row_id!r}")
        found.setdefault(query_id, []).append((row_id, quote))
    return {q: tuple(quotes) for q, quotes in found.items()}


# Rows of a suite that state what is no longer true, by the query that they would answer wrongly.

STALE_FILE = "stale.tsv"
STALE_HEADER = "query-id\tcorpus-id"


def read_stale(
    path: Path, scopes: Mapping[str, str | None], query_scopes: Mapping[str, str | None]
) -> dict[str, frozenset[str]]:
    """Returns the superseded or contradicted rows by query id; none where the suite has no such file.

    Args:
        path: `stale.tsv` of a suite.
        scopes: the scope of each corpus id.
        query_scopes: the scope of each query id.

    Raises:
        PalimpsestError: the header is wrong, or a line has not two columns, an unknown query or row, or a row of
            another scope than the query's; the message names the line.
    """
    if not path.is_file():
        return {}
    header, *lines = path.read_text(encoding="utf-8").split("\n")
    if header != STALE_HEADER:
        raise PalimpsestError(f"{path.name} line 1: the header must be query-id and corpus-id, tab-separated ({path})")
    stale: dict[str, set[str]] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        where, cells = f"{path.name} line {number}", line.split("\t")
        if len(cells) != 2:
            raise PalimpsestError(f"{where}: {len(cells)} columns, not 2; separate query-id and corpus-id by a tab")
        query_id, corpus_id = cells
        if query_id not in query_scopes:
            raise PalimpsestError(f"{where}: query {query_id!r} is not in queries.jsonl")
        if corpus_id not in scopes or scopes[corpus_id] != query_scopes[query_id]:
            raise PalimpsestError(f"{where}: row {corpus_id!r} is not in the scope of query {query_id!r}")
        stale.setdefault(query_id, set()).add(corpus_id)
    return {query_id: frozenset(rows) for query_id, rows in stale.items()}


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


# A suite as a collection that `palimpsest build` reads: its rows, their users, and the memories made of them.

SHARED_USER = "shared"
"""The user of the rows and queries without a scope."""


def suite_digest(folder: Path, extra: Path | None = None) -> str:
    """Returns 32 hex digits over what a suite's home is built from: the corpus and the extra rows, not the queries.

    Raises:
        PalimpsestError: one of the files is missing.
    """
    h = hashlib.blake2b(digest_size=16)
    for path in corpus_files(folder, extra):
        if not path.is_file():
            raise PalimpsestError(f"suite {path}: no such file; give the path of a suite folder or of extra rows")
        h.update(file_hash(path).encode())
    return h.hexdigest()


def write_collection(suite: Suite, folder: Path) -> Path:
    """Writes `<folder>/<name>/collection.yaml` and the rows in `<folder>/<name>/corpus.jsonl`, the extra ones last.

    A row's scope becomes its user; rows without one belong to the user `shared`.

    Returns:
        The corpus folder, for `--corpus`; the collection's name is `collection_name(suite)`.
    """
    name = collection_name(suite)
    config = {
        "name": name,
        "description": f"Suite {suite.name}: {len(suite.scopes)} rows",
        "unit": "turn" if suite.ordered_turns else "chunk",
        "user_id": SHARED_USER,
        "store_tool_outputs": True,  # a judgement may name any row
    }
    write_bytes(folder / name / CORPUS_FILE, b"".join(map(_read_lines, suite.corpus_files)))
    write_bytes(folder / name / "collection.yaml", yaml.safe_dump(config, sort_keys=False).encode())
    return folder


def collection_name(suite: Suite) -> str:
    """Returns the suite's name as a valid name of a collection."""
    valid = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in suite.name).lstrip("_.-")
    return valid[:64] or "suite"


def corpus_id(uri: str) -> str:
    """Returns the row's `_id` of a memory's uri, `<file>#<_id>`; an id may contain `#` itself."""
    return uri.partition("#")[2]


def _read_lines(path: Path) -> bytes:
    """Returns a file's bytes, the last line ended."""
    data = path.read_bytes()
    return data if data.endswith(b"\n") else data + b"\n"
