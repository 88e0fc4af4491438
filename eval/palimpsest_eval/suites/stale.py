"""Rows of a suite that state what is no longer true, by the query that they would answer wrongly."""

from collections.abc import Mapping
from pathlib import Path

from palimpsest.core.errors import PalimpsestError

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
