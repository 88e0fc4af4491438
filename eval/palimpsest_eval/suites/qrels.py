"""Relevance judgements as tab-separated lines, in the layout of BEIR."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from palimpsest.core.errors import PalimpsestError

_HEADER = ["query-id", "corpus-id", "score"]


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
    if header == "checked" and lines[0].split("\t") != _HEADER:
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
