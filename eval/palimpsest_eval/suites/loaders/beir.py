"""Folders as BEIR distributes them: corpus.jsonl, queries.jsonl, and the judgements of each split under qrels/."""

from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.metrics.rows import json_rows, row_text
from palimpsest_eval.suites.loaders.suite_draft import SuiteDraft
from palimpsest_eval.suites.qrels import qrels_rows

SPLITS = ("test", "dev", "train")


def load_beir(folder: Path, draft: SuiteDraft) -> None:
    """Adds a BEIR folder: the judgements of test, else dev, else train, and the queries they name.

    A negative score counts as 0, and a judgement of a row that is not in the corpus is ignored.

    Source: Thakur et al., NeurIPS 2021.

    Raises:
        PalimpsestError: a file is missing or not in the layout; the message names file and line.
    """
    for where, row in json_rows(folder / "corpus.jsonl"):
        title, text = str(row.get("title") or ""), row_text(row, "text", where, may_be_empty=True)
        if text.strip() or title.strip():
            draft.add_row(row_text(row, "_id", where), text, title)
    queries = {
        row_text(row, "_id", where): row_text(row, "text", where) for where, row in json_rows(folder / "queries.jsonl")
    }
    path = next((p for s in SPLITS if (p := folder / "qrels" / f"{s}.tsv").is_file()), None)
    if path is None:
        raise PalimpsestError(
            f"suite {folder}: qrels/ contains none of {', '.join(f'{s}.tsv' for s in SPLITS)}; add one"
        )
    grades: dict[str, dict[str, int]] = {}
    for where, query_id, corpus_id, score in qrels_rows(path, header="skipped"):
        if query_id not in queries:
            raise PalimpsestError(f"{where}: query {query_id!r} is not in queries.jsonl")
        grades.setdefault(query_id, {})[corpus_id] = max(score, 0)
    for query_id, relevant in grades.items():
        draft.add_query(query_id, queries[query_id], relevant)
