"""Follow-up questions with their turns, without them, and with the turns simply added: R@5 by kind.

`python -m palimpsest_eval.studies.follow_ups --home HOME` searches the follow-up questions of the home's collections.
The rules that resolve turns were made with the half `tune`; `held_out` was read after them.
"""

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.turns.resolve import resolve_text
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder
from palimpsest_eval.golden.build_tables import JUDGED_TABLES, collection_tables
from palimpsest_eval.golden.questions import GoldenSet, Question, load_questions
from palimpsest_eval.golden.resolve import ResolvedQuestion, resolve
from palimpsest_eval.runs.judge_build import build_to_judge

TOP = 5
SWITCH = "follow_up_switch"

METHODS: Mapping[str, Callable[[str, Sequence[str]], str]] = {
    "question alone": lambda question, turns: question,
    "turns": lambda question, turns: resolve_text(question, turns).text,
    "last question + question": lambda question, turns: f"{_last_question(turns)} {question}",
    "last turn + question": lambda question, turns: f"{turns[-1]} {question}",
    "last two turns + question": lambda question, turns: f"{' '.join(turns[-2:])} {question}",
}
"""What is searched, by the name of each method."""


def split_half(question_id: str) -> str:
    """Returns the half that a question belongs to, `tune` or `held_out`: by a hash of its id."""
    first = hashlib.blake2b(f"17:{question_id}".encode(), digest_size=4).digest()[0]
    return "held_out" if first % 2 else "tune"


def measure(reader: Reader, resolved: Sequence[ResolvedQuestion], collection: str) -> list[tuple[str, str, str, float]]:
    """Returns (half, type, method, R@5) of each question by each method."""
    rows = []
    for item in resolved:
        question, query = item.question, item.query(collection)
        filters = {name: value for name, value in query.filters.items() if name != "turns"}
        for method, text in METHODS.items():
            searched = text(question.question, question.turns)
            found = reader.search(searched, query.scope, k=TOP, all_results=True, **filters)  # type: ignore[arg-type]
            recall = item.recall([m.memory_id for m in found.memories], TOP)
            rows.append((split_half(question.id), question.type, method, recall))
    return rows


def means_text(rows: Sequence[tuple[str, str, str, float]]) -> list[str]:
    """Returns a table of each half: a line for each method, a column for each type and for all that need turns."""
    lines = []
    for half in sorted({row[0] for row in rows}):
        values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for _, kind, method, recall in (row for row in rows if row[0] == half):
            values[method][kind].append(recall)
            if kind != SWITCH:
                values[method]["dependent"].append(recall)
        kinds = sorted(values["question alone"])
        sizes = [len(values["question alone"][kind]) for kind in kinds]
        lines.append(
            f"{half:28}"
            + "".join(f"{k.removeprefix('follow_up_')} {n}".rjust(15) for k, n in zip(kinds, sizes, strict=True))
        )
        for method, by_kind in values.items():
            lines.append(f"{method:28}" + "".join(f"{sum(by_kind[k]) / len(by_kind[k]):15.3f}" for k in kinds))
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, default=Path(DEFAULT_HOME))
    options = parser.parse_args(arguments)
    try:
        build = build_to_judge(Home(options.home))
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    tables, rows = build.tables(JUDGED_TABLES), []
    with open_index(build.index) as reader:
        for name in build.collections:
            questions: Sequence[Question] = [q for q in load_questions(data_folder(), name) or () if q.turns]
            golden = GoldenSet(name, tuple(questions), build.manifest.settings["collections"][name]["user_id"])
            rows += measure(reader, resolve(golden, collection_tables(tables, name)), name)
    sys.stdout.write("\n".join(means_text(rows)) + "\n")
    return 0


def _last_question(turns: Sequence[str]) -> str:
    return next((t for t in reversed(turns) if "?" in t), turns[-1])


if __name__ == "__main__":
    raise SystemExit(main())
