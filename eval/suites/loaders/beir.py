"""Folders as BEIR hands them out: corpus.jsonl, queries.jsonl, and judgements of each split under qrels/."""

from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.eval.metrics.rows import json_rows, row_text
from palimpsest.eval.suites.loaders.layout import Layout

SPLITS = ("test", "dev", "train")


def beir(folder: Path, out: Layout) -> None:
    """Fills the layout from a BEIR folder: the judgements of test, else dev, else train, and the queries they name.

    Source: Thakur et al., NeurIPS 2021.

    Raises:
        PalimpsestError: a file is missing or not in the layout; the message names file and line.
    """
    for where, row in json_rows(folder / "corpus.jsonl"):
        title, text = str(row.get("title") or ""), row_text(row, "text", where, may_be_empty=True)
        if text.strip() or title.strip():
            out.row(row_text(row, "_id", where), text, title)
    asked = {
        row_text(row, "_id", where): row_text(row, "text", where) for where, row in json_rows(folder / "queries.jsonl")
    }
    path = next((p for s in SPLITS if (p := folder / "qrels" / f"{s}.tsv").is_file()), None)
    if path is None:
        raise PalimpsestError(f"suite {folder}: qrels/ holds none of {', '.join(f'{s}.tsv' for s in SPLITS)}; add one")
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[1:], 2):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != 3 or not cells[2].strip().lstrip("-").isdigit():
            raise PalimpsestError(f"{path.name} line {number}: must be query-id, corpus-id and score, tab-separated")
        if cells[0] not in asked:
            raise PalimpsestError(f"{path.name} line {number}: query {cells[0]!r} is not in queries.jsonl")
        grades.setdefault(cells[0], {})[cells[1]] = max(int(cells[2]), 0)
    for query_id, told in grades.items():
        out.query(query_id, asked[query_id], told)
