"""Golden questions of relations and of change: whether the first five lines of `graph` hold the answer.

`python -m palimpsest_eval.runs.measure_graph_answers --home HOME [--half test] [--backend neo4j]` prints, for each
collection and kind, the share that `graph relations` and `graph timeline` answer, and the share that the first five
results of a plain search over all versions do, for a timeline in the order in which they were observed. The rules were
made with the half `development`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.reader import Reader, open_home, open_index
from palimpsest.query.request.types import Scope
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder
from palimpsest_eval.golden.golden_facts import (
    TOP,
    ResolvedGraphQuestion,
    load_graph_questions,
    resolve_graph_questions,
)
from palimpsest_eval.golden.questions import JUDGED_TABLES, collection_tables
from palimpsest_eval.runs.judge_build import build_to_judge

Row = tuple[str, str, bool, bool]
"""Stratum and id of a question, whether `graph` answers it, and whether a plain search does."""


def measure(reader: Reader, resolved: Sequence[ResolvedGraphQuestion], default_user: str) -> list[Row]:
    """Returns whether each question is answered over the graph and by a plain search."""
    rows = []
    for item in resolved:
        question = item.question
        scope = Scope(question.collection, question.user or default_user)
        graph = reader.graph(scope)
        answer = (graph.relations if question.kind == "relations" else graph.timeline)(question.question, k=TOP)
        found = list(reader.search(question.question, scope, k=TOP, history=True).memories)
        if question.kind == "timeline":
            found.sort(key=lambda m: (m.observed_at is None, m.observed_at, m.ordinal))
        by_search = item.is_answered([[m.memory_id] for m in found])
        rows.append((question.stratum, question.id, item.is_answered([x.memory_ids for x in answer.lines]), by_search))
    return rows


def shares_text(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each stratum and one for all: questions, share answered by `graph` and by search."""
    lines = [f"{'':28}{'questions':>10}{'graph':>8}{'search':>8}"]
    for name in [*sorted({row[0] for row in rows}), "all"]:
        mine = [row for row in rows if name in (row[0], "all")]
        shares = [sum(answered) / len(mine) for answered in zip(*(row[2:] for row in mine), strict=True)]
        lines.append(f"{name:28}{len(mine):10}{shares[0]:8.2f}{shares[1]:8.2f}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(DEFAULT_HOME))
    parser.add_argument("--half", choices=["development", "test"], default="development")
    parser.add_argument("--backend", choices=["duckdb", "neo4j"], default="duckdb")
    parser.add_argument("--missed", action="store_true", help="name the questions that are not answered")
    options = parser.parse_args(arguments)
    try:
        rows = _measure_home(options)
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    missed = [f"missed: {row[1]}" for row in rows if not row[2]] if options.missed else []
    sys.stdout.write("\n".join([*shares_text(rows), *missed]) + "\n")
    return 0


def _measure_home(options: Any) -> list[Row]:
    build = build_to_judge(Home(options.home))
    tables, rows = build.tables(JUDGED_TABLES), list[Row]()
    questions = load_graph_questions(data_folder() / "golden" / "graph" / f"{options.half}.jsonl")
    is_neo4j = options.backend == "neo4j"
    with open_home(options.home, "neo4j", count_reads=False) if is_neo4j else open_index(build.index) as reader:
        for name in sorted({q.collection for q in questions} & set(build.collections)):
            user = build.manifest.settings["collections"][name]["user_id"]
            mine = [q for q in questions if q.collection == name]
            resolved = resolve_graph_questions(mine, collection_tables(tables, name), name, user)
            rows += measure(reader, resolved, user)
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
