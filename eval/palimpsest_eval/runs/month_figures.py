"""Figures of one collection and month of a published build: its memories, and how well their questions are answered."""

import datetime as dt
from dataclasses import dataclass

import polars as pl

from palimpsest.store.builds import Build
from palimpsest.store.home import data_folder
from palimpsest_eval.golden.build_tables import JUDGED_TABLES, Tables, collection_tables, retired_ids
from palimpsest_eval.golden.golden_run import TOP, GoldenRun
from palimpsest_eval.golden.questions import GoldenSet, load_questions
from palimpsest_eval.golden.resolve import resolve

_RECALL = f"R@{TOP}"


@dataclass(frozen=True)
class MonthFigures:
    """Counts of the memories of a month, by `observed_at`, else `valid_from`.

    Attributes:
        memories: all of them.
        latest: those that are true now.
        superseded: those that a newer memory updated, or that a person retired.
        questions: golden questions with evidence in the month that the build was judged by.
        recall: their mean R@5 as the build was judged; None where there are none.
    """

    memories: int
    latest: int
    superseded: int
    questions: int
    recall: float | None


def month_figures(build: Build, collection: str, month: dt.date) -> MonthFigures:
    """Returns the figures of a collection's month; nothing is searched, questions have what the gate measured.

    Args:
        build: the build.
        collection: name of the collection.
        month: any day of the month.
    """
    tables = {name: build.table(collection, name) for name in JUDGED_TABLES}
    dated = pl.coalesce("observed_at", "valid_from")
    found = tables["memories"].filter(dated.dt.year() == month.year, dated.dt.month() == month.month)
    memories = frozenset(found["memory_id"])
    superseded = len(memories & retired_ids(tables))
    recalls = _recalls(build, collection, tables, memories)
    mean = sum(recalls) / len(recalls) if recalls else None
    return MonthFigures(len(memories), len(memories) - superseded, superseded, len(recalls), mean)


def _recalls(build: Build, collection: str, tables: Tables, memories: frozenset[str]) -> list[float]:
    """Returns R@5 of each question that some of the memories are evidence of; none where the questions changed since.

    Questions that were not judged, such as those about what people deleted, are left out.
    """
    raw = (build.manifest.golden_runs or {}).get(collection)
    questions = load_questions(data_folder(), collection) if raw else None
    if raw is None or questions is None:
        return []
    run, user = GoldenRun.from_json(raw), build.manifest.default_user(collection)
    if run.golden_hash != GoldenSet(collection, tuple(questions), user).hash:
        return []
    judged = GoldenSet(collection, tuple(q for q in questions if q.id in run.per_query), user)
    resolved = resolve(judged, collection_tables(tables, collection))
    return [run.per_query[r.question.id][_RECALL] for r in resolved if memories & frozenset().union(*r.needs)]
