"""Whether an exported and imported person has the same answers: golden questions, searched before and after.

    python -m palimpsest_eval.studies.export_round_trip [--questions 200]

Builds the demo, exports each user whom a question asks about, imports each export into an empty home without
vectors, builds that, and searches the same questions. An answer is the same with the same texts in the same order.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import run_without_dagster
from palimpsest.core.ids import content_id
from palimpsest.export.export_user import export_user
from palimpsest.export.import_export import import_export
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import load_collection
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.golden.questions import Question, load_questions

TOP = 10


@dataclass(frozen=True)
class ScopedQuestion:
    """A question and the scope in which it is searched."""

    scope: Scope
    question: Question


@dataclass(frozen=True)
class Answer:
    """What a search returned: ids and texts of memories in their order, and the packed context."""

    memory_ids: tuple[str, ...]
    texts: tuple[str, ...]
    context: str


@dataclass
class RoundTrip:
    """Counts of a study.

    Attributes:
        questions: that were searched in both homes.
        same_texts: with the same texts in the same order.
        same_ids: with the same memory ids in the same order.
        same_contexts: with the same packed context, citations included.
        users: who were exported, with the number of their memories.
        export_s: seconds of all exports.
        import_s: seconds of all imports.
        differing: ids of questions with other texts.
    """

    questions: int = 0
    same_texts: int = 0
    same_ids: int = 0
    same_contexts: int = 0
    users: dict[str, int] = field(default_factory=dict)
    export_s: float = 0.0
    import_s: float = 0.0
    differing: list[str] = field(default_factory=list)

    def count(self, question_id: str, before: Answer, after: Answer) -> None:
        """Counts one question."""
        self.questions += 1
        self.same_texts += before.texts == after.texts
        self.same_ids += before.memory_ids == after.memory_ids
        self.same_contexts += before.context == after.context
        if before.texts != after.texts:
            self.differing.append(question_id)


def sample(questions: Iterable[ScopedQuestion], number: int) -> list[ScopedQuestion]:
    """Returns some of the questions, chosen by a hash of their ids."""
    return sorted(questions, key=lambda a: content_id("round trip", a.question.id))[:number]


def golden_questions(corpus: Path) -> list[ScopedQuestion]:
    """Returns every golden question of the collections below a corpus folder, follow-up questions included."""
    found = []
    for folder in sorted(path.parent for path in corpus.glob("*/collection.yaml")):
        config = load_collection(folder)
        for q in load_questions(data_folder(), config.name) or ():
            found.append(ScopedQuestion(Scope(config.name, q.user or config.user_id), q))
    return found


def measure(corpus: Path, questions: Sequence[ScopedQuestion], folder: Path) -> RoundTrip:
    """Builds a corpus, moves every user with questions to an empty home, and compares the answers.

    Args:
        corpus: folder of collections.
        questions: the questions.
        folder: where homes and exports are written.
    """
    home, result = Home(folder / "home"), RoundTrip()
    before = _search(run_without_dagster(home, make_plan(home, [corpus])), questions)
    by_user: dict[str, list[ScopedQuestion]] = defaultdict(list)
    for a in questions:
        by_user[a.scope.user_id].append(a)
    for number, (user, theirs) in enumerate(sorted(by_user.items())):
        out, other = folder / f"export-{number}", Home(folder / f"home-{number}")
        started = time.perf_counter()
        result.users[user] = export_user(home, user, out).counts["memories"]
        exported = time.perf_counter()
        import_export(other, out)
        result.export_s += exported - started
        result.import_s += time.perf_counter() - exported
        after = _search(run_without_dagster(other, make_plan(other, None)), theirs)
        for a in theirs:
            result.count(a.question.id, before[a.question.id], after[a.question.id])
    return result


def _search(build: Build, questions: Sequence[ScopedQuestion]) -> dict[str, Answer]:
    found = {}
    with open_index(build.index) as reader:
        for a in questions:
            result = reader.search(a.question.question, a.scope, k=TOP, **a.question.filters)  # type: ignore[arg-type]
            ids, texts = (
                zip(*((m.memory_id, m.text) for m in result.memories), strict=True) if result.memories else ((), ())
            )
            found[a.question.id] = Answer(ids, texts, result.context)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study; returns 1 where an answer has other texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200, help="how many, chosen by a hash of their ids")
    options = parser.parse_args(arguments)
    corpus = data_folder() / "corpora"
    with tempfile.TemporaryDirectory(prefix="palimpsest-round-trip-") as scratch:
        result = measure(corpus, sample(golden_questions(corpus), options.questions), Path(scratch))
    sys.stdout.write(json.dumps(asdict(result), indent=1) + "\n")
    return int(bool(result.differing))


if __name__ == "__main__":
    raise SystemExit(main())
