"""What formed memories are worth: R@5 of questions about facts, preferences, decisions and solutions, with and without.

    python -m palimpsest_eval.runs.formed_questions petra [--misses]

Builds the conversations of one user twice, with turns alone and with `reflection` by rules, and searches the user's
questions in both. Those of Petra and Noor are read while rules and ranking change; those of Yusuf and Emeka only to
report figures.
"""

import argparse
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import open_index
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenSet, Question, load_golden
from palimpsest_eval.golden.resolve import resolve
from palimpsest_eval.runs.measure_formation import HOUSEHOLD, conversations_of

FORMS: Mapping[str, str] = {"turns": "[turns]", "turns and reflection": "[turns, reflection]"}
"""`form` of the collection, by the name of the column."""

QUESTIONS: Mapping[str, str] = {
    **dict.fromkeys(("petra", "noor"), f"golden/{HOUSEHOLD}.jsonl"),
    **{user: f"golden/formation/{user}_questions.jsonl" for user in ("yusuf", "emeka")},
}
"""The file of each user's questions, in the data folder."""

TOP = 5
_PROMOTE = "promote: [fact, preference, decision, solution, inference, gap]"


def question_kind(question_id: str) -> str:
    """Returns what a question asks for: `solution` of `household-petra-solution-04`."""
    return question_id.split("-")[2]


def measure(conversations: Path, questions: Sequence[Question], folder: Path, form: str) -> dict[str, float]:
    """Returns R@5 of each question on a build of one user's conversations with this `form`.

    Args:
        conversations: the file.
        questions: of the user.
        folder: where the home is written.
        form: see FORMS.
    """
    corpus = folder / "corpora" / HOUSEHOLD
    corpus.mkdir(parents=True)
    shutil.copy(conversations, corpus)
    settings = (
        f"name: {HOUSEHOLD}",
        "description: one user",
        f"user_id: {conversations.stem}",
        f"form: {form}",
        _PROMOTE,
    )
    (corpus / "collection.yaml").write_text("\n".join([*settings, ""]), encoding="utf-8")
    home = Home(folder / "home")
    build = run_without_dagster(home, make_plan(home, [corpus.parent]))
    resolved = resolve(GoldenSet(HOUSEHOLD, tuple(questions)), build.tables(JUDGED_TABLES))
    recall = {}
    with open_index(build.index) as reader:
        for item in resolved:
            query = item.query(HOUSEHOLD)
            found = reader.search(query.text, query.scope, k=TOP, all_results=True)
            recall[item.question.id] = item.recall([m.memory_id for m in found.memories], TOP)
    return recall


def means_text(recall: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns a table: a line for each kind and for all, a column for each form.

    Args:
        recall: R@5 by question id, by form.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for form, of_question in recall.items():
        for question_id, value in of_question.items():
            for kind in (question_kind(question_id), "all"):
                values[kind][form].append(value)
    lines = [f"{'':14}" + "".join(form.rjust(24) for form in recall)]
    for kind in sorted(values, key=lambda k: (k == "all", k)):
        columns = "".join(f"{sum(values[kind][form]) / len(values[kind][form]):24.3f}" for form in recall)
        lines.append(f"{kind + ' ' + str(len(values[kind][next(iter(recall))])):14}{columns}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("user", choices=tuple(QUESTIONS))
    parser.add_argument("--misses", action="store_true", help="name the questions that a form finds in part")
    options = parser.parse_args(arguments)
    questions = [q for q in load_golden(data_folder() / QUESTIONS[options.user]) or () if q.user == options.user]
    conversations = conversations_of(options.user)
    recall: dict[str, dict[str, float]] = {}
    for form, setting in FORMS.items():
        with tempfile.TemporaryDirectory(prefix="palimpsest-formed-") as scratch:
            recall[form] = measure(conversations, questions, Path(scratch), setting)
    sys.stdout.write("\n".join(means_text(recall)) + "\n")
    for q in questions if options.misses else ():
        found = [recall[form][q.id] for form in FORMS]
        if min(found) < 1:
            sys.stdout.write(f"{q.id} {' '.join(f'{r:.2f}' for r in found)} {q.question}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
