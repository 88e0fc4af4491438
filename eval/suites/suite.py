"""Suites: corpus, queries and judgements in the BEIR layout, read strictly and measured through a reader."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash, write_bytes
from palimpsest.eval.golden.by_type import by_type, time_kind
from palimpsest.eval.golden.golden_run import BUDGET_TOKENS, DEPTH, Searcher
from palimpsest.eval.metrics.measures import MEASURES, MetricError, evaluate, percentiles
from palimpsest.eval.metrics.rows import json_rows, row_text
from palimpsest.query.request.types import Scope

SHARED_USER = "shared"
CORPUS_FILE = "corpus.jsonl"
_QRELS_HEADER = ["query-id", "corpus-id", "score"]


@dataclass(frozen=True)
class Query:
    """One query; it is searched inside its own scope only."""

    query_id: str
    text: str
    scope: str | None = None
    type: str | None = None


@dataclass(frozen=True)
class Suite:
    """A checked suite. `scopes` maps each corpus id to its scope; `qrels` holds graded judgements, 0 included."""

    name: str
    folder: Path
    extra: Path | None
    scopes: Mapping[str, str | None]
    queries: tuple[Query, ...]
    qrels: Mapping[str, Mapping[str, int]]
    ordered_turns: bool = False

    @property
    def judged(self) -> tuple[Query, ...]:
        """The queries that have a relevant document."""
        return tuple(q for q in self.queries if any(g >= 1 for g in self.qrels.get(q.query_id, {}).values()))


def load_suite(folder: Path, extra: Path | None = None) -> Suite:
    """Reads and checks `corpus.jsonl`, `queries.jsonl`, `qrels.tsv` and, after the corpus, the rows of `extra`.

    Raises:
        PalimpsestError: a file is missing, empty or not in the layout; an id is used twice; a judgement names an
            unknown query or row, or a row of another scope than the query's. The message names file and line.
    """
    if not folder.is_dir():
        raise PalimpsestError(
            f"suite {folder}: no such folder; name one with {CORPUS_FILE}, queries.jsonl and qrels.tsv"
        )
    scopes: dict[str, str | None] = {}
    spoken = 0
    for path in [folder / CORPUS_FILE, *([extra] if extra else [])]:
        for where, row in json_rows(path):
            corpus_id = row_text(row, "_id", where)
            if corpus_id in scopes:
                raise PalimpsestError(f"{where}: _id {corpus_id!r} is used twice; rename one")
            row_text(row, "text", where, may_be_empty=True)
            if not isinstance(row.get("title") or "", str):
                raise PalimpsestError(f"{where}: title must be a string")
            meta = row.get("meta") or {}
            if not isinstance(meta, dict):
                raise PalimpsestError(f"{where}: meta must be an object")
            scopes[corpus_id] = _scope(row, where)
            spoken += bool(meta.get("speaker"))
    queries: dict[str, Query] = {}
    for where, row in json_rows(folder / "queries.jsonl"):
        query_id = row_text(row, "_id", where)
        if query_id in queries:
            raise PalimpsestError(f"{where}: _id {query_id!r} is used twice; rename one")
        kind = row.get("type")
        queries[query_id] = Query(
            query_id, row_text(row, "text", where), _scope(row, where), None if kind is None else str(kind)
        )
    qrels = _qrels(folder / "qrels.tsv", scopes, queries)
    turns = 2 * spoken > len(scopes)
    return Suite(folder.resolve().name, folder, extra, scopes, tuple(queries.values()), qrels, turns)


def suite_digest(folder: Path, extra: Path | None = None) -> str:
    """Returns 32 hex digits over what a suite's home is built from: the corpus and the extra rows, not the queries."""
    h = hashlib.blake2b(digest_size=16)
    for path in [folder / CORPUS_FILE, *([extra] if extra else [])]:
        if not path.is_file():
            raise PalimpsestError(f"suite {path}: no such file; give the path of a suite folder or of extra rows")
        h.update(file_hash(path).encode())
    return h.hexdigest()


def materialise(suite: Suite, folder: Path) -> Path:
    """Lays the corpus out for `palimpsest build`: `<folder>/<name>/collection.yaml` and its corpus.jsonl.

    A row's scope becomes its user; rows without one belong to the user `shared`. Rows of `extra` follow the corpus's.

    Returns:
        The corpus folder, for `--corpus`; the collection's name is `collection_name(suite)`.
    """
    name = collection_name(suite)
    config = {
        "name": name,
        "description": f"Suite {suite.name}: {len(suite.scopes)} rows",
        "unit": "turn" if suite.ordered_turns else "chunk",
        "user_id": SHARED_USER,
    }
    data = b"".join(_whole_lines(p) for p in [suite.folder / CORPUS_FILE, *([suite.extra] if suite.extra else [])])
    write_bytes(folder / name / CORPUS_FILE, data)
    write_bytes(folder / name / "collection.yaml", yaml.safe_dump(config, sort_keys=False).encode())
    return folder


def collection_name(suite: Suite) -> str:
    """Returns the suite's name as a collection may be called."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in suite.name).lstrip("_.-")
    return kept[:64] or "suite"


def corpus_id(uri: str) -> str:
    """Returns the row's `_id` of a memory's uri, `<file>#<_id>`; an id may hold `#` itself."""
    return uri.partition("#")[2]


@dataclass
class _Measured:
    ranked: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    packed: dict[str, set[str]] = field(default_factory=dict)
    took_ms: dict[str, float] = field(default_factory=dict)
    leaks: int = 0


def run_suite(
    reader: Searcher,
    suite: Suite,
    strategy: str = "auto",
    budget_tokens: int = BUDGET_TOKENS,
    per_query_path: Path | None = None,
    *,
    depth: int = DEPTH,
    build: Mapping[str, Any] | None = None,
    measures: Sequence[str] = MEASURES,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Searches each judged query inside its scope and returns the JSON of `palimpsest suite`.

    `packed_recall` is the share of a query's relevant rows that are in the packed context (decision 17). Queries
    without a relevant row are not searched; `unjudged` counts them. One search a scope warms up and is not timed.

    Args:
        reader: reader of the suite's home.
        suite: the suite.
        strategy: strategy of the searches.
        budget_tokens: budget of the packed context.
        per_query_path: file for one JSON line a query: query_id, ranked, scores, metrics, ms.
        depth: length of a ranking; at least the deepest cut-off of the measures.
        build: what to tell of the build.
        measures: names of the metrics.
        clock: seconds; tests replace it.
        progress: called with (done, all) after each query.

    Raises:
        MetricError: no query is judged, none got a result, or a search returned a row of another scope.
    """
    queries = suite.judged
    if not queries:
        raise MetricError(f"suite {suite.name}: no judged query; qrels.tsv has no relevant row")
    found = _search_all(reader, suite, queries, strategy, budget_tokens, depth, clock, progress)
    if found.leaks:
        raise MetricError(f"suite {suite.name}: {found.leaks} results lie outside their query's scope")
    if not any(found.ranked.values()):
        raise MetricError(f"suite {suite.name}: no judged query was answered; the home is empty or of another corpus")
    qrels = {q.query_id: suite.qrels[q.query_id] for q in queries}
    scores = evaluate(found.ranked, qrels, measures)
    packed = {}
    for query_id, grades in qrels.items():
        relevant = {c for c, g in grades.items() if g >= 1}
        packed[query_id] = len(relevant & found.packed[query_id]) / len(relevant)
    per_query = {q: {**scores.per_query[q], "packed_recall": packed[q]} for q in qrels}
    if per_query_path is not None:
        lines = [
            {
                "query_id": q,
                "ranked": [c for c, _ in found.ranked[q]],
                "scores": [s for _, s in found.ranked[q]],
                "metrics": per_query[q],
                "ms": round(found.took_ms[q], 3),
            }
            for q in sorted(per_query)
        ]
        write_bytes(per_query_path, "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines).encode())
    mean = {m: scores.mean[m] for m in measures} | {"packed_recall": sum(packed.values()) / len(packed)}
    return {
        "suite": suite.name,
        "queries": len(queries),
        "unjudged": len(suite.queries) - len(queries),
        "strategy": strategy,
        "budget_tokens": budget_tokens,
        "metrics": mean,
        "by_type": by_type(per_query, {q.query_id: q.type for q in queries}),
        "by_time": by_type(per_query, {q.query_id: time_kind(q.text) for q in queries}),
        "latency_ms": {p: round(v, 3) for p, v in percentiles(list(found.took_ms.values())).items()},
        "build": dict(build or {}),
    }


def _search_all(
    reader: Searcher,
    suite: Suite,
    queries: Sequence[Query],
    strategy: str,
    budget_tokens: int,
    depth: int,
    clock: Callable[[], float],
    progress: Callable[[int, int], None] | None,
) -> _Measured:
    measured, name, warmed = _Measured(), collection_name(suite), set()
    for done, query in enumerate(queries, 1):
        user_id = query.scope or SHARED_USER
        filters = {"k": depth, "strategy": strategy, "budget_tokens": budget_tokens}
        where = Scope(name, user_id)
        if user_id not in warmed:
            reader.search(query.text, where, **filters)
            warmed.add(user_id)
        start = clock()
        results = reader.search(query.text, where, **filters)
        measured.took_ms[query.query_id] = (clock() - start) * 1000
        ids = {str(m.memory_id): corpus_id(m.uri) for m in results.memories}
        best: dict[str, float] = {}
        for memory in results.memories:
            row = ids[str(memory.memory_id)]
            measured.leaks += suite.scopes.get(row, "") != query.scope
            best.setdefault(row, float(memory.score))
        measured.ranked[query.query_id] = list(best.items())
        packed, context = {str(i) for i in results.packed_ids}, results.context
        # A row that says the same as a better one is folded into it: its whole text is in the context all the same.
        whole = {str(m.memory_id) for m in results.memories if " ".join(m.text.split()) in context}
        beside = {corpus_id(m.uri or "") for m in results.beside if str(m.memory_id) in packed}
        measured.leaks += sum(suite.scopes.get(row, "") != query.scope for row in beside)
        in_it = {row for i, row in ids.items() if i in packed or (context and i in whole)}
        measured.packed[query.query_id] = in_it | beside
        if progress is not None:
            progress(done, len(queries))
    return measured


def _scope(row: Mapping[str, Any], where: str) -> str | None:
    value = row.get("scope")
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise PalimpsestError(f"{where}: scope must be a non-empty string, or left out")
    return value


def _qrels(path: Path, scopes: Mapping[str, str | None], queries: Mapping[str, Query]) -> dict[str, dict[str, int]]:
    try:
        # Read with universal newlines; an id may hold other line separators.
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as e:
        raise PalimpsestError(f"suite {path}: {e.strerror or e}; a suite needs {path.name}") from None
    except UnicodeDecodeError:
        raise PalimpsestError(f"{path.name}: not UTF-8; save it as UTF-8 ({path})") from None
    if not lines or lines[0].split("\t") != _QRELS_HEADER:
        raise PalimpsestError(
            f"{path.name} line 1: the header must be query-id, corpus-id, score, tab-separated ({path})"
        )
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        where, cells = f"{path.name} line {number}", line.split("\t")
        if len(cells) != 3:
            raise PalimpsestError(f"{where}: {len(cells)} columns, not 3; separate query-id, corpus-id, score by tabs")
        query_id, row_id, score = cells
        try:
            grade = int(score)
        except ValueError:
            raise PalimpsestError(f"{where}: score {score!r} is not a whole number") from None
        if grade < 0:
            raise PalimpsestError(f"{where}: score {grade} is negative; use 0 for not relevant")
        if query_id not in queries:
            raise PalimpsestError(f"{where}: query {query_id!r} is not in queries.jsonl")
        if row_id not in scopes:
            raise PalimpsestError(f"{where}: row {row_id!r} is not in {CORPUS_FILE}")
        if scopes[row_id] != queries[query_id].scope:
            raise PalimpsestError(f"{where}: row {row_id!r} is outside the scope of query {query_id!r}")
        if row_id in qrels.setdefault(query_id, {}):
            raise PalimpsestError(f"{where}: row {row_id!r} is judged twice for query {query_id!r}")
        qrels[query_id][row_id] = grade
    return qrels


def _whole_lines(path: Path) -> bytes:
    data = path.read_bytes()
    return data if data.endswith(b"\n") else data + b"\n"
