"""The evidence of a suite's judgements: which words of a relevant row answer the query."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.metrics.rows import json_rows

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
