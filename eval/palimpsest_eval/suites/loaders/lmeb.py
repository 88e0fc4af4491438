"""LMEB: tasks of retrieving memories, each with the candidates of a scene."""

from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.metrics.rows import json_rows
from palimpsest_eval.suites.loaders.record import Record
from palimpsest_eval.suites.loaders.suite_draft import SuiteDraft
from palimpsest_eval.suites.qrels import qrels_rows

CANDIDATES = "candidates.jsonl"
_WHOLE_CORPUS = "all"


def lmeb_files(folder: Path) -> list[Path]:
    """Returns the files of a task; the corpus and the candidates may be in the folder above, for several tasks."""
    shared = [_here_or_above(folder, name) for name in ("corpus.jsonl", CANDIDATES)]
    return [folder / "queries.jsonl", folder / "qrels.tsv", *shared]


def is_lmeb(folder: Path) -> bool:
    """Returns whether a folder is a task of LMEB."""
    return all(path.is_file() for path in lmeb_files(folder))


def _here_or_above(folder: Path, name: str) -> Path:
    above = folder.resolve().parent / name
    return above if not (folder / name).is_file() and above.is_file() else folder / name


def load_lmeb(folder: Path, draft: SuiteDraft) -> None:
    """Adds a task of LMEB: a scope for each set of candidates, with a row for each of them.

    A query belongs to the scene that has its id, or the first two parts of its id (`scene_3_q_0` to `scene_3`); where
    there is none, the whole corpus is searched. Scenes with the same candidates are one scope.

    Source: Zhao et al., arXiv 2603.12572; KaLM-Embedding/LMEB, `src/abstasks/`: `queries.jsonl` {id, text},
    `corpus.jsonl` {id, title, text}, `candidates.jsonl` {scene_id, candidate_doc_ids}, `qrels.tsv` without a header.

    Raises:
        PalimpsestError: a file is missing or not in the layout; the message names file, line and field.
    """
    queries, qrels, corpus, candidates = lmeb_files(folder)
    texts = {row.text("id"): (_plain(row, "title"), _plain(row, "text")) for row in _rows(corpus)}
    scenes = {
        r.text("scene_id"): tuple(dict.fromkeys(map(str, r.items("candidate_doc_ids")))) for r in _rows(candidates)
    }
    grades: dict[str, dict[str, int]] = {}
    for _, query_id, corpus_id, score in qrels_rows(qrels, header="none"):
        grades.setdefault(query_id, {})[corpus_id] = max(score, 0)
    scopes: dict[tuple[str, ...], str] = {}
    for query in _rows(queries):
        query_id = query.text("id")
        scene = next((s for s in (query_id, "_".join(query_id.split("_")[:2])) if s in scenes), None)
        pool = tuple(texts) if scene is None else scenes[scene]
        scope = scopes.get(pool)
        if scope is None:
            scope = scopes[pool] = scene or _WHOLE_CORPUS
            for doc in pool:
                if doc not in texts:
                    raise PalimpsestError(
                        f"{candidates.name}: candidate {doc!r} of scene {scene} is not in corpus.jsonl"
                    )
                title, text = texts[doc]
                draft.add_row(f"{scope}:{doc}", text, title, scope)
        relevant = {f"{scope}:{doc}": grade for doc, grade in grades.pop(query_id, {}).items()}
        draft.add_query(query_id, query.text("text"), relevant, scope=scope)
    if grades:
        raise PalimpsestError(f"{qrels.name}: query {min(grades)!r} is not in queries.jsonl ({folder})")


def _rows(path: Path) -> list[Record]:
    return [Record(row, where) for where, row in json_rows(path)]


def _plain(row: Record, name: str) -> str:
    return str(row.get(name) or "")
